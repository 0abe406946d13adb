//! Bodies for HTTP/2: any bytes from a server, any frames, any operations, any blocks of fields.

pub mod blocks;
pub mod bytes;
pub mod drive;
pub mod frames;
pub mod judge;
pub mod operations;
