//! Tests of links with a delay, over a relay on this machine.
//!
//! The tests require root, iproute2 and /dev/net/tun.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use prony_machine::host::Host;
use prony_machine::host::local::LocalHost;
use prony_machine::place::{self, NetnsHandle};
use prony_plan::service::PlaceKind;
use prony_plan::topology::{
    EmulatorChoice, LinkEmulation, LinkEnd, LinkRate, NamedPlace, NetworkLink, PacketShare,
    Topology,
};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];

/// A host with two places and a link between them.
struct Lab {
    // The host is dropped before the folder with its state.
    host: LocalHost,
    places: [NetnsHandle; 2],
    _folder: tempfile::TempDir,
}

impl Lab {
    fn new(rate: Option<LinkRate>, loss: Option<PacketShare>, emulation: LinkEmulation) -> Self {
        place::check_kind(PlaceKind::Named(0)).expect("these tests require root and iproute2");
        place::check_emulator(EmulatorChoice::Relay).expect("these tests require /dev/net/tun");
        let folder = tempfile::tempdir().unwrap();
        let mut host = LocalHost::with_state_in(folder.path().to_owned());
        let place = |name: &str| NamedPlace {
            name: name.to_owned(),
            settings: BTreeMap::new(),
            where_possible: false,
            sources: Vec::new(),
        };
        let end = |place| LinkEnd {
            place,
            address: ADDRESSES[place],
        };
        let topology = Topology {
            places: vec![place("near"), place("far")],
            links: vec![NetworkLink {
                name: "wan".to_owned(),
                ends: [end(0), end(1)],
                rate,
                loss,
                emulation: Some(LinkEmulation {
                    emulator: EmulatorChoice::Relay,
                    ..emulation
                }),
            }],
        };
        host.allocate(&[], &topology)
            .unwrap_or_else(|error| panic!("{error}"));
        let places = [0, 1].map(|place| {
            let handle = host.netns_handle(PlaceKind::Named(place)).unwrap();
            handle.unwrap()
        });
        Self {
            host,
            places,
            _folder: folder,
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let released = self.host.release();
        assert!(released.is_ok() || std::thread::panicking(), "{released:?}");
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Sends a request from one place to another and waits for the response. Returns the times for the
/// connection and for the exchange.
fn exchange(lab: &Lab, client: usize, address: IpAddr, bytes: usize) -> (Duration, Duration) {
    let server = &lab.places[1 - client];
    let listener = server.run_inside(|| TcpListener::bind((address, 0)).unwrap());
    let listener = listener.unwrap();
    let target = SocketAddr::new(address, listener.local_addr().unwrap().port());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; bytes];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&request).unwrap();
        });
        let talk = || {
            let began = Instant::now();
            let mut stream = TcpStream::connect(target).unwrap();
            let connected = began.elapsed();
            let sent: Vec<u8> = (0..bytes).map(|number| (number % 251) as u8).collect();
            let began = Instant::now();
            stream.write_all(&sent).unwrap();
            let mut received = vec![0; bytes];
            stream.read_exact(&mut received).unwrap();
            assert!(received == sent, "the bytes changed on the way");
            (connected, began.elapsed())
        };
        lab.places[client].run_inside(talk).unwrap()
    })
}

