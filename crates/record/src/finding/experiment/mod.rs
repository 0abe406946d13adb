//! Registry rows of the findings that concern an experiment as a whole, and their figures.

mod responses;
mod setup;
mod steadiness;
#[cfg(test)]
mod tests;

use super::{FindingInfo, FindingScope};

pub use responses::*;
pub use setup::*;
pub use steadiness::*;

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::Experiment,
    ..FindingInfo::BASE
};
