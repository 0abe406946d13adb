//! Bodies of the HTTP/2 fuzz targets: arbitrary server bytes, frames, operations, and header
//! blocks.

pub mod blocks;
pub mod bytes;
pub mod drive;
pub mod frames;
pub mod operations;
pub mod server_model;
