//! Rules about connecting: keys, sources and failures.

use super::*;

pub(super) fn indices_are_reused_with_new_generations<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
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

pub(super) fn a_connect_completes_once<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    sockets.connect(key(0, 1), to(&listener.peer));
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    assert_eq!(rest(&mut sockets), []);
    sockets.close(key(0, 1), Close::Abort);
    let (peer, _bound) = unused_address(via);
    sockets.connect(key(0, 2), to(&peer));
    let errno = match via {
        Via::Unix => libc::ENOENT,
        _ => libc::ECONNREFUSED,
    };
    let refused = Observed::Failed(key(0, 2), Operation::Connect, Some(errno));
    assert_eq!(reap(&mut sockets), refused);
    assert_eq!(rest(&mut sockets), []);
}

pub(super) fn connections_use_the_requested_source<S: ByteSockets<'static>>(
    mut sockets: S,
    via: Via,
) {
    if via == Via::Unix {
        return;
    }
    let source = other_source(via);
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
    finish_connect(&mut sockets);
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

pub(super) fn an_open_connection_has_an_address<S: ByteSockets<'static>>(mut sockets: S, via: Via) {
    let listener = Listener::new(via);
    assert_eq!(sockets.local_address(key(0, 1)), None);
    sockets.connect(key(0, 1), to(&listener.peer));
    assert_eq!(reap(&mut sockets), Observed::Connected(key(0, 1)));
    finish_connect(&mut sockets);
    let (_peer, from) = listener.socket.accept().unwrap();
    // A UNIX socket has no IP address on either side.
    assert_eq!(sockets.local_address(key(0, 1)), from.as_socket());
    assert_eq!(from.as_socket().is_none(), via == Via::Unix);
    assert_eq!(sockets.local_address(key(0, 2)), None);
    sockets.close(key(0, 1), Close::Abort);
    assert_eq!(sockets.local_address(key(0, 1)), None);
}

pub(super) fn invalid_paths_are_failures<S: ByteSockets<'static>>(mut sockets: S) {
    let long = Peer::Unix(PathBuf::from("/".to_owned() + &"x".repeat(200)));
    sockets.connect(key(0, 1), to(&long));
    let seen = reap(&mut sockets);
    assert!(
        matches!(seen, Observed::Failed(_, Operation::Connect, _)),
        "{seen:?}"
    );
}

/// Closing a pending connection attempt cancels it completely.
pub(super) fn a_connect_in_flight_can_be_canceled<S: ByteSockets<'static>>(mut sockets: S) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SockAddr::from(loopback("127.0.0.1"));
    listener.bind(&any).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let peer = Peer::Tcp(address);
    // A listener with a backlog of zero accepts one connection. All other connections wait forever.
    for index in 0..4 {
        sockets.connect(key(index, 1), to(&peer));
    }
    let made = reap(&mut sockets);
    assert!(matches!(made, Observed::Connected(_)), "{made:?}");
    assert_eq!(rest(&mut sockets), []);
    assert!(attempts(address) > 0, "no connection attempt is in flight");
    for index in 0..4 {
        sockets.close(key(index, 1), Close::Abort);
    }
    let begun = Instant::now();
    while attempts(address) > 0 {
        assert!(
            begun.elapsed() < COMPLETION_TIMEOUT,
            "connection attempts are still in flight"
        );
        let soon = sockets.now() + Nanos::from_millis(10);
        sockets.wait(soon).unwrap();
        assert_eq!(poll_once(&mut sockets), None);
    }
}

/// Returns the number of pending connects to an address (SYN_SENT in proc_net_tcp(5)).
fn attempts(address: SocketAddr) -> usize {
    let remote = format!(":{:04X} 02", address.port());
    let list = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    list.lines().filter(|line| line.contains(&remote)).count()
}

/// On Linux, a full backlog is an immediate error, and the worker has to retry.
pub(super) fn a_full_backlog_is_reported<S: ByteSockets<'static>>(mut sockets: S) {
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
