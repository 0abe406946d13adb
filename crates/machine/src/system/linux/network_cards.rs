//! Facts about network cards for `environment.json`.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use super::read_small_file;
use crate::environment::NetworkCard;

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;
/// Length of `struct ethtool_drvinfo`.
const DRIVER_INFO_BYTES: usize = 196;
/// Part of this struct with the firmware's version.
const FIRMWARE: std::ops::Range<usize> = 68..100;

/// Returns the network cards by interface. Interfaces without a device, such as loopback and bridges,
/// are omitted.
pub(super) fn network_cards() -> BTreeMap<String, NetworkCard> {
    let interfaces = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let cards = interfaces.filter_map(|interface| {
        let path = interface.path();
        let driver = std::fs::read_link(path.join("device/driver")).ok()?;
        let name = interface.file_name().into_string().ok()?;
        let speed = read_small_file(path.join("speed")).and_then(|text| text.parse::<i64>().ok());
        let card = NetworkCard {
            driver: driver.file_name()?.to_str()?.to_owned(),
            firmware: firmware(&name),
            speed_mbit_per_s: speed.and_then(|speed| u64::try_from(speed).ok()),
            receive_queues: queues(&path, "rx-"),
            transmit_queues: queues(&path, "tx-"),
        };
        Some((name, card))
    });
    cards.collect()
}

fn queues(interface: &Path, prefix: &str) -> usize {
    let queues = std::fs::read_dir(interface.join("queues"))
        .into_iter()
        .flatten()
        .flatten();
    queues
        .filter(|queue| queue.file_name().to_string_lossy().starts_with(prefix))
        .count()
}

/// Returns the version of a card's firmware as its driver reports it.
fn firmware(interface: &str) -> Option<String> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").ok()?;
    let mut info = [0_u8; DRIVER_INFO_BYTES];
    info[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
    // SAFETY: a zeroed ifreq is valid; all its parts are integers, pointers or arrays of them.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = info.as_mut_ptr().cast();
    // SAFETY: `request` is an ifreq whose data points to a whole `ethtool_drvinfo`, and both live
    // until the call returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    let text = String::from_utf8_lossy(&info[FIRMWARE]);
    let text = text.split('\0').next().unwrap_or_default().trim();
    (result == 0 && !text.is_empty() && text != "N/A").then(|| text.to_owned())
}