fn run(place: &NetnsHandle, program: &str, arguments: &str) -> String {
    let command = || {
        Command::new(program)
            .args(arguments.split(' '))
            .output()
            .unwrap()
    };
    let output = place.run_inside(command).unwrap();
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn packets_of_both_directions_and_both_versions_of_ip_take_the_delay() {
    let mut lab = Lab::new(None, None, LinkEmulation::with_delays([ms(4), ms(8)]));
    let measured_us = lab.host.sample().round_trips_us["wan"];
    assert!(measured_us >= 12_000.0, "{measured_us}");
    for (number, place) in lab.places.iter().enumerate() {
        let add = format!("addr add fd00::{}/64 dev wan nodad", number + 1);
        run(place, "ip", &add);
    }
    for (client, address) in [
        (0, IpAddr::from(ADDRESSES[1])),
        (1, IpAddr::from(ADDRESSES[0])),
        (0, "fd00::2".parse().unwrap()),
        (1, "fd00::1".parse().unwrap()),
    ] {
        // A relay can be late, but never early: a round trip takes at least 12 ms.
        let (connected, exchanged) = exchange(&lab, client, address, 1_000);
        assert!(connected >= ms(12), "{address}: {connected:?}");
        assert!(exchanged >= ms(12), "{address}: {exchanged:?}");
    }
    assert_eq!(lab.host.environment().links["wan"].emulator, "relay");
}

#[test]
fn large_transfers_arrive_whole_over_a_rate_and_jitter() {
    let emulation = LinkEmulation {
        jitter: ms(1),
        ..LinkEmulation::with_delays([ms(2); 2])
    };
    let lab = Lab::new(Some(LinkRate::new(50_000_000)), None, emulation);
    exchange(&lab, 0, ADDRESSES[1].into(), 1_000_000);
    exchange(&lab, 1, ADDRESSES[0].into(), 1_000_000);
    // Jitter alone keeps the order of packets. A sender that is reordered would count it.
    for place in &lab.places {
        let counters = run(place, "nstat", "-asz");
        let reordered = counters
            .lines()
            .find(|line| line.contains("TCPSACKReorder"));
        let count = reordered.and_then(|line| line.split_whitespace().nth(1));
        assert_eq!(count, Some("0"), "{counters}");
    }
}

/// Sends datagrams to the other place, and returns their numbers in the order of arrival.
fn datagrams(lab: &Lab, count: u32) -> Vec<u32> {
    let bind = |place: usize| {
        let bind = || UdpSocket::bind((ADDRESSES[place], 0)).unwrap();
        lab.places[place].run_inside(bind).unwrap()
    };
    let [sender, receiver] = [0, 1].map(bind);
    let bytes: libc::c_int = 64 << 20;
    // SAFETY: the descriptor is open, and the pointer refers to a whole integer.
    let set = unsafe {
        libc::setsockopt(
            receiver.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    for number in 0..count {
        let to = receiver.local_addr().unwrap();
        sender.send_to(&number.to_be_bytes(), to).unwrap();
        if number % 100 == 99 {
            // The device's queue is finite.
            std::thread::sleep(ms(2));
        }
    }
    // All have arrived when none arrives for long.
    receiver.set_read_timeout(Some(ms(500))).unwrap();
    let mut numbers = Vec::new();
    let mut buffer = [0; 4];
    while receiver.recv(&mut buffer).is_ok() {
        numbers.push(u32::from_be_bytes(buffer));
    }
    numbers
}

#[test]
fn bursts_are_lost_and_some_packets_arrive_twice_or_early() {
    const SENT: u32 = 8_000;
    let emulation = LinkEmulation {
        loss_burst: Some(4),
        ..LinkEmulation::with_delays([ms(1); 2])
    };
    let lab = Lab::new(None, PacketShare::parse("40%").ok(), emulation);
    let arrived = datagrams(&lab, SENT);
    // 4,800 are expected. The standard deviation of the losses in bursts is below 120.
    assert!(
        (4_000..5_600).contains(&arrived.len()),
        "{} of {SENT}",
        arrived.len()
    );
    let bursts = arrived.windows(2).filter(|it| it[1] - it[0] > 1).count();
    let mean = (SENT as usize - arrived.len()) as f64 / bursts as f64;
    assert!((3.0..5.5).contains(&mean), "{mean} in a row");
    drop(lab);

    let emulation = LinkEmulation {
        reorder: PacketShare::parse("10%").unwrap(),
        duplicate: PacketShare::parse("20%").unwrap(),
        ..LinkEmulation::with_delays([ms(20); 2])
    };
    let lab = Lab::new(None, None, emulation);
    let arrived = datagrams(&lab, SENT);
    let twice = arrived.len() - SENT as usize;
    assert!((1_200..2_000).contains(&twice), "{twice} arrived twice");
    // 960 with their copies are expected, fewer if the sender pauses for longer than the delay.
    let mut next = u32::MAX;
    let mut early = 0;
    for &number in arrived.iter().rev() {
        early += u32::from(number > next);
        next = next.min(number);
    }
    assert!((200..1_500).contains(&early), "{early} overtook others");
    let mut all = arrived;
    all.sort_unstable();
    all.dedup();
    assert!(all.into_iter().eq(0..SENT), "each arrived at least once");
}

#[test]
fn a_core_that_does_not_exist_is_an_error_and_leaves_nothing() {
    let before = namespaces();
    let emulation = LinkEmulation {
        relay_core: Some(1_000),
        ..LinkEmulation::with_delays([ms(1); 2])
    };
    let folder = tempfile::tempdir().unwrap();
    let mut host = LocalHost::with_state_in(folder.path().to_owned());
    let topology = Topology {
        places: ["nowhere-a", "nowhere-b"]
            .map(|name| NamedPlace {
                name: name.to_owned(),
                settings: BTreeMap::new(),
                where_possible: false,
                sources: Vec::new(),
            })
            .into(),
        links: vec![NetworkLink {
            name: "wan".to_owned(),
            ends: [0, 1].map(|place| LinkEnd {
                place,
                address: ADDRESSES[place],
            }),
            rate: None,
            loss: None,
            emulation: Some(LinkEmulation {
                emulator: EmulatorChoice::Relay,
                ..emulation
            }),
        }],
    };
    let error = host.allocate(&[], &topology).unwrap_err().to_string();
    assert!(
        error.starts_with("the relay of link wan can't run on core 1000: "),
        "{error}"
    );
    assert_eq!(namespaces(), before);
}

/// Returns the number of namespaces of the test about a core.
fn namespaces() -> usize {
    let names = std::fs::read_dir(Path::new("/run/netns")).into_iter();
    let names = names.flatten().flatten();
    let is_own = |name: &str| name.contains("nowhere-");
    names
        .filter(|entry| is_own(&entry.file_name().to_string_lossy()))
        .count()
}
