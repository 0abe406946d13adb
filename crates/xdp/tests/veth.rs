//! Tests of sockets, the BPF program and neighbor replies on a veth pair. The pair connects two
//! network namespaces, which exist until the test ends.
//!
//! The tests require root and iproute2, and fail without them.

mod link;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use link::{FarEnd, ip, on_link};
use prony_xdp::{
    AddressRange, AttachMode, Attachment, EtherType, FilterSpec, Interface, MacAddress, NextHop,
    QueueSocket, SocketOptions, XdpError, neighbor, write_header,
};

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

const OPTIONS: SocketOptions = SocketOptions { mtu: 1500 };
/// MAC addresses of the two ends of the link.
const NEAR: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const FAR: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// Opens a socket that sends and receives whole frames at the other end of the link.
fn raw_end(far: &FarEnd) -> RawEnd {
    far.run(|| {
        let index = Interface::find("far").unwrap().index();
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain system calls; the address is complete, and its size is passed along.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all));
            assert!(socket >= 0, "{}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(socket);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = index as i32;
            let bound = libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            );
            assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
            RawEnd(socket)
        }
    })
}

struct RawEnd(OwnedFd);

impl RawEnd {
    fn send(&self, frame: &[u8]) {
        // SAFETY: the pointer refers to the frame, whose size is passed along.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(
            sent,
            frame.len() as isize,
            "{}",
            std::io::Error::last_os_error()
        );
    }

    /// Waits until a frame with the given content arrives.
    fn expect(&self, expected: &[u8]) {
        let begun = Instant::now();
        let mut buffer = [0; 2048];
        while begun.elapsed() < WAIT_TIMEOUT {
            wait_readable(&self.0, 100);
            // SAFETY: the pointer refers to the buffer, whose size is passed along.
            let size = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if size == expected.len() as isize && buffer[..expected.len()] == *expected {
                return;
            }
        }
        panic!("the frame did not arrive");
    }
}

fn wait_readable(descriptor: &impl AsFd, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer refers to one `pollfd`.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds) > 0 }
}

fn range(first: &str, last: &str) -> AddressRange {
    AddressRange {
        first: first.parse().unwrap(),
        last: last.parse().unwrap(),
    }
}

fn spec() -> FilterSpec {
    let sources = vec![
        range("10.9.0.1", "10.9.0.1"),
        range("10.9.1.0", "10.9.1.99"),
        range("fd09::100", "fd09::1ff"),
    ];
    FilterSpec {
        answered: sources[1..].to_vec(),
        sources,
        ports: 2000..=2999,
    }
}

/// Receives the next frame.
fn receive(socket: &mut QueueSocket) -> Vec<u8> {
    let begun = Instant::now();
    while begun.elapsed() < WAIT_TIMEOUT {
        if let Some(frame) = socket.receive() {
            let bytes = socket.bytes(&frame).to_vec();
            socket.release(frame);
            socket.refill();
            return bytes;
        }
        wait_readable(socket, 100);
    }
    panic!("no frame");
}

/// Creates a packet with an IP header, in a frame from `far` to `near`.
fn packet(protocol: u8, source: &str, target: &str, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let addresses = [source, target].map(|it| it.parse::<IpAddr>().unwrap());
    match addresses {
        [IpAddr::V4(source), IpAddr::V4(target)] => {
            write_header(&mut frame, NEAR, FAR, EtherType::Ipv4);
            frame.extend([
                0x45,
                0,
                0,
                20 + payload.len() as u8,
                0,
                0,
                0,
                0,
                64,
                protocol,
                0,
                0,
            ]);
            frame.extend(source.octets());
            frame.extend(target.octets());
        }
        [IpAddr::V6(source), IpAddr::V6(target)] => {
            write_header(&mut frame, NEAR, FAR, EtherType::Ipv6);
            frame.extend([0x60, 0, 0, 0, 0, payload.len() as u8, protocol, 64]);
            frame.extend(source.octets());
            frame.extend(target.octets());
        }
        _ => panic!("two families"),
    }
    frame.extend(payload);
    frame
}

