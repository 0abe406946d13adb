//! Counts of equal call chains, with bounded memory.

use std::collections::HashMap;

use super::events::{Observation, USER_MARKER};
use super::module_files::{self, FileIdentity};
use super::processes::{CodeModule, Processes};
use super::unwinding::Unwinder;
use super::waits::{RawWait, WaitContext};

/// Limits of the memory that a collector uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct CollectorLimits {
    /// Maximum number of different call chains. Further chains are reduced to their last function.
    pub(super) chains: usize,
    /// Maximum number of different addresses. Further addresses are unknown.
    pub(super) addresses: usize,
}

impl Default for CollectorLimits {
    /// With chains of 64 addresses, these need up to 60 MB.
    fn default() -> Self {
        Self {
            chains: 1 << 17,
            addresses: 1 << 18,
        }
    }
}

/// An address in a module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CodeAddress {
    /// Index of the module.
    pub(super) module: u32,
    /// Offset in the module's file, or the address in memory if it has no file.
    pub(super) position: u64,
}

/// A module with samples.
#[derive(Debug)]
pub(super) struct SeenModule {
    pub(super) module: CodeModule,
    /// The last process that was seen in it.
    pub(super) pid: i32,
    /// The build of its file at the first sample.
    pub(super) identity: Option<FileIdentity>,
}

/// The samples of a service, without names.
#[derive(Debug, Default)]
pub(super) struct RawProfile {
    pub(super) modules: Vec<SeenModule>,
    pub(super) addresses: Vec<CodeAddress>,
    /// Weights by call chain. A chain consists of indexes of `addresses`, the innermost first.
    pub(super) chains: HashMap<Box<[u32]>, u64>,
    pub(super) samples: u64,
    pub(super) weight: u64,
    /// Number of records that the kernel discarded.
    pub(super) lost: u64,
    /// Number of samples whose chain was reduced to one function.
    pub(super) reduced: u64,
    /// Nanoseconds in which threads were off their cores.
    pub(super) waits: HashMap<RawWait, u64>,
    /// Total duration of the periods in which waiting was recorded, in nanoseconds.
    pub(super) waits_recorded_ns: u64,
    /// Number of such periods that don't count, because the kernel discarded records.
    pub(super) waits_lost: u64,
}

/// Collects observations in the order of their times.
#[derive(Default)]
pub(super) struct Collector {
    limits: CollectorLimits,
    processes: Processes,
    module_indexes: HashMap<CodeModule, u32>,
    address_indexes: HashMap<CodeAddress, u32>,
    unwinder: Unwinder,
    profile: RawProfile,
}

