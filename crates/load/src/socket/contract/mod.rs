//! The contract of [`super::Sockets`], forced on every backend over real sockets.
//!
//! Each rule is a function over any backend. The macro at the end makes tests of them for each
//! backend and each kind of socket.

mod apparatus;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use socket2::{Domain, SockAddr, Socket, Type};

use super::local::{Binding, Source, local_ports};
use super::{Close, Operation, Outgoing, Peer, PollSockets, Route, Sending, Sockets, WaitBatch};
use apparatus::{
    COMPLETION_TIMEOUT, Listener, Observed, Via, connected, key, loopback, nobody, pattern,
    poll_once, reap, receive_all, rest, send_shared, to,
};

// ---- the rules, by their numbers ----

fn indices_are_used_again_under_new_generations<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    for generation in 1..20 {
        let key = key(3, generation);
        let mut peer = connected(&mut sockets, &listener, key);
        peer.write_all(&[generation as u8]).unwrap();
        assert_eq!(
            reap(&mut sockets),
            Observed::Received(key, vec![generation as u8])
        );
        sockets.close(key, Close::Orderly);
    }
}

fn a_connect_is_answered_once<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    sockets.connect(key(0, 1), to(&listener.peer));
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    assert_eq!(rest(&mut sockets), []);
    sockets.close(key(0, 1), Close::Abort);
    let (peer, _bound) = nobody(via);
    sockets.connect(key(0, 2), to(&peer));
    let errno = match via {
        Via::Unix => libc::ENOENT,
        _ => libc::ECONNREFUSED,
    };
    let refused = Observed::Failed(key(0, 2), Operation::Connect, Some(errno));
    assert_eq!(reap(&mut sockets), refused);
    assert_eq!(rest(&mut sockets), []);
}

fn connections_come_from_the_source_that_was_asked_for<S: Sockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let source: IpAddr = match via {
        Via::V4 => "127.0.0.77".parse().unwrap(),
        Via::V6 => "::1".parse().unwrap(),
        Via::Unix => return,
    };
    let listener = Listener::new(via);
    let route = |source| Route {
        source: Some(Source {
            address: Some(source),
            binding: Binding::Usual,
            ports: local_ports(),
        }),
        ..to(&listener.peer)
    };
    sockets.connect(key(0, 1), route(source));
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    let (_peer, from) = listener.socket.accept().unwrap();
    assert_eq!(from.as_socket().unwrap().ip(), source);
    // 192.0.2.1 belongs to no machine (RFC 5737).
    let foreign = "192.0.2.1".parse().unwrap();
    sockets.connect(key(1, 1), route(foreign));
    let failed = reap(&mut sockets);
    assert!(
        matches!(failed, Observed::Failed(_, Operation::Connect, _)),
        "{failed:?}"
    );
}

fn a_connection_that_stands_has_an_address<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    assert_eq!(sockets.local_address(key(0, 1)), None);
    sockets.connect(key(0, 1), to(&listener.peer));
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    let (_peer, from) = listener.socket.accept().unwrap();
    // A UNIX socket has no address on either side.
    assert_eq!(sockets.local_address(key(0, 1)), from.as_socket());
    assert_eq!(from.as_socket().is_none(), via == Via::Unix);
    assert_eq!(sockets.local_address(key(0, 2)), None);
    sockets.close(key(0, 1), Close::Abort);
    assert_eq!(sockets.local_address(key(0, 1)), None);
}

fn receiving_begins_with_the_connection<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    sockets.connect(key(0, 1), to(&listener.peer));
    sockets.wait(sockets.now()).unwrap();
    listener.accept().write_all(b"first").unwrap();
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    let (bytes, end) = receive_all(&mut sockets);
    assert_eq!(
        (&bytes[..], end),
        (&b"first"[..], Observed::Closed(key(0, 1)))
    );
}