fn tcp(source: &str, source_port: u16, target: &str, target_port: u16) -> Vec<u8> {
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&source_port.to_be_bytes());
    segment[2..4].copy_from_slice(&target_port.to_be_bytes());
    packet(6, source, target, &segment)
}

/// Creates an ICMP error of this type and code about a frame's packet.
fn icmp(protocol: u8, kind: [u8; 2], source: &str, target: &str, about: &[u8]) -> Vec<u8> {
    let mut message = vec![kind[0], kind[1], 0, 0, 0, 0, 0, 0];
    message.extend(&about[14..]);
    packet(protocol, source, target, &message)
}

/// Adds this number of words of IPv4 options, each of which does nothing (RFC 791).
fn with_options(frame: &[u8], words: u8) -> Vec<u8> {
    let options = vec![1; usize::from(words) * 4];
    let mut frame = [&frame[..34], &options, &frame[34..]].concat();
    frame[14] += words;
    frame
}

fn arp_request(target: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    write_header(&mut frame, MacAddress([0xff; 6]), FAR, EtherType::Arp);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(FAR.0);
    frame.extend([10, 9, 0, 2, 0, 0, 0, 0, 0, 0]);
    frame.extend(target);
    frame
}

fn solicitation(target: &str) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.parse::<Ipv6Addr>().unwrap().octets());
    let mut frame = packet(58, "fd09::2", target, &message);
    frame[21] = 255;
    frame
}

#[test]
fn only_packets_of_the_load_are_redirected() {
    on_link(1, |far| {
        let interface = Interface::find("near").unwrap();
        let attachment = Attachment::new(&interface, &spec()).unwrap();
        for target in ["10.9.0.2:80", "[fd09::2]:443"] {
            attachment.add_target(target.parse().unwrap()).unwrap();
        }
        let mut socket = QueueSocket::open(&attachment, 0, OPTIONS).unwrap();
        let raw = raw_end(far);
        let sent = |source, target| tcp(source, 2000, target, 80);
        let v4_error = |about: &[u8]| icmp(1, [3, 4], "10.9.0.2", "10.9.1.5", about);
        let v6_error = |about: &[u8]| icmp(58, [2, 0], "fd09::2", "fd09::105", about);
        let own = [
            tcp("10.9.0.2", 80, "10.9.0.1", 2000),
            tcp("10.9.0.2", 80, "10.9.1.0", 2999),
            tcp("10.9.0.2", 80, "10.9.1.99", 2500),
            tcp("fd09::2", 443, "fd09::100", 2000),
            tcp("fd09::2", 443, "fd09::1ff", 2000),
            v4_error(&sent("10.9.1.5", "10.9.0.2")),
            v6_error(&sent("fd09::105", "fd09::2")),
            arp_request([10, 9, 1, 7]),
            solicitation("fd09::107"),
            with_options(&tcp("10.9.0.2", 80, "10.9.0.1", 2000), 1),
            with_options(&tcp("10.9.0.2", 80, "10.9.1.99", 2500), 10),
            with_options(&v4_error(&sent("10.9.1.5", "10.9.0.2")), 2),
        ];
        let mut fragment = own[0].clone();
        fragment[20] = 0x20;
        let mut truncated_options = own[0].clone();
        truncated_options[14] = 0x4f;
        let mut short_header = own[0].clone();
        short_header[14] = 0x44;
        let mut with_tag = own[0].clone();
        with_tag[12..14].copy_from_slice(&[0x81, 0]);
        let others = [
            tcp("10.9.0.2", 80, "10.9.0.1", 1999),
            tcp("10.9.0.2", 80, "10.9.0.1", 3000),
            tcp("10.9.0.2", 81, "10.9.0.1", 2000),
            with_options(&tcp("10.9.0.2", 80, "10.9.0.1", 1999), 3),
            with_options(&tcp("10.9.0.2", 81, "10.9.0.1", 2000), 3),
            tcp("10.9.0.3", 80, "10.9.0.1", 2000),
            tcp("10.9.0.2", 80, "10.9.1.100", 2000),
            tcp("10.9.0.2", 80, "10.9.0.255", 2000),
            tcp("fd09::2", 443, "fd09::ff", 2000),
            tcp("fd09::2", 443, "fd09::200", 2000),
            tcp("fd09::2", 80, "fd09::100", 2000),
            packet(17, "10.9.0.2", "10.9.1.5", &own[0][34..]),
            v4_error(&tcp("10.9.1.5", 1999, "10.9.0.2", 80)),
            v4_error(&packet(17, "10.9.1.5", "10.9.0.2", &[8; 8])),
            icmp(1, [8, 0], "10.9.0.2", "10.9.1.5", &own[0]),
            icmp(58, [128, 0], "fd09::2", "fd09::105", &own[3]),
            arp_request([10, 9, 0, 1]),
            arp_request([10, 9, 1, 100]),
            solicitation("fd09::1"),
            fragment,
            truncated_options,
            short_header,
            with_tag,
            own[0][..40].to_vec(),
            own[3][..60].to_vec(),
        ];
        for (at, other) in others.iter().enumerate() {
            raw.send(other);
            raw.send(&own[at % own.len()]);
            // Frames arrive in order, so the other frame would arrive first if it were redirected.
            assert_eq!(
                receive(&mut socket),
                own[at % own.len()],
                "after number {at}"
            );
        }
        assert!(!socket.has_received());
        assert_eq!(socket.drops().unwrap(), prony_xdp::RingDrops::default());
    });
}

