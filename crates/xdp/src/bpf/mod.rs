//! BPF programs, maps and links, which are created through bpf(2).

mod assembler;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use assembler::{Assembler, Condition, Instruction, Label, Register, Size};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

/// Program type and attach type of XDP programs (BPF_PROG_TYPE_XDP, BPF_XDP).
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// Size of the buffer for the verifier's log, in bytes.
const LOG_BYTES: usize = 64 * 1024;

/// Type of a BPF map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    /// A hash table (BPF_MAP_TYPE_HASH).
    Hash,
    /// A table of AF_XDP sockets by receive queue (BPF_MAP_TYPE_XSKMAP).
    XskMap,
}

/// A BPF map.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Calls bpf(2). Returns a descriptor, or zero for commands that return no descriptor.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the attributes have the layout that the command expects, and addresses in them refer
    // to memory that outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    match result {
        0.. => Ok(result as libc::c_int),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Like [`bpf`], but for commands that return a new descriptor.
fn bpf_descriptor<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let descriptor = bpf(command, attributes)?;
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to create the map, usually because the process lacks
    /// a privilege.
    pub fn new(
        map_type: MapType,
        key_bytes: usize,
        value_bytes: usize,
        max_entries: u32,
    ) -> io::Result<Map> {
        let mut attributes = MapCreate {
            map_type: match map_type {
                MapType::Hash => 1,
                MapType::XskMap => 17,
            },
            key_size: key_bytes as u32,
            value_size: value_bytes as u32,
            max_entries,
            map_flags: 0,
        };
        Ok(Map {
            descriptor: bpf_descriptor(MAP_CREATE, &mut attributes)?,
            key_bytes,
            value_bytes,
        })
    }

    /// Inserts or replaces an entry of the map.
    ///
    /// # Errors
    ///
    /// Returns an error if the map is full, or if the value is not valid for the type of the map.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key.len() != self.key_bytes || value.len() != self.value_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut attributes = MapUpdate {
            map_fd: self.descriptor.as_raw_fd() as u32,
            key: key.as_ptr() as u64,
            value: value.as_ptr() as u64,
            ..MapUpdate::default()
        };
        bpf(MAP_UPDATE_ELEM, &mut attributes).map(|_| ())
    }

    /// Returns the number of the map, for [`Assembler::load_map`].
    pub fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }
}

/// A BPF program that the kernel has verified.
#[derive(Debug)]
pub struct BpfProgram(OwnedFd);

impl BpfProgram {
    /// Loads an XDP program.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the program. If the kernel's verifier rejects it, the
    /// error contains the end of the verifier's log.
    pub fn load_xdp(code: &[Instruction]) -> io::Result<BpfProgram> {
        match BpfProgram::try_load(code, &mut []) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let mut log = vec![0; LOG_BYTES];
                match BpfProgram::try_load(code, &mut log) {
                    Ok(program) => Ok(program),
                    Err(error) => {
                        let end = log.iter().position(|byte| *byte == 0);
                        let text = String::from_utf8_lossy(&log[..end.unwrap_or(log.len())]);
                        let last = text.trim_end().lines().rev().take(3);
                        let last: Vec<&str> = last.collect();
                        let text = format!("{error}: {}", last.join("; "));
                        Err(io::Error::other(text))
                    }
                }
            }
            result => result,
        }
    }

    fn try_load(code: &[Instruction], log: &mut [u8]) -> io::Result<BpfProgram> {
        // The helpers that this program calls are available to programs under any license.
        let license = CString::from(c"Dual MIT/GPL");
        let mut name = [0; 16];
        name[..9].copy_from_slice(b"prony_xdp");
        let mut attributes = ProgLoad {
            prog_type: PROGRAM_TYPE_XDP,
            insn_cnt: code.len() as u32,
            insns: code.as_ptr() as u64,
            license: license.as_ptr() as u64,
            prog_name: name,
            expected_attach_type: ATTACH_TYPE_XDP,
            ..ProgLoad::default()
        };
        if !log.is_empty() {
            attributes.log_level = 1;
            attributes.log_size = log.len() as u32;
            attributes.log_buf = log.as_mut_ptr() as u64;
        }
        bpf_descriptor(PROG_LOAD, &mut attributes).map(BpfProgram)
    }

    /// Attaches the program to an interface. The program is detached when the returned link is
    /// dropped, and when the process ends for any reason.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface doesn't support the requested mode, or if a program is
    /// already attached to it.
    pub fn attach(&self, interface: u32, flags: u32) -> io::Result<OwnedFd> {
        let mut attributes = LinkCreate {
            prog_fd: self.0.as_raw_fd() as u32,
            target_ifindex: interface,
            attach_type: ATTACH_TYPE_XDP,
            flags,
        };
        bpf_descriptor(LINK_CREATE, &mut attributes)
    }
}
