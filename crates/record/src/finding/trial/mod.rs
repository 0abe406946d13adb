//! Registry rows of the findings about the services and machines of a trial, and their figures.

mod capacity;
mod crypto;
mod limits;
mod links;
mod services;
#[cfg(test)]
mod tests;

use super::{FindingInfo, FindingScope};

pub use capacity::*;
pub use crypto::*;
pub use limits::*;
pub use links::*;
pub use services::*;

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::Trial,
    ..FindingInfo::BASE
};
