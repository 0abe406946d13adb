//! Executable memory of processes: which file an address belongs to.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of processes at the same time whose memory is known.
const PROCESSES_MAX: usize = 16_384;

/// Maximum number of mappings of one process.
const MAPPINGS_MAX: usize = 8_192;

/// A program, library, or other place of code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CodeModule {
    /// The kernel.
    Kernel,
    /// A file.
    File(PathBuf),
    /// Memory without a file, in which the process with this ID has generated code.
    Generated(i32),
    /// Code that the kernel maps into each process.
    Vdso,
    /// Memory about which nothing is known.
    Unknown,
}

/// An executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset in the file that `start` corresponds to.
    pub(super) offset: u64,
    pub(super) module: CodeModule,
}

/// Executable memory of one process.
#[derive(Debug, Clone, Default)]
struct ProcessMemory {
    /// Mappings by start address.
    mappings: BTreeMap<u64, Mapping>,
    /// True if all mappings are known, rather than only those that were made since sampling began.
    is_complete: bool,
}

impl ProcessMemory {
    fn add(&mut self, mapping: Mapping) {
        // What the new mapping covers is replaced. The kernel reports no partial unmapping, so a
        // part that is left of an old mapping remains valid.
        let covered = self.mappings.range(..mapping.end);
        let covered = covered.filter(|(_, old)| old.end > mapping.start);
        let covered: Vec<u64> = covered.map(|(start, _)| *start).collect();
        for start in covered {
            let Some(old) = self.mappings.remove(&start) else {
                continue;
            };
            if old.end > mapping.end {
                let cut = mapping.end - old.start;
                let rest = Mapping {
                    start: mapping.end,
                    offset: old.offset.wrapping_add(cut),
                    ..old.clone()
                };
                self.mappings.insert(rest.start, rest);
            }
            if old.start < mapping.start {
                let rest = Mapping {
                    end: mapping.start,
                    ..old
                };
                self.mappings.insert(rest.start, rest);
            }
        }
        if self.mappings.len() < MAPPINGS_MAX {
            self.mappings.insert(mapping.start, mapping);
        }
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }
}

/// Executable memory of all processes of a service.
#[derive(Debug, Default)]
pub(super) struct Processes(HashMap<i32, Arc<ProcessMemory>>);

impl Processes {
    /// Adds a mapping that the kernel reported. `file` is a path, or a name in brackets.
    pub(super) fn map(&mut self, pid: i32, start: u64, length: u64, offset: u64, file: &[u8]) {
        let Some(end) = start.checked_add(length).filter(|end| *end > start) else {
            return;
        };
        if let Some(memory) = self.memory(pid) {
            memory.add(Mapping {
                start,
                end,
                offset,
                module: module(pid, file),
            });
        }
    }

    /// Returns true if all mappings of a process are known, or if no more processes can be added.
    pub(super) fn knows(&self, pid: i32) -> bool {
        match self.0.get(&pid) {
            Some(memory) => memory.is_complete,
            None => self.0.len() >= PROCESSES_MAX,
        }
    }

    /// Iterates over the processes.
    pub(super) fn ids(&self) -> impl Iterator<Item = i32> {
        self.0.keys().copied()
    }

    /// Adds the mappings of a running process from the text of `/proc/PID/maps`, which is
    /// empty if it can't be read.
    pub(super) fn add_running(&mut self, pid: i32, maps: &[u8]) {
        let Some(memory) = self.memory(pid) else {
            return;
        };
        memory.is_complete = true;
        for line in maps.split(|byte| *byte == b'\n') {
            let Some(mapped) = MapsLine::parse(line) else {
                continue;
            };
            let length = mapped.end.saturating_sub(mapped.start);
            self.map(pid, mapped.start, length, mapped.offset, mapped.file);
        }
    }

    /// Starts a process with the memory of its parent.
    pub(super) fn fork(&mut self, pid: i32, parent: i32) {
        if let Some(memory) = self.0.get(&parent).cloned()
            && self.0.len() < PROCESSES_MAX
        {
            self.0.insert(pid, memory);
        }
    }

    /// Empties the memory of a process that replaces its program.
    pub(super) fn execute(&mut self, pid: i32) {
        if let Some(memory) = self.memory(pid) {
            *memory = ProcessMemory {
                is_complete: true,
                ..ProcessMemory::default()
            };
        }
    }

