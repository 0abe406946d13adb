//! Measures the round-trip time of a link with ICMP echo requests (RFC 792), before a load uses it.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};
use rustix::time::{ClockId, clock_gettime};

use super::priority::prioritize_thread;

/// Number of echo requests.
const REQUESTS: u16 = 21;

/// Minimum time between two requests.
const INTERVAL_MIN: Duration = Duration::from_millis(4);

/// Maximum time between two requests.
const INTERVAL_MAX: Duration = Duration::from_millis(50);

/// Time beyond the planned round trip after which a response counts as lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// Round-trip times of echo requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoundTrips {
    /// Median; `None` if no request was answered.
    pub(super) median: Option<Duration>,
    pub(super) requests: u16,
    pub(super) responses: u16,
}

/// Measures the round-trip time from the namespace of the calling thread to `address`. Raises the
/// priority of the thread, because the time until it notices a response would be included.
///
/// # Errors
/// The socket can't be created or used.
pub(super) fn measure(
    address: Ipv4Addr,
    planned: Duration,
    jitter: Duration,
) -> io::Result<RoundTrips> {
    prioritize_thread();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(ipproto::ICMP);
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, protocol)?;
    let identifier = std::process::id() as u16;
    // Requests that follow each other closely would be kept in order, which lengthens the jitter.
    let interval = (jitter * 4).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let mut sent = Vec::new();
    let mut times: Vec<Option<Duration>> = vec![None; usize::from(REQUESTS)];
    let began = now();
    let end = began + interval * u32::from(REQUESTS) + planned * 2 + PATIENCE;
    loop {
        let time = now();
        let next = began + interval * sent.len() as u32;
        if sent.len() < usize::from(REQUESTS) && time >= next {
            let request = echo_request(identifier, sent.len() as u16);
            sent.push(now());
            sendto(
                &socket,
                &request,
                SendFlags::empty(),
                &SocketAddrV4::new(address, 0),
            )?;
            continue;
        }
        if time >= end || times.iter().all(Option::is_some) {
            break;
        }
        let until = if sent.len() < usize::from(REQUESTS) {
            next
        } else {
            end
        };
        let wait = until.saturating_sub(time);
        let timeout = Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0) {
            let arrived = now();
            let mut buffer = [MaybeUninit::uninit(); 128];
            while let Ok((packet, _)) = recv(&socket, &mut buffer[..], RecvFlags::empty()) {
                if let Some(number) = echo_reply(packet.0, identifier)
                    && let (Some(at), Some(time @ None)) = (sent.get(number), times.get_mut(number))
                {
                    *time = Some(arrived.saturating_sub(*at));
                }
            }
        }
    }
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    Ok(RoundTrips {
        median: times.get(times.len() / 2).copied(),
        requests: REQUESTS,
        responses: times.len() as u16,
    })
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Returns an echo request without data.
fn echo_request(identifier: u16, number: u16) -> [u8; 8] {
    const ECHO_REQUEST: u16 = 0x0800;
    let sum = u32::from(ECHO_REQUEST) + u32::from(identifier) + u32::from(number);
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) as u16 + (folded >> 16) as u16);
    let mut request = [0; 8];
    for (field, value) in [ECHO_REQUEST, checksum, identifier, number]
        .into_iter()
        .enumerate()
    {
        request[2 * field..][..2].copy_from_slice(&value.to_be_bytes());
    }
    request
}

/// Returns the number of an echo reply with this identifier. A raw socket also receives the IP
/// header.
fn echo_reply(packet: &[u8], identifier: u16) -> Option<usize> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let message = packet.get(header..)?.first_chunk::<8>()?;
    let [0, 0, _, _, id @ .., high, low] = *message else {
        return None;
    };
    (id == identifier.to_be_bytes()).then(|| usize::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_valid_checksum_and_replies_are_recognized() {
        for (identifier, number) in [(0, 0), (0x1234, 7), (0xffff, 0xffff), (0xf7ff, 0)] {
            let request = echo_request(identifier, number);
            let words = request
                .chunks(2)
                .map(|it| u16::from_be_bytes([it[0], it[1]]));
            let mut sum: u32 = words.map(u32::from).sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            assert_eq!(sum, 0xffff, "{identifier} {number}");
            let mut reply = vec![0x45; 20];
            reply.extend(request);
            assert_eq!(echo_reply(&reply, identifier), None, "a request");
            reply[20] = 0;
            assert_eq!(echo_reply(&reply, identifier), Some(number.into()));
            assert_eq!(echo_reply(&reply, identifier ^ 1), None);
            assert_eq!(echo_reply(&reply[..27], identifier), None);
        }
    }
}
