//! Restrictions that a process applies to a load that it runs.

use crate::request::draft::Braces;
use crate::values::permits::Permits;
use crate::values::shard::ShardRange;

/// Restrictions that a process applies to a load that it runs.
#[derive(Debug, Clone, Default)]
pub struct LoadScope {
    /// The workers that run in this process; `None` means all.
    pub shards: Option<ShardRange>,
    /// Decides which targets are allowed, in place of the setting `public`.
    pub permits: Option<Permits>,
    /// Meaning of `{{ … }}` in URLs, headers and bodies.
    pub braces: Braces,
}
