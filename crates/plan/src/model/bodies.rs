//! The `bodies` key of `[load]`: the agreement required between the response bodies of all
//! variants.

use std::fmt;
use std::str::FromStr;

use crate::syntax::{PlanReader, TomlTable};

/// Agreement required between the response bodies of two variants before their rates are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyComparison {
    /// The bodies are identical as sent.
    Same,
    /// The bodies are identical after content codings such as gzip are decoded.
    #[default]
    SameDecoded,
    /// The bodies may differ. The report lists differences in size and content type.
    MayDiffer,
}

impl BodyComparison {
    /// Names of the comparisons in plans and on the command line, in the order of the enum's
    /// variants.
    pub const NAMES: &[&str] = &["same", "same-decoded", "may-differ"];

    /// Returns the name of the comparison in plans and on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A name that no comparison of bodies has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownName;

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {}", BodyComparison::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for BodyComparison {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "same" => Ok(Self::Same),
            "same-decoded" => Ok(Self::SameDecoded),
            "may-differ" => Ok(Self::MayDiffer),
            _ => Err(UnknownName),
        }
    }
}

/// Reads `bodies` of `[load]`. The value applies to all variants, so templates are not rendered.
pub(super) fn read_bodies(load: &TomlTable, reader: &mut PlanReader<'_>) -> BodyComparison {
    load.get("bodies")
        .and_then(|node| reader.choice(node, "bodies of [load]", BodyComparison::NAMES))
        .and_then(|name| name.parse().ok())
        .unwrap_or_default()
}