fn a_send_is_answered_once_however_large<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    for length in [1, 1000, 20 << 20] {
        let bytes = pattern(length);
        sockets.send(key(0, 1), Outgoing::Owned(bytes.clone()));
        let mut reader = peer.try_clone().unwrap();
        let read = std::thread::spawn(move || {
            let mut read = vec![0; length];
            reader.read_exact(&mut read).map(|()| read)
        });
        // The buffer comes back unchanged.
        assert_eq!(
            reap(&mut sockets),
            Observed::Sent(key(0, 1), Some(bytes.clone()))
        );
        assert!(
            read.join().unwrap().unwrap() == bytes,
            "{length} bytes differ"
        );
    }
    send_shared(&mut sockets, key(0, 1), b"shared");
    assert_eq!(rest(&mut sockets), []);
    let mut shared = [0; 6];
    peer.read_exact(&mut shared).unwrap();
    assert_eq!(&shared, b"shared");
}

fn both_directions_go_at_once<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let peer = connected(&mut sockets, &listener, key(0, 1));
    let bytes = pattern(5 << 20);
    sockets.send(key(0, 1), Outgoing::Owned(bytes.clone()));
    let answer = bytes.clone();
    let (reader, mut writer) = (peer.try_clone().unwrap(), peer);
    let reading = std::thread::spawn(move || {
        let mut read = Vec::new();
        reader.take(5 << 20).read_to_end(&mut read).map(|_| read)
    });
    let writing = std::thread::spawn(move || {
        let written = writer.write_all(&answer);
        writer.shutdown(Shutdown::Write).unwrap();
        written
    });
    let (mut all, mut sent, mut closed) = (Vec::new(), false, false);
    while !(sent && closed) {
        match reap(&mut sockets) {
            Observed::Received(_, piece) if !closed => all.extend(piece),
            Observed::Sent(..) if !sent => sent = true,
            Observed::Closed(_) if !closed => closed = true,
            other => panic!("{other:?}"),
        }
    }
    writing.join().unwrap().unwrap();
    assert!(all == bytes && reading.join().unwrap().unwrap() == bytes);
}

fn bytes_come_in_order_and_then_the_end<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    let bytes = pattern(3 << 20);
    let sent = bytes.clone();
    let writing = std::thread::spawn(move || peer.write_all(&sent));
    let (received, end) = receive_all(&mut sockets);
    writing.join().unwrap().unwrap();
    assert!(received == bytes);
    assert_eq!(end, Observed::Closed(key(0, 1)));
    assert_eq!(rest(&mut sockets), []);
}

/// More of them at once than a backend has memory for.
fn large_answers_come_whole_on_all_connections<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let bytes = pattern(2 << 20);
    let peers: Vec<Socket> = (0..8)
        .map(|index| connected(&mut sockets, &listener, key(index, 1)))
        .collect();
    let write = |mut peer: Socket| {
        let bytes = bytes.clone();
        std::thread::spawn(move || peer.write_all(&bytes))
    };
    let writing: Vec<_> = peers.into_iter().map(write).collect();
    let (mut all, mut open) = (vec![Vec::new(); 8], 8);
    while open > 0 {
        match reap(&mut sockets) {
            Observed::Received(key, piece) => all[key.index as usize].extend(piece),
            Observed::Closed(_) => open -= 1,
            other => panic!("{other:?}"),
        }
    }
    for written in writing {
        written.join().unwrap().unwrap();
    }
    assert!(all.iter().all(|received| *received == bytes));
    assert_eq!(rest(&mut sockets), []);
}

fn small_buffers_carry_large_answers<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let route = Route {
        buffers: Some(8192),
        ..to(&listener.peer)
    };
    sockets.connect(key(0, 1), route);
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    let (mut peer, bytes) = (listener.accept(), pattern(100_000));
    let expected = bytes.clone();
    let writing = std::thread::spawn(move || peer.write_all(&bytes));
    let (received, end) = receive_all(&mut sockets);
    assert!(received == expected);
    assert_eq!(end, Observed::Closed(key(0, 1)));
    writing.join().unwrap().unwrap();
}

fn a_send_goes_out_after_the_peers_end<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reap(&mut sockets), Observed::Closed(key(0, 1)));
    let bytes = pattern(8 << 20);
    sockets.send(key(0, 1), Outgoing::Owned(bytes.clone()));
    let reading = std::thread::spawn(move || {
        let mut read = vec![0; 8 << 20];
        peer.read_exact(&mut read).map(|()| read)
    });
    assert!(matches!(reap(&mut sockets), Observed::Sent(..)));
    assert!(reading.join().unwrap().unwrap() == bytes);
}

