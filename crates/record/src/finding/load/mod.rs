//! Registry rows of the findings that any load can have, and their figures.

mod connecting;
mod connections;
mod generator;
mod replay;
mod requests;
#[cfg(test)]
mod tests;

pub use connecting::*;
pub use connections::*;
pub(super) use generator::stalled;
pub use generator::*;
pub use replay::*;
pub use requests::*;
