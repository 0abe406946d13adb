//! Tables for stack unwinding in programs and libraries: where functions begin, and how large their
//! stack frames are. Every function has an entry, even in stripped programs, because exceptions and
//! debuggers need it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian,
    ParsedEhFrameHdr, RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment, ReadRef};

use super::module_files;
use super::processes::{CodeModule, Processes};

type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// The tables of one file.
pub(super) struct UnwindTable<'a> {
    bases: BaseAddresses,
    header: ParsedEhFrameHdr<Slice<'a>>,
    frames: EhFrame<Slice<'a>>,
}

impl<'a> UnwindTable<'a> {
    /// Reads the tables of a program or library.
    pub(super) fn of_file(file: &object::File<'a, impl ReadRef<'a>>) -> Option<Self> {
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.data().ok()?))
        };
        let ((header_address, header), (frames_address, frames)) =
            (section(".eh_frame_hdr")?, section(".eh_frame")?);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(header_address)
            .set_eh_frame(frames_address);
        Some(Self {
            header: EhFrameHdr::new(header, NativeEndian)
                .parse(&bases, 8)
                .ok()?,
            frames: EhFrame::new(frames, NativeEndian),
            bases,
        })
    }

    /// Returns the start of the function that contains an address.
    pub(super) fn start_of(&self, address: u64) -> Option<u64> {
        Some(self.entry(address)?.initial_address())
    }

    /// Returns the size of the stack frame at an address, with the return address, which is its last
    /// part; `None` if the size isn't constant.
    pub(super) fn frame_bytes(&self, address: u64) -> Option<u64> {
        let mut context = UnwindContext::new();
        let entry = self.entry(address)?;
        let row = entry.unwind_info_for_address(&self.frames, &self.bases, &mut context, address);
        let row = row.ok()?;
        match (row.cfa(), row.register(X86_64::RA)) {
            (CfaRule::RegisterAndOffset { register, offset }, Some(RegisterRule::Offset(-8)))
                if *register == X86_64::RSP =>
            {
                u64::try_from(*offset).ok().filter(|bytes| *bytes >= 8)
            }
            _ => None,
        }
    }

    fn entry(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        let table = self.header.table()?;
        let found =
            table.fde_for_address(&self.frames, &self.bases, address, EhFrame::cie_from_offset);
        found.ok()
    }
}

/// Returns the address that an offset in a file has in memory.
pub(super) fn address_of<'d>(
    file: &object::File<'d, impl ReadRef<'d>>,
    offset: u64,
) -> Option<u64> {
    let mut segments = file.segments().map(|it| (it.file_range(), it.address()));
    segments.find_map(|((start, size), address)| {
        let within = offset.checked_sub(start).filter(|within| *within < size)?;
        address.checked_add(within)
    })
}

/// Returns true for the C library, whose functions have no frame pointers.
pub(super) fn is_c_library(module: &str) -> bool {
    const PREFIXES: [&str; 5] = ["libc.", "libc-", "libpthread", "ld-", "ld."];
    PREFIXES.iter().any(|prefix| module.starts_with(prefix))
}

/// Finds the callers of the C library's functions, which call chains by frame pointers omit.
#[derive(Default)]
pub(super) struct Unwinder {
    /// Sizes of stack frames by file and offset.
    known: HashMap<PathBuf, HashMap<u64, Option<u64>>>,
}

impl Unwinder {
    /// Returns the addresses of a call chain, from one in the C library to the first return address
    /// outside of it; `None` if it can't be found. `stack` is the top of the stack.
    pub(super) fn chain(
        &mut self,
        processes: &Processes,
        pid: i32,
        innermost: u64,
        stack: &[u8],
    ) -> Option<Vec<u64>> {
        /// Maximum number of functions of the C library in a chain.
        const FUNCTIONS_MAX: usize = 8;

        let mut chain = vec![innermost];
        let (mut address, mut used) = (innermost, 0_usize);
        for _ in 0..FUNCTIONS_MAX {
            let (CodeModule::File(path), offset) = processes.locate(pid, address) else {
                return None;
            };
            let name = path.file_name()?.to_string_lossy();
            if !is_c_library(&name) {
                return (chain.len() > 1).then_some(chain);
            }
            used =
                used.checked_add(usize::try_from(self.frame_bytes(&path, pid, offset)?).ok()?)?;
            let bytes = stack.get(used.checked_sub(8)?..used)?;
            let return_address = u64::from_ne_bytes(bytes.try_into().ok()?);
            chain.push(return_address);
            address = return_address.checked_sub(1)?;
        }
        None
    }

    fn frame_bytes(&mut self, path: &Path, pid: i32, offset: u64) -> Option<u64> {
        /// Maximum number of offsets of a file that are remembered. A server waits at few places.
        const OFFSETS_MAX: usize = 4_096;

        let of_file = match self.known.get_mut(path) {
            Some(known) => known,
            None => self.known.entry(path.to_owned()).or_default(),
        };
        if let Some(known) = of_file.get(&offset) {
            return *known;
        }
        (of_file.len() < OFFSETS_MAX).then_some(())?;
        let found = frame_bytes(path, pid, offset);
        of_file.insert(offset, found);
        found
    }
}

fn frame_bytes(path: &Path, pid: i32, offset: u64) -> Option<u64> {
    let cache = ReadCache::new(module_files::open(path, pid).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let table = UnwindTable::of_file(&file)?;
    table.frame_bytes(address_of(&file, offset)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_frame_of_a_waiting_c_library_function_is_known() {
        // This thread waits in a function of the C library, whose caller is found by the top of its
        // stack.
        let processes = own_processes();
        let waiting = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1)));
        let own = procfs::process::Process::myself().unwrap();
        let main = own.pid;
        let blocked = || {
            let tasks = own.tasks().unwrap().flatten();
            let calls = tasks.filter_map(|task| task.syscall().ok());
            calls.into_iter().find_map(|call| match call {
                procfs::process::Syscall::Blocked {
                    syscall_number: libc::SYS_clock_nanosleep | libc::SYS_nanosleep,
                    program_counter,
                    stack_pointer,
                    ..
                } => Some((program_counter, stack_pointer)),
                _ => None,
            })
        };
        let (address, pointer) = std::iter::repeat_with(blocked).flatten().next().unwrap();
        let mut stack = vec![0; 512];
        let memory = File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut stack, pointer).unwrap();
        let chain = Unwinder::default().chain(&processes, main, address, &stack);
        let chain = chain.expect("the C library has no tables");
        let (module, _) = processes.locate(main, chain[chain.len() - 1]);
        let own_program = std::env::current_exe().unwrap();
        assert_eq!(module, CodeModule::File(own_program));
        // An incomplete stack has no caller.
        let short = Unwinder::default().chain(&processes, main, address, &stack[..8]);
        assert!(short.is_none_or(|short| short == chain));
        waiting.join().unwrap();
    }

    fn own_processes() -> Processes {
        let mut processes = Processes::default();
        let maps = std::fs::read("/proc/self/maps").unwrap();
        processes.add_running(std::process::id().cast_signed(), &maps);
        processes
    }
}