    /// Removes the memory of a process that has ended.
    pub(super) fn remove(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    /// Returns the module of an address, and the position in it: an offset in a file, or the
    /// address itself.
    pub(super) fn locate(&self, pid: i32, address: u64) -> (CodeModule, u64) {
        let mapping = self.0.get(&pid).and_then(|memory| memory.find(address));
        match mapping {
            Some(mapping) if matches!(mapping.module, CodeModule::File(_)) => {
                let offset = (address - mapping.start).wrapping_add(mapping.offset);
                (mapping.module.clone(), offset)
            }
            Some(mapping) => (generated_by(&mapping.module, pid), address),
            None => (CodeModule::Unknown, 0),
        }
    }

    fn memory(&mut self, pid: i32) -> Option<&mut ProcessMemory> {
        if self.0.len() >= PROCESSES_MAX && !self.0.contains_key(&pid) {
            return None;
        }
        Some(Arc::make_mut(self.0.entry(pid).or_default()))
    }
}

/// Returns the module as it is in a process that may have inherited it.
fn generated_by(module: &CodeModule, pid: i32) -> CodeModule {
    match module {
        CodeModule::Generated(_) => CodeModule::Generated(pid),
        module => module.clone(),
    }
}

fn module(pid: i32, file: &[u8]) -> CodeModule {
    use std::os::unix::ffi::OsStrExt;

    const GENERATED: [&[u8]; 5] = [b"//anon", b"[", b"/memfd:", b"anon_inode:", b"/dev/zero"];
    if file == b"[vdso]" || file == b"[vsyscall]" {
        CodeModule::Vdso
    } else if file.is_empty() || GENERATED.iter().any(|prefix| file.starts_with(prefix)) {
        CodeModule::Generated(pid)
    } else {
        CodeModule::File(PathBuf::from(std::ffi::OsStr::from_bytes(file)))
    }
}

/// An executable line of `/proc/PID/maps`.
struct MapsLine<'a> {
    start: u64,
    end: u64,
    offset: u64,
    file: &'a [u8],
}

impl<'a> MapsLine<'a> {
    /// Parses a line; `None` if it isn't executable.
    fn parse(line: &'a [u8]) -> Option<Self> {
        // address range, permissions, offset, device, inode, path
        let mut rest = line;
        let mut next = || {
            let end = rest.iter().position(|byte| *byte == b' ');
            let (word, left) = rest.split_at(end.unwrap_or(rest.len()));
            rest = left.get(1..).unwrap_or_default();
            std::str::from_utf8(word).ok()
        };
        let (range, permissions, offset) = (next()?, next()?, next()?);
        next()?;
        next()?;
        let (start, end) = range.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        permissions.contains('x').then_some(())?;
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            file: rest.trim_ascii_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"\
5500-5600 r--p 00000000 fe:00 12   /usr/bin/web server
5600-5800 r-xp 00000100 fe:00 12   /usr/bin/web server
7000-7100 r-xp 00000000 00:00 0 \n\
7200-7300 r-xp 00000000 00:00 0    [vdso]
rubbish\n";

    fn file(path: &str) -> CodeModule {
        CodeModule::File(PathBuf::from(path))
    }

    #[test]
    fn addresses_belong_to_the_mapping_that_was_last() {
        let mut processes = Processes::default();
        processes.add_running(7, MAPS);
        let web = file("/usr/bin/web server");
        assert_eq!(processes.locate(7, 0x5610), (web.clone(), 0x110));
        assert_eq!(processes.locate(7, 0x5510).0, CodeModule::Unknown);
        assert_eq!(
            processes.locate(7, 0x7010),
            (CodeModule::Generated(7), 0x7010)
        );
        assert_eq!(processes.locate(7, 0x7210).0, CodeModule::Vdso);
        assert_eq!(processes.locate(8, 0x5610).0, CodeModule::Unknown);
        // A library in the middle of the program leaves both ends.
        processes.map(7, 0x5680, 0x10, 0x40, b"/lib/x.so");
        assert_eq!(processes.locate(7, 0x567f), (web.clone(), 0x17f));
        assert_eq!(processes.locate(7, 0x5685), (file("/lib/x.so"), 0x45));
        assert_eq!(processes.locate(7, 0x5690), (web, 0x190));
    }

    #[test]
    fn children_begin_with_the_memory_of_their_parent() {
        let mut processes = Processes::default();
        processes.add_running(7, MAPS);
        processes.fork(8, 7);
        processes.map(8, 0x9000, 0x100, 0, b"/lib/y.so");
        assert_eq!(processes.locate(8, 0x9001), (file("/lib/y.so"), 1));
        assert_eq!(processes.locate(7, 0x9001).0, CodeModule::Unknown);
        // Generated code is described by the map of the process that runs it.
        assert_eq!(processes.locate(8, 0x7010).0, CodeModule::Generated(8));
        assert!(processes.knows(8) && !processes.knows(9));
        processes.execute(8);
        assert_eq!(processes.locate(8, 0x5610).0, CodeModule::Unknown);
        processes.remove(7);
        processes.map(7, 0x9000, 0x100, 0, b"/lib/y.so");
        assert!(!processes.knows(7), "only what was reported is known");
        // A range that overflows is ignored.
        processes.map(7, u64::MAX, 2, 0, b"/lib/z.so");
        assert_eq!(processes.locate(7, u64::MAX).0, CodeModule::Unknown);
    }

    #[test]
    fn the_number_of_mappings_is_limited() {
        let mut processes = Processes::default();
        for index in 0..2 * MAPPINGS_MAX as u64 {
            processes.map(7, index * 0x1000, 0x1000, 0, b"/lib/x.so");
        }
        assert_eq!(processes.0[&7].mappings.len(), MAPPINGS_MAX);
    }
}