fn what_was_said_before_a_send_failed_is_received<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.write_all(b"enough").unwrap();
    // More than any socket's buffers take, so that a part of it meets the closed socket.
    sockets.send(key(0, 1), Outgoing::Owned(vec![7; 64 << 20]));
    sockets.wait(sockets.now()).unwrap();
    let mut some = [0; 10];
    peer.read_exact(&mut some).unwrap();
    // Unread bytes make it a reset.
    drop(peer);
    let (mut received, mut failed) = (Vec::new(), false);
    let end = loop {
        match reap(&mut sockets) {
            Observed::Received(_, bytes) => received.extend(bytes),
            Observed::Failed(_, Operation::Send, _) => failed = true,
            end => break end,
        }
    };
    assert_eq!(received, b"enough");
    let ended = matches!(
        end,
        Observed::Closed(_) | Observed::Failed(_, Operation::Receive, _)
    );
    assert!(ended, "{end:?}");
    assert!(failed || end != Observed::Closed(key(0, 1)));
    sockets.close(key(0, 1), Close::Abort);
    assert_eq!(rest(&mut sockets), []);
}

fn a_reset_fails_the_receive<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let peer = connected(&mut sockets, &listener, key(0, 1));
    send_shared(&mut sockets, key(0, 1), b"unread");
    peer.set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let reset = Observed::Failed(key(0, 1), Operation::Receive, Some(libc::ECONNRESET));
    assert_eq!(reap(&mut sockets), reset);
    // The end is reported once, and a connection that is left in this state costs nothing.
    assert_eq!(rest(&mut sockets), []);
}

fn a_closed_key_is_never_heard_of_again<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peers = Vec::new();
    for index in 0..4 {
        peers.push(connected(&mut sockets, &listener, key(index, 1)));
    }
    for peer in &mut peers {
        peer.write_all(b"news").unwrap();
    }
    // All four have completions now or soon. The first three are closed before they are reaped.
    sockets.wait(sockets.now() + Nanos::from_secs(5)).unwrap();
    sockets.send(key(0, 1), Outgoing::Shared(b"x"));
    for index in 0..3 {
        sockets.close(key(index, 1), Close::Orderly);
        sockets.close(key(index, 1), Close::Orderly);
    }
    // One index has a new connection, which must not get the old one's completions.
    sockets.connect(key(1, 2), to(&listener.peer));
    let mut seen = vec![reap(&mut sockets), reap(&mut sockets)];
    seen.extend(rest(&mut sockets));
    seen.sort_by_key(|seen| !matches!(seen, Observed::Connected(_)));
    let expected = [
        Observed::Connected(key(1, 2)),
        Observed::Received(key(3, 1), b"news".to_vec()),
    ];
    assert_eq!(seen, expected);
}

/// No completion is lost and the wait ends, for any size and time of the batch.
fn a_wait_for_a_lot_ends<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peers: Vec<Socket> = (0..3)
        .map(|index| connected(&mut sockets, &listener, key(index, 1)))
        .collect();
    let hour = Nanos::from_secs(3_600);
    for (max_completions, max_wait) in [(1, hour), (1_000, Nanos::from_millis(1)), (0, Nanos::ZERO)]
    {
        for peer in &mut peers {
            peer.write_all(b"news").unwrap();
        }
        let mut received = 0;
        while received < 3 * b"news".len() {
            let until = sockets.now() + hour;
            sockets
                .wait_coalesced(
                    until,
                    WaitBatch {
                        max_completions,
                        max_wait,
                    },
                )
                .unwrap();
            while let Some(seen) = poll_once(&mut sockets) {
                match seen {
                    Observed::Received(_, bytes) => received += bytes.len(),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    // Nothing comes, so the time ends the wait.
    let until = sockets.now() + Nanos::from_millis(20);
    let batch = WaitBatch {
        max_completions: 1_000,
        max_wait: Nanos::from_millis(1),
    };
    while sockets.now() < until {
        sockets.wait_coalesced(until, batch).unwrap();
        assert_eq!(poll_once(&mut sockets), None);
    }
}

fn a_close_tells_the_peer_as_asked<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    for (generation, how) in [(1, Close::Orderly), (2, Close::Abort)] {
        let mut peer = connected(&mut sockets, &listener, key(0, generation));
        sockets.close(key(0, generation), how);
        let read = peer.read(&mut [0; 8]).map_err(|error| error.kind());
        match (how, via) {
            (Close::Abort, Via::V4 | Via::V6) => {
                assert_eq!(read, Err(io::ErrorKind::ConnectionReset));
            }
            _ => assert_eq!(read, Ok(0)),
        }
    }
}

fn what_was_sent_comes_before_an_orderly_end<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    let sending = sockets.send(key(0, 1), Outgoing::Shared(b"last words"));
    assert_eq!(sending, Sending::Done);
    sockets.close(key(0, 1), Close::Orderly);
    sockets.wait(sockets.now()).unwrap();
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"last words");
}