impl Collector {
    #[cfg(test)]
    fn with_limits(limits: CollectorLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Returns true if the memory of a process is known, or can't be read.
    pub(super) fn knows(&self, pid: i32) -> bool {
        self.processes.knows(pid)
    }

    /// Iterates over the processes whose memory is known.
    pub(super) fn process_ids(&self) -> impl Iterator<Item = i32> {
        self.processes.ids()
    }

    /// Adds the memory of a process that already runs, from the text of `/proc/PID/maps`.
    pub(super) fn add_running(&mut self, pid: i32, maps: &[u8]) {
        self.processes.add_running(pid, maps);
    }

    /// Processes an observation. A sample is counted only if `counted` is true.
    pub(super) fn observe(&mut self, observed: Observation, counted: bool) {
        match observed {
            Observation::Sample { pid, weight, chain } if counted => {
                self.sample(pid, weight, &chain);
            }
            Observation::Sample { .. } => {}
            Observation::Mapped {
                pid,
                start,
                length,
                offset,
                file,
            } => self.processes.map(pid, start, length, offset, &file),
            Observation::Forked { pid, parent } => self.processes.fork(pid, parent),
            Observation::Executed { pid } => self.processes.execute(pid),
            Observation::Ended { pid } => self.processes.remove(pid),
            Observation::Lost(count) => self.profile.lost += count,
            Observation::Blocked { .. }
            | Observation::SwitchedOut { .. }
            | Observation::SwitchedIn { .. } => {}
        }
    }

    pub(super) fn into_profile(self) -> RawProfile {
        self.profile
    }

    /// Adds the callers of the C library's functions to a call chain, with the top of the stack.
    pub(super) fn add_callers(&mut self, pid: i32, chain: &mut Vec<u64>, stack: &[u8]) {
        let Some(marker) = chain.iter().position(|it| *it == USER_MARKER) else {
            return;
        };
        let innermost = chain.get(marker + 1);
        let complete =
            innermost.and_then(|it| self.unwinder.chain(&self.processes, pid, *it, stack));
        if let Some(complete) = complete {
            chain.truncate(marker + 1);
            chain.extend(complete);
        }
    }

    /// Adds the time that a thread spent off its core.
    pub(super) fn wait(&mut self, pid: i32, chain: &[u64], context: WaitContext, ns: u64) {
        let mut indexes = self.chain(pid, chain);
        if self.profile.waits.len() >= self.limits.chains {
            indexes.truncate(1);
        }
        let wait = RawWait {
            chain: indexes.into(),
            context,
        };
        *self.profile.waits.entry(wait).or_default() += ns;
    }

    /// Ends a period in which waiting was recorded, with its duration, or without one if records were
    /// lost.
    pub(super) fn end_of_waits(&mut self, duration_ns: Option<u64>) {
        self.profile.waits_recorded_ns += duration_ns.unwrap_or_default();
        self.profile.waits_lost += u64::from(duration_ns.is_none());
    }

    fn sample(&mut self, pid: i32, weight: u64, chain: &[u64]) {
        let mut indexes = self.chain(pid, chain);
        self.profile.samples += 1;
        self.profile.weight += weight;
        if let Some(known) = self.profile.chains.get_mut(indexes.as_slice()) {
            *known += weight;
            return;
        }
        if self.profile.chains.len() >= self.limits.chains {
            // There are no more such chains than addresses.
            indexes.truncate(1);
            self.profile.reduced += 1;
        }
        *self.profile.chains.entry(indexes.into()).or_default() += weight;
    }

    /// Converts a call chain to indexes of addresses. It has at least one.
    fn chain(&mut self, pid: i32, chain: &[u64]) -> Vec<u32> {
        // Markers are negative numbers down to -4095.
        const CONTEXT_MIN: u64 = 0_u64.wrapping_sub(4095);
        const CONTEXT_KERNEL: u64 = 0_u64.wrapping_sub(128);

        let mut in_kernel = false;
        let mut is_return_address = false;
        let mut indexes = Vec::with_capacity(chain.len());
        for &address in chain {
            if address >= CONTEXT_MIN {
                in_kernel = address == CONTEXT_KERNEL;
                is_return_address = false;
                continue;
            }
            // A return address may be the first one of the next function.
            let address = address.saturating_sub(u64::from(is_return_address));
            is_return_address = true;
            let (module, position) = if in_kernel {
                (CodeModule::Kernel, address)
            } else {
                self.processes.locate(pid, address)
            };
            let index = self.index(pid, module, position);
            // Neighboring unknown functions would say no more than one.
            let is_unknown = self.is_unknown(index);
            if !(is_unknown && indexes.last() == Some(&index)) {
                indexes.push(index);
            }
        }
        if indexes.is_empty() {
            indexes.push(self.index(pid, CodeModule::Unknown, 0));
        }
        indexes
    }

    fn is_unknown(&self, index: u32) -> bool {
        let module = self.profile.addresses[index as usize].module;
        self.profile.modules[module as usize].module == CodeModule::Unknown
    }

    fn index(&mut self, pid: i32, module: CodeModule, position: u64) -> u32 {
        let is_full = self.profile.addresses.len() >= self.limits.addresses;
        let module = self.module_index(pid, module);
        let address = CodeAddress { module, position };
        if let Some(known) = self.address_indexes.get(&address) {
            return *known;
        }
        if is_full && position != 0 {
            // One address per module is left for all others.
            return self.index_of(CodeAddress {
                module,
                position: 0,
            });
        }
        self.index_of(address)
    }

    fn index_of(&mut self, address: CodeAddress) -> u32 {
        let addresses = &mut self.profile.addresses;
        let next = addresses.len() as u32;
        *self
            .address_indexes
            .entry(address)
            .or_insert_with_key(|address| {
                addresses.push(address.clone());
                next
            })
    }

    fn module_index(&mut self, pid: i32, module: CodeModule) -> u32 {
        /// A server may start any number of processes that generate code.
        const MODULES_MAX: usize = 4_096;

        let modules = &mut self.profile.modules;
        let is_known = self.module_indexes.contains_key(&module);
        let module = if !is_known && modules.len() >= MODULES_MAX {
            CodeModule::Unknown
        } else {
            module
        };
        let next = modules.len() as u32;
        let index = *self
            .module_indexes
            .entry(module)
            .or_insert_with_key(|module| {
                let identity = match module {
                    CodeModule::File(path) => {
                        let file = module_files::open(path, pid).ok();
                        file.as_ref().and_then(FileIdentity::of)
                    }
                    _ => None,
                };
                modules.push(SeenModule {
                    module: module.clone(),
                    pid,
                    identity,
                });
                next
            });
        modules[index as usize].pid = pid;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0_u64.wrapping_sub(128);
    const USER: u64 = 0_u64.wrapping_sub(512);
    const MAPS: &[u8] = b"1000-2000 r-xp 00000000 fe:00 1 /bin/web\n";

    fn sample(chain: &[u64]) -> Observation {
        Observation::Sample {
            pid: 7,
            weight: 10,
            chain: chain.to_vec(),
        }
    }

    fn collector(limits: CollectorLimits) -> Collector {
        let mut collector = Collector::with_limits(limits);
        collector.add_running(7, MAPS);
        collector
    }

    #[test]
    fn equal_chains_are_counted_together() {
        let mut collector = collector(CollectorLimits::default());
        let chain = [
            KERNEL,
            0xffff_ffff_8100_0010,
            USER,
            0x1010,
            0x1020,
            0x9999,
            0x9998,
        ];
        collector.observe(sample(&chain), true);
        collector.observe(sample(&chain), true);
        collector.observe(sample(&chain), false);
        collector.observe(Observation::Lost(3), false);
        let profile = collector.into_profile();
        assert_eq!((profile.samples, profile.weight, profile.lost), (2, 20, 3));
        let (chain, weight) = profile.chains.iter().next().unwrap();
        assert_eq!((profile.chains.len(), *weight), (1, 20));
        let positions = chain.iter().map(|it| {
            let address = &profile.addresses[*it as usize];
            (
                profile.modules[address.module as usize].module.clone(),
                address.position,
            )
        });
        let web = || CodeModule::File("/bin/web".into());
        // Return addresses are reduced by one, and unknown functions are merged.
        let expected = [
            (CodeModule::Kernel, 0xffff_ffff_8100_0010),
            (web(), 0x10),
            (web(), 0x1f),
            (CodeModule::Unknown, 0),
        ];
        assert_eq!(positions.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn memory_is_bounded_and_weights_are_kept() {
        let limits = CollectorLimits {
            chains: 10,
            addresses: 50,
        };
        let mut collector = collector(limits);
        for index in 0..1000 {
            collector.observe(sample(&[USER, 0x1000 + index % 100, 0x1200 + index]), true);
        }
        let profile = collector.into_profile();
        assert_eq!((profile.samples, profile.weight), (1000, 10_000));
        assert!(profile.addresses.len() <= 51, "{}", profile.addresses.len());
        assert!(profile.chains.len() <= 10 + 51, "{}", profile.chains.len());
        assert_eq!(profile.chains.values().sum::<u64>(), 10_000);
        assert!(profile.reduced > 900, "{}", profile.reduced);
    }
}