#[test]
fn the_kernel_still_has_its_own_traffic() {
    on_link(1, |far| {
        let interface = Interface::find("near").unwrap();
        let attachment = Attachment::new(&interface, &spec()).unwrap();
        let _socket = QueueSocket::open(&attachment, 0, OPTIONS).unwrap();
        assert_eq!(attachment.mode(), AttachMode::Native);
        let listener = UdpSocket::bind("10.9.0.1:0").unwrap();
        listener.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        let address = listener.local_addr().unwrap();
        far.run(|| {
            let sender = UdpSocket::bind("10.9.0.2:0").unwrap();
            sender.send_to(b"hello", address).unwrap();
        });
        let mut buffer = [0; 16];
        assert_eq!(listener.recv(&mut buffer).unwrap(), 5);
    });
}

#[test]
fn frames_are_sent_and_their_memory_is_reused() {
    on_link(1, |far| {
        let interface = Interface::find("near").unwrap();
        let attachment = Attachment::new(&interface, &spec()).unwrap();
        let mut socket = QueueSocket::open(&attachment, 0, OPTIONS).unwrap();
        let raw = raw_end(far);
        let mut frame = vec![0; 1000];
        write_header(&mut frame, FAR, NEAR, EtherType::Ipv4);
        for round in 0..20_000u32 {
            frame[100..104].copy_from_slice(&round.to_ne_bytes());
            let buffer = loop {
                if socket.next_buffer().is_some() {
                    break socket.next_buffer().unwrap();
                }
                socket.flush().unwrap();
            };
            buffer[..1000].copy_from_slice(&frame);
            socket.commit(1000);
            if round % 64 == 0 {
                socket.flush().unwrap();
                // Read regularly, because the buffer of the frame socket holds only several hundred
                // frames.
                raw.expect(&frame);
            }
        }
        socket.flush().unwrap();
        assert!(!socket.has_unsent());
        assert_eq!(socket.drops().unwrap().transmit_invalid, 0);
    });
}

