//! Access to the operating system: processes, counters, programs, ports, and system commands.
//!
//! Input: names and process IDs. Output: process tables, samples and facts.

pub(crate) mod command;
mod error;
pub(crate) mod foreign;
pub(crate) mod fork;
pub(crate) mod group_usage;
pub(crate) mod inspect;
pub(crate) mod linux;
pub mod port;
pub(crate) mod proc_files;
pub mod process;
pub mod program;
pub(crate) mod sources;

use std::collections::BTreeMap;

use crate::environment::MachineFacts;

pub use error::HostError;

pub(crate) use linux::{
    SYSCTLS, SampledService, Sampler, allowed_cores, boot_id, cpu_facts, distribution, environment,
    hardware, kernel_log, online_cores, port_holder, processes, start_of, udp_is_bound,
};

/// Returns the memory in bytes that new processes can use without swapping; `None` if the system
/// doesn't report it.
pub fn memory_available_bytes() -> Option<u64> {
    linux::memory_available_bytes()
}

/// Reads facts about this machine.
#[must_use]
pub fn this_machine() -> MachineFacts {
    environment(&BTreeMap::new()).machine
}

/// Keeps the calling thread, and the threads and processes that it starts, off the given cores if
/// other cores are available.
pub fn avoid_cores(avoid: &[usize]) {
    if let Ok(mut allowed) = rustix::thread::sched_getaffinity(None) {
        for &core in avoid {
            if core < rustix::thread::CpuSet::MAX_CPU {
                allowed.unset(core);
            }
        }
        if allowed.count() > 0 {
            // If this fails, sampling still works, but may slightly disturb the load.
            let _ = rustix::thread::sched_setaffinity(None, &allowed);
        }
    }
}
