//! FreeBSD: processes, counters and facts from its system commands.
//!
//! **Experimental: this code has never run on FreeBSD.** The parsers ([`parse`]) are pure
//! functions. They are compiled and tested on every system, with sample output that was written
//! from memory. The code that runs the commands compiles for FreeBSD, but has never run.

#[cfg(target_os = "freebsd")]
pub(crate) mod hardware;
pub mod parse;
#[cfg(target_os = "freebsd")]
mod sampler;

#[cfg(target_os = "freebsd")]
pub(crate) use sampler::{
    FreeBsdSampler as Sampler, FreeBsdService as SampledService, allowed_cores, boot_id,
    environment, online_cores, port_holder, processes, start_of, udp_is_bound,
};
