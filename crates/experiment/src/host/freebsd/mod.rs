//! FreeBSD: what its own commands tell.
//!
//! **Not yet run on FreeBSD.** The readings of what the commands print ([`parse`]) are pure
//! functions, compiled and tested on every system with outputs written from memory: compare them with
//! real ones first. What starts the commands compiles for FreeBSD, but nobody has seen it work.

#[cfg(target_os = "freebsd")]
pub(crate) mod hardware;
pub mod parse;
#[cfg(target_os = "freebsd")]
mod reader;

#[cfg(target_os = "freebsd")]
pub(crate) use reader::{
    Reader, Watched, allowed_cores, boot_id, environment, online_cores, port_holder, processes,
    start_of,
};
