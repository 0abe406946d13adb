//! Bodies of the HTTP/3 fuzz targets: arbitrary bytes on a server's streams, operations, and QPACK.

pub mod drive;
pub mod frames;
pub mod operations;
pub mod qpack;
