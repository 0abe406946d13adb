//! Bodies of the targets for HTTP/3: arbitrary bytes on the streams of a server, operations, and
//! QPACK.

pub mod drive;
pub mod frames;
pub mod operations;
pub mod qpack;