/// The connection is made, and the worker has not reaped that yet.
fn an_abort_before_it_was_heard_of_is_an_abort<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    for generation in 1..4 {
        sockets.connect(key(0, generation), to(&listener.peer));
        // RedirectedRequest each time: submitted, made.
        for _ in 0..generation {
            sockets.wait(sockets.now()).unwrap();
        }
        let mut peer = listener.accept();
        sockets.close(key(0, generation), Close::Abort);
        sockets.wait(sockets.now()).unwrap();
        let end = peer.read(&mut [0; 8]).map_err(|e| e.kind());
        match via {
            Via::Unix => assert_eq!(end, Ok(0)),
            _ => assert_eq!(end, Err(io::ErrorKind::ConnectionReset)),
        }
    }
    assert_eq!(rest(&mut sockets), []);
}

/// Dropping a backend closes its connections in any state.
fn a_backend_that_is_gone_has_closed_all<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peers: Vec<Socket> = (0..3)
        .map(|index| connected(&mut sockets, &listener, key(index, 1)))
        .collect();
    peers[0].shutdown(Shutdown::Write).unwrap();
    assert_eq!(reap(&mut sockets), Observed::Closed(key(0, 1)));
    sockets.send(key(1, 1), Outgoing::Owned(vec![7; 32 << 20]));
    sockets.wait(sockets.now()).unwrap();
    drop(sockets);
    for peer in &mut peers {
        // The other end is closed.
        let end = peer.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
        assert!(!matches!(end, Err(io::ErrorKind::WouldBlock)), "{end:?}");
    }
}

/// Dropping a backend whose connections have only seen their peer's end closes them.
fn a_backend_that_is_idle_has_closed_all<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reap(&mut sockets), Observed::Closed(key(0, 1)));
    drop(sockets);
    let end = peer.read(&mut [0; 8]).map_err(|e| e.kind());
    assert!(!matches!(end, Err(io::ErrorKind::WouldBlock)), "{end:?}");
}

fn time_goes_on_and_waits_end<S: Sockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let mut before = sockets.now();
    for wait in [0, 1, 700, 20_000, 3_000_000] {
        let until = before + Nanos(wait);
        let mut waits = 0;
        while sockets.now() < until {
            sockets.wait(until).unwrap();
            assert_eq!(poll_once(&mut sockets), None);
            waits += 1;
        }
        assert!(waits < 4, "{waits} waits for one moment");
        let after = sockets.now();
        assert!(after >= until, "{after} before {until}");
        before = after;
    }
    // A completion ends a wait of a minute.
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.write_all(b"x").unwrap();
    sockets.wait(sockets.now() + Nanos::from_secs(60)).unwrap();
    assert_eq!(
        reap(&mut sockets),
        Observed::Received(key(0, 1), b"x".to_vec())
    );
}

fn invalid_paths_are_failures<S: Sockets<'static>>(mut sockets: S) {
    let long = Peer::Unix(PathBuf::from("/".to_owned() + &"x".repeat(200)));
    sockets.connect(key(0, 1), to(&long));
    let seen = reap(&mut sockets);
    assert!(
        matches!(seen, Observed::Failed(_, Operation::Connect, _)),
        "{seen:?}"
    );
}

