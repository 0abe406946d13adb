//! Limits of a plan's size.

/// The most variants of a plan, and the most levels of a factor. More variants would take days, even with
/// the shortest useful trials.
pub const VARIANTS_MAX: usize = 256;

/// The longest name of a level, in bytes. Every file system allows a folder name of that length.
pub(super) const LEVEL_NAME_MAX: usize = 100;

/// The longest id of a variant, in bytes. It names a folder, too.
pub(super) const VARIANT_ID_MAX: usize = 100;
