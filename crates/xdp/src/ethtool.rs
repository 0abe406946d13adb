//! Queues, offloads and the receive hash of an interface, through the ioctl of ethtool(8).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Commands of the ethtool ioctl (linux/ethtool.h).
const GET_DRIVER: u32 = 0x03;
const GET_RECEIVE_CHECKSUM: u32 = 0x14;
const GET_TRANSMIT_CHECKSUM: u32 = 0x16;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const GET_CHANNELS: u32 = 0x3c;
const GET_RSS: u32 = 0x46;

/// Bits in the result of GET_FLAGS.
const FLAG_LRO: u32 = 1 << 15;
const FLAG_VLAN_RECEIVE: u32 = 1 << 8;

/// Maximum sizes of the indirection table (in entries) and of the hash key (in bytes).
const RSS_TABLE_MAX: usize = 4096;
const RSS_KEY_MAX: usize = 512;

/// Offloads of an interface. A value is true if the offload is enabled, and `None` if the driver
/// does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// The adapter divides TCP data into segments.
    pub tso: Option<bool>,
    /// The kernel divides data into segments just before it passes them to the driver.
    pub gso: Option<bool>,
    /// The kernel merges received segments.
    pub gro: Option<bool>,
    /// The adapter merges received segments.
    pub lro: Option<bool>,
    /// The adapter computes the checksums of sent packets.
    pub transmit_checksum: Option<bool>,
    /// The adapter verifies the checksums of received packets.
    pub receive_checksum: Option<bool>,
    /// The adapter removes the VLAN tags of received packets.
    pub vlan: Option<bool>,
}

/// Settings of the receive hash, which distributes packets among the queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RssSettings {
    /// Table of queues, indexed by the hash modulo the table's size.
    pub table: Vec<u32>,
    /// Key of the receive hash.
    pub key: Vec<u8>,
    /// True if the hash function is Toeplitz.
    pub is_toeplitz: bool,
}

/// Argument of the ethtool ioctl (netdevice(7)).
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IF_NAMESIZE],
    data: *mut libc::c_void,
    padding: [u8; 16],
}

/// Calls the ethtool ioctl with a buffer that begins with the command.
fn ethtool(interface: &str, buffer: &mut [u32]) -> io::Result<()> {
    let mut request = InterfaceRequest {
        name: [0; libc::IF_NAMESIZE],
        data: buffer.as_mut_ptr().cast(),
        padding: [0; 16],
    };
    if interface.len() >= libc::IF_NAMESIZE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: the call takes no pointers.
    let number = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: the request points to the buffer, which is as large as its command requires.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs a command that returns one number, and returns that number.
fn read_number(interface: &str, command: u32) -> Option<u32> {
    let mut buffer = [command, 0];
    ethtool(interface, &mut buffer).ok().map(|()| buffer[1])
}

pub(crate) fn offloads(interface: &str) -> Offloads {
    let is_on = |command| read_number(interface, command).map(|value| value != 0);
    let flags = read_number(interface, GET_FLAGS);
    Offloads {
        tso: is_on(GET_TSO),
        gso: is_on(GET_GSO),
        gro: is_on(GET_GRO),
        lro: flags.map(|flags| flags & FLAG_LRO != 0),
        transmit_checksum: is_on(GET_TRANSMIT_CHECKSUM),
        receive_checksum: is_on(GET_RECEIVE_CHECKSUM),
        vlan: flags.map(|flags| flags & FLAG_VLAN_RECEIVE != 0),
    }
}

/// Returns the numbers of receive channels and of transmit channels. Combined channels count as
/// both.
pub(crate) fn channels(interface: &str) -> Option<(u32, u32)> {
    // The buffer contains the command, the maximum numbers of channels (receive, transmit, other,
    // combined), and the four numbers of channels in use.
    let mut buffer = [0; 9];
    buffer[0] = GET_CHANNELS;
    ethtool(interface, &mut buffer).ok()?;
    let [receive, transmit, combined] = [buffer[5], buffer[6], buffer[8]];
    let sum = |own: u32| own.saturating_add(combined);
    Some((sum(receive), sum(transmit)))
}

pub(crate) fn driver(interface: &str) -> Option<String> {
    /// Size of `struct ethtool_drvinfo` in words.
    const WORDS: usize = 49;
    let mut buffer = [0; WORDS];
    buffer[0] = GET_DRIVER;
    ethtool(interface, &mut buffer).ok()?;
    let bytes: Vec<u8> = buffer[1..9]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8(bytes)
        .ok()
        .filter(|name| !name.is_empty())
}

/// Returns the settings of the receive hash, if the driver reports them.
pub(crate) fn rss(interface: &str) -> Option<RssSettings> {
    /// Number of words in `struct ethtool_rxfh` before the table.
    const FIXED: usize = 7;
    // The first call returns the sizes of the table and the key.
    let mut buffer = vec![0; FIXED];
    buffer[0] = GET_RSS;
    ethtool(interface, &mut buffer).ok()?;
    let (table, key) = (buffer[2] as usize, buffer[3] as usize);
    if table == 0 || key == 0 || table > RSS_TABLE_MAX || key > RSS_KEY_MAX {
        return None;
    }
    let mut buffer = vec![0; FIXED + table + key.div_ceil(4)];
    (buffer[0], buffer[2], buffer[3]) = (GET_RSS, table as u32, key as u32);
    ethtool(interface, &mut buffer).ok()?;
    let [hash, ..] = buffer[4].to_ne_bytes();
    let bytes = buffer[FIXED + table..]
        .iter()
        .flat_map(|it| it.to_ne_bytes());
    Some(RssSettings {
        table: buffer[FIXED..FIXED + table].to_vec(),
        key: bytes.take(key).collect(),
        is_toeplitz: hash == 0 || hash & 1 != 0,
    })
}
