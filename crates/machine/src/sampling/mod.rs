//! Sampling profiles: which functions of a service use its CPU time.
//!
//! Input: the processes of a service, and a rate. Output: a [`SamplingProfile`]. The kernel takes
//! samples of the processes' call chains and writes them to one buffer per core (`events`). A thread
//! reads the buffers ten times per second and counts equal call chains (`collector`). Once the load
//! has ended, addresses get the names of functions (`symbolizer`).
//!
//! In short periods, context switches are recorded, too (`wait_periods`): where threads wait, and for
//! how long (`waits`, `wait_names`).
//!
//! Memory is bounded: a buffer for half a second of samples per core and another one for context
//! switches, and the limits in `collector` and `waits`.

mod collector;
mod elf;
mod events;
mod kernel_symbols;
mod listener;
mod module_files;
mod names;
mod perf_map;
mod processes;
mod session;
mod symbolizer;
mod unwinding;
mod wait_names;
mod wait_periods;
mod waits;

pub use events::SamplingRefused;
pub use listener::Listener;
pub use session::SamplingSession;

pub use prony_record::sampling::{DEFAULT_RATE_HZ, RATE_HZ_MAX, SamplingProfile, WaitReason};

#[doc(hidden)]
pub mod fuzzing {
    //! Entry points of fuzz targets.

    pub use super::elf::fuzz as elf;
    pub use super::perf_map::fuzz as perf_map;
}