/// A connect that is not accepted is cancelled completely.
#[cfg(target_os = "linux")]
fn a_connect_in_flight_is_given_up<S: Sockets<'static>>(mut sockets: S) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SockAddr::from(loopback("127.0.0.1"));
    listener.bind(&any).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let peer = Peer::Tcp(address);
    // A backlog of zero accepts one connection. The others wait in vain.
    for index in 0..4 {
        sockets.connect(key(index, 1), to(&peer));
    }
    let made = reap(&mut sockets);
    assert!(matches!(made, Observed::Connected(_)), "{made:?}");
    assert_eq!(rest(&mut sockets), []);
    assert!(attempts(address) > 0, "nothing is in flight");
    for index in 0..4 {
        sockets.close(key(index, 1), Close::Abort);
    }
    let begun = Instant::now();
    while attempts(address) > 0 {
        assert!(begun.elapsed() < COMPLETION_TIMEOUT, "still in flight");
        let soon = sockets.now() + Nanos::from_millis(10);
        sockets.wait(soon).unwrap();
        assert_eq!(poll_once(&mut sockets), None);
    }
}

/// Number of connects to an address in flight (SYN_SENT in proc_net_tcp(5)).
#[cfg(target_os = "linux")]
fn attempts(address: SocketAddr) -> usize {
    let remote = format!(":{:04X} 02", address.port());
    let list = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    list.lines().filter(|line| line.contains(&remote)).count()
}

/// On Linux a full backlog is an error at once: the worker tries again.
fn a_full_backlog_is_reported<S: Sockets<'static>>(mut sockets: S) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    socket.listen(1).unwrap();
    for index in 0..8 {
        sockets.connect(key(index, 1), to(&Peer::Unix(path.clone())));
        match reap(&mut sockets) {
            Observed::Connected(_) => {}
            Observed::Failed(_, Operation::Connect, Some(libc::EAGAIN)) => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("eight connections fit into a backlog of one");
}

macro_rules! contract {
    ($backend:ident, $make:expr) => {
        mod $backend {
            use super::*;

            contract! { @each $make;
                indices_are_used_again_under_new_generations,
                a_connect_is_answered_once,
                connections_come_from_the_source_that_was_asked_for,
                a_connection_that_stands_has_an_address,
                receiving_begins_with_the_connection,
                a_send_is_answered_once_however_large,
                both_directions_go_at_once,
                bytes_come_in_order_and_then_the_end,
                large_answers_come_whole_on_all_connections,
                small_buffers_carry_large_answers,
                a_send_goes_out_after_the_peers_end,
                what_was_said_before_a_send_failed_is_received,
                a_reset_fails_the_receive,
                a_closed_key_is_never_heard_of_again,
                a_wait_for_a_lot_ends,
                a_close_tells_the_peer_as_asked,
                what_was_sent_comes_before_an_orderly_end,
                an_abort_before_it_was_heard_of_is_an_abort,
                a_backend_that_is_gone_has_closed_all,
                a_backend_that_is_idle_has_closed_all,
                time_goes_on_and_waits_end,
            }

            #[test]
            fn invalid_paths_are_failures() {
                super::invalid_paths_are_failures($make);
            }

            #[cfg(target_os = "linux")]
            #[test]
            fn a_connect_in_flight_is_given_up() {
                super::a_connect_in_flight_is_given_up($make);
            }

            #[test]
            fn a_full_backlog_is_reported() {
                super::a_full_backlog_is_reported($make);
            }
        }
    };
    (@each $make:expr; $($promise:ident,)*) => {
        $(mod $promise {
            use super::*;

            #[test]
            fn v4() {
                super::super::$promise($make, Via::V4);
            }

            #[test]
            fn v6() {
                super::super::$promise($make, Via::V6);
            }

            #[test]
            fn unix() {
                super::super::$promise($make, Via::Unix);
            }
        })*
    };
}

contract!(poll, PollSockets::new(8).unwrap());
#[cfg(target_os = "linux")]
contract!(uring, crate::socket::UringSockets::new(8).unwrap());
// Once more with the buffers of Linux before 6.12.
#[cfg(target_os = "linux")]
contract!(
    uring_whole_buffers,
    crate::socket::UringSockets::with_buffers(8, crate::socket::uring::BufferUse::Whole).unwrap()
);
