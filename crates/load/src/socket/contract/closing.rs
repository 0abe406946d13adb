//! Rules about closing connections and dropping a backend.

use super::*;

pub(super) fn a_closed_key_gets_no_more_completions<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    let mut peers = Vec::new();
    for index in 0..4 {
        peers.push(connected(&mut sockets, &listener, key(index, 1)));
    }
    for peer in &mut peers {
        peer.write_all(b"news").unwrap();
    }
    // Each of the four connections has a completion, or will have one soon. The first three are
    // closed before their completions are reaped.
    sockets.wait(sockets.now() + Nanos::from_secs(5)).unwrap();
    sockets.send(key(0, 1), Outgoing::Shared(b"x"));
    for index in 0..3 {
        sockets.close(key(index, 1), Close::Orderly);
        sockets.close(key(index, 1), Close::Orderly);
    }
    // A new connection reuses one index. It must not receive the completions of the old connection.
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

pub(super) fn a_close_reaches_the_peer_in_the_requested_way<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    for (generation, how) in [(1, Close::Orderly), (2, Close::Abort)] {
        let mut peer = connected(&mut sockets, &listener, key(0, generation));
        sockets.close(key(0, generation), how);
        sockets.wait(sockets.now()).unwrap();
        let read = peer.read(&mut [0; 8]).map_err(|error| error.kind());
        match (how, via) {
            (Close::Abort, Via::V4 | Via::V6) => {
                assert_eq!(read, Err(io::ErrorKind::ConnectionReset));
            }
            _ => assert_eq!(read, Ok(0)),
        }
    }
}

pub(super) fn sent_bytes_arrive_before_an_orderly_end<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
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

/// Tests a connection that is established, but whose completion the worker has not reaped.
pub(super) fn an_unreaped_connection_can_be_aborted<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    for generation in 1..4 {
        sockets.connect(key(0, generation), to(&listener.peer));
        // Each round waits once more than the previous one. In the first round, the connect is only
        // submitted; in later rounds, the connection is established.
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
pub(super) fn dropping_a_backend_closes_all_connections<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
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
        // The peer sees that the backend's end of the connection is closed.
        let end = peer.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
        assert!(!matches!(end, Err(io::ErrorKind::WouldBlock)), "{end:?}");
    }
}

/// Dropping a backend also closes connections whose peer has already closed its side.
pub(super) fn dropping_an_idle_backend_closes_all_connections<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reap(&mut sockets), Observed::Closed(key(0, 1)));
    drop(sockets);
    let end = peer.read(&mut [0; 8]).map_err(|e| e.kind());
    assert!(!matches!(end, Err(io::ErrorKind::WouldBlock)), "{end:?}");
}
