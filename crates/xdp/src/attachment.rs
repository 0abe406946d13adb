//! The BPF program that is attached to an interface, and its maps.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;

use crate::bpf::{BpfProgram, Map, MapType};
use crate::error::XdpError;
use crate::filter::{self, FilterMaps, FilterSpec, TARGET_KEY};
use crate::interface::Interface;

/// Maximum number of targets in a load. A target is an address and a port.
const TARGETS_MAX: u32 = 4096;
/// Maximum number of receive queues per interface.
const QUEUES_MAX: u32 = 1024;

/// Flags for the mode of an attachment (if_link.h).
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

/// Stage of the kernel's packet processing at which the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// The program runs in the driver, before the kernel allocates memory for the packet.
    Native,
    /// The program runs in the kernel's network stack. This works with every driver, but is slower.
    Generic,
}

impl AttachMode {
    /// Returns the name of the mode in records.
    pub fn name(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        }
    }
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A BPF program that is attached to an interface. The program is detached when this value is
/// dropped, and when the process ends for any reason.
#[derive(Debug)]
pub struct Attachment {
    // This field is declared first, so that the program is detached before its maps are closed.
    _link: OwnedFd,
    mode: AttachMode,
    targets: Map,
    /// Targets that are already in the map.
    known: Mutex<Vec<SocketAddr>>,
    sockets: Map,
    interface: u32,
}

impl Attachment {
    /// Attaches a program to an interface, in native mode if the driver supports this mode.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the program, or if another program is attached to the
    /// interface.
    pub fn new(interface: &Interface, spec: &FilterSpec) -> Result<Attachment, XdpError> {
        let system = |step| move |error| XdpError::System(step, error);
        let create = system("creating a BPF map");
        let targets = Map::new(MapType::Hash, TARGET_KEY, 1, TARGETS_MAX).map_err(create)?;
        let create = system("creating a BPF map of sockets");
        let sockets = Map::new(MapType::XskMap, 4, 4, QUEUES_MAX).map_err(create)?;
        let maps = FilterMaps {
            targets: targets.number(),
            sockets: sockets.number(),
        };
        let code = filter::assemble(spec, maps).ok_or(XdpError::Ranges)?;
        let program = BpfProgram::load_xdp(&code).map_err(system("loading the BPF program"))?;
        let attach = |flags| program.attach(interface.index(), flags);
        let (link, mode) = match attach(FLAG_NATIVE) {
            Ok(link) => (link, AttachMode::Native),
            Err(error) if is_taken(&error) => return Err(taken(interface, error)),
            Err(_) => match attach(FLAG_GENERIC) {
                Ok(link) => (link, AttachMode::Generic),
                Err(error) if is_taken(&error) => return Err(taken(interface, error)),
                Err(error) => return Err(XdpError::System("attaching the BPF program", error)),
            },
        };
        Ok(Attachment {
            _link: link,
            mode,
            targets,
            known: Mutex::default(),
            sockets,
            interface: interface.index(),
        })
    }

    /// Returns the mode in which the program is attached.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Returns the index of the interface.
    pub(crate) fn interface(&self) -> u32 {
        self.interface
    }

    /// Adds a target, whose packets are redirected from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if the load already has 4,096 targets.
    pub fn add_target(&self, target: SocketAddr) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(|held| held.into_inner());
        if !known.contains(&target) {
            self.targets.insert(&filter::target_key(target), &[1])?;
            known.push(target);
        }
        Ok(())
    }

    /// Redirects the packets of a receive queue to the given socket.
    pub(crate) fn add_socket(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let descriptor = socket.as_raw_fd() as u32;
        self.sockets
            .insert(&queue.to_ne_bytes(), &descriptor.to_ne_bytes())
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(interface: &Interface, error: io::Error) -> XdpError {
    match interface.attached_program() {
        Ok(Some(program)) => XdpError::ProgramAttached(interface.name().to_owned(), program),
        _ => XdpError::System("attaching the BPF program", error),
    }
}
