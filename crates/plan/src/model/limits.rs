//! Size limits of a plan.

/// Maximum number of variants in a plan, and of levels of a factor. More variants would take days,
/// even with the shortest useful trials.
pub const VARIANTS_MAX: usize = 256;

/// Maximum length of a level's name in bytes. Every file system allows folder names of this length.
pub(super) const LEVEL_NAME_MAX: usize = 100;

/// Maximum length of a variant's ID in bytes. The ID is also the name of a folder.
pub(super) const VARIANT_ID_MAX: usize = 100;
