//! Rules about sending and receiving.

use super::*;

pub(super) fn receiving_begins_with_the_connection<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    sockets.connect(key(0, 1), to(&listener.peer));
    let write = move || listener.accept().write_all(b"first");
    let writing = std::thread::spawn(write);
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    let (bytes, end) = receive_all(&mut sockets);
    writing.join().unwrap().unwrap();
    assert_eq!(
        (&bytes[..], end),
        (&b"first"[..], Observed::Closed(key(0, 1)))
    );
}

pub(super) fn a_send_of_any_size_completes_once<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
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
        // The completion returns the buffer unchanged.
        assert_eq!(
            reap(&mut sockets),
            Observed::Sent(key(0, 1), Some(bytes.clone()))
        );
        assert!(
            join(&mut sockets, read).unwrap() == bytes,
            "the peer received different bytes (length {length})"
        );
    }
    send_shared(&mut sockets, key(0, 1), b"shared");
    assert_eq!(rest(&mut sockets), []);
    let mut shared = [0; 6];
    peer.read_exact(&mut shared).unwrap();
    assert_eq!(&shared, b"shared");
}

pub(super) fn both_directions_work_at_the_same_time<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    let peer = connected(&mut sockets, &listener, key(0, 1));
    let bytes = pattern(5 << 20);
    sockets.send(key(0, 1), Outgoing::Owned(bytes.clone()));
    let response = bytes.clone();
    let (reader, mut writer) = (peer.try_clone().unwrap(), peer);
    let reading = std::thread::spawn(move || {
        let mut read = Vec::new();
        reader.take(5 << 20).read_to_end(&mut read).map(|_| read)
    });
    let writing = std::thread::spawn(move || {
        let written = writer.write_all(&response);
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
    assert!(all == bytes && join(&mut sockets, reading).unwrap() == bytes);
}

pub(super) fn bytes_arrive_in_order_before_the_end<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
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

/// Tests responses whose total size exceeds a backend's buffers.
pub(super) fn large_responses_arrive_whole_on_all_connections<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
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

pub(super) fn small_buffers_carry_large_responses<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    let route = Route {
        buffers: Some(8192),
        ..to(&listener.peer)
    };
    sockets.connect(key(0, 1), route);
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    finish_connect(&mut sockets);
    let (mut peer, bytes) = (listener.accept(), pattern(100_000));
    let expected = bytes.clone();
    let writing = std::thread::spawn(move || peer.write_all(&bytes));
    let (received, end) = receive_all(&mut sockets);
    assert!(received == expected);
    assert_eq!(end, Observed::Closed(key(0, 1)));
    writing.join().unwrap().unwrap();
}

pub(super) fn a_send_works_after_the_peers_end<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
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
    assert!(join(&mut sockets, reading).unwrap() == bytes);
}

pub(super) fn bytes_before_a_failed_send_are_received<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    let listener = Listener::new(via);
    let mut peer = connected(&mut sockets, &listener, key(0, 1));
    peer.write_all(b"enough").unwrap();
    // The send has more bytes than any socket buffer holds, so some bytes are sent only after the
    // peer has closed the connection.
    sockets.send(key(0, 1), Outgoing::Owned(vec![7; 64 << 20]));
    sockets.wait(sockets.now()).unwrap();
    let mut some = [0; 10];
    peer.read_exact(&mut some).unwrap();
    // Dropping the peer with unread bytes resets the connection.
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

pub(super) fn a_reset_fails_the_receive<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    let peer = connected(&mut sockets, &listener, key(0, 1));
    send_shared(&mut sockets, key(0, 1), b"unread");
    peer.set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let reset = Observed::Failed(key(0, 1), Operation::Receive, Some(libc::ECONNRESET));
    assert_eq!(reap(&mut sockets), reset);
    // The end of a connection is reported only once. A connection that stays open after a reset
    // causes no more completions.
    assert_eq!(rest(&mut sockets), []);
}