#[test]
fn requests_for_source_addresses_are_answered() {
    on_link(1, |far| {
        let interface = Interface::find("near").unwrap();
        let attachment = Attachment::new(&interface, &spec()).unwrap();
        let mut socket = QueueSocket::open(&attachment, 0, OPTIONS).unwrap();
        let answered = spec().answered;
        for address in ["10.9.1.7", "fd09::107"] {
            let target: IpAddr = address.parse().unwrap();
            // The kernel at the other end resolves the address. Its neighbor entry shows that it
            // has accepted the reply.
            let sender = far.run(move || {
                let any: IpAddr = match target {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let sender = UdpSocket::bind((any, 0)).unwrap();
                sender.send_to(b"x", (target, 9)).unwrap();
                sender
            });
            let request = receive(&mut socket);
            let mut reply = [0; neighbor::REPLY_BYTES];
            let is_ours = |it| answered.iter().any(|range| range.contains(it));
            let size = neighbor::reply(&request, NEAR, is_ours, &mut reply).unwrap();
            socket.next_buffer().unwrap()[..size].copy_from_slice(&reply[..size]);
            socket.commit(size);
            socket.flush().unwrap();
            let begun = Instant::now();
            let resolved = || {
                let shown = Command::new("ip")
                    .args(["neighbor", "show", address])
                    .output();
                let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
                shown.contains(&NEAR.to_string())
            };
            while !far.run(resolved) {
                assert!(begun.elapsed() < WAIT_TIMEOUT, "{address} is not resolved");
            }
            drop(sender);
        }
    });
}

#[test]
fn a_program_is_attached_once_and_detached_with_its_owner() {
    on_link(1, |_| {
        let interface = Interface::find("near").unwrap();
        interface.check().unwrap();
        let attachment = Attachment::new(&interface, &spec()).unwrap();
        let refused = interface.check().unwrap_err();
        assert!(
            matches!(refused, XdpError::ProgramAttached(..)),
            "{refused}"
        );
        let second = Attachment::new(&interface, &spec()).unwrap_err();
        assert!(matches!(second, XdpError::ProgramAttached(..)), "{second}");
        drop(attachment);
        interface.check().unwrap();
        for family in [true, false] {
            let mut spec = spec();
            spec.sources.retain(|range| range.first.is_ipv4() == family);
            spec.answered.clear();
            drop(Attachment::new(&interface, &spec).unwrap());
        }
    });
}

#[test]
fn obstacles_are_named() {
    on_link(1, |_| {
        ip("link set near mtu 1000");
        let refused = Interface::find("near").unwrap().check().unwrap_err();
        assert!(matches!(refused, XdpError::Mtu(_, 1000)), "{refused}");
        ip("link set near mtu 1500");
        let near = Interface::find("near").unwrap();
        assert_eq!((near.mac(), near.mtu(), near.queues()), (NEAR, 1500, 1));
        assert_eq!(near.driver().as_deref(), Some("veth"));
        assert_eq!(near.offloads().tso, Some(true));
        near.check_source(range("10.9.0.1", "10.9.255.254"), &[])
            .unwrap();
        let outside = near
            .check_source(range("10.9.0.1", "10.10.0.1"), &[])
            .unwrap_err();
        assert!(outside.to_string().contains("10.9.0.1/16"), "{outside}");
        let foreign = near.foreign(range("10.9.0.0", "10.9.0.2"));
        assert_eq!(
            foreign,
            [range("10.9.0.0", "10.9.0.0"), range("10.9.0.2", "10.9.0.2")]
        );
        let lost = NextHop::check(&near, "192.0.2.1".parse().unwrap()).unwrap_err();
        assert!(
            matches!(lost, XdpError::OtherRoute { route: None, .. }),
            "{lost}"
        );
        let local = NextHop::check(&near, "127.0.0.1".parse().unwrap()).unwrap_err();
        assert!(local.to_string().contains("uses lo"), "{local}");
        ip("link set near down");
        let refused = Interface::find("near").unwrap().check().unwrap_err();
        assert!(matches!(refused, XdpError::Down(_)), "{refused}");
    });
}

#[test]
fn next_hops_are_resolved() {
    on_link(1, |_| {
        let near = Interface::find("near").unwrap();
        let find = |target: &str, mac| NextHop::find(&near, target.parse().unwrap(), mac);
        for (target, source) in [("10.9.0.2", "10.9.0.1"), ("fd09::2", "fd09::1")] {
            let hop = find(target, None).unwrap();
            assert_eq!((hop.mac, hop.address.to_string()), (FAR, target.to_owned()));
            assert_eq!(hop.source, Some(source.parse().unwrap()));
        }
        ip("route add 192.0.2.0/24 via 10.9.0.2");
        let hop = find("192.0.2.7", None).unwrap();
        assert_eq!(
            (hop.mac, hop.address.to_string()),
            (FAR, "10.9.0.2".to_owned())
        );
        let given = find("10.9.0.77", Some(NEAR)).unwrap();
        assert_eq!(given.mac, NEAR);
        let silent = find("10.9.0.77", None).unwrap_err();
        assert!(matches!(silent, XdpError::NoNeighbor { .. }), "{silent}");
    });
}
