//! Bodies of the targets for HTTP/2: arbitrary bytes from a server, frames, operations, and field
//! blocks.

pub mod blocks;
pub mod bytes;
pub mod drive;
pub mod frames;
pub mod judge;
pub mod operations;
