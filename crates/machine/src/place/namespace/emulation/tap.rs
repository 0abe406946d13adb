//! TAP devices: network interfaces whose Ethernet frames a process reads and writes
//! (Documentation/networking/tuntap.rst of Linux).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::place::refused::TUN_FILE;

/// Creates a TAP device in the network namespace of the calling thread. The device exists until the
/// file is closed.
///
/// # Errors
/// The device can't be created.
pub(super) fn create(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(TUN_FILE)?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the field remains 0.
    let field = request.ifr_name.len() - 1;
    if name.len() > field {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    for (target, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *target = byte as libc::c_char;
    }
    // Without IFF_VNET_HDR, the kernel computes all checksums and splits large segments before it
    // hands over a frame, as for a network card without offloads.
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and the request is a valid `ifreq`.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}
