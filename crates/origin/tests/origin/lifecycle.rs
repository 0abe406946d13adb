//! Tests of starting, failing to start, and stopping.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use prony_origin::{Config, HELLO, Origin, OriginError};

use crate::client::{Client, End, Via, clear, get, start};

fn any_port() -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap()]
}

fn refused(config: Config) -> OriginError {
    Origin::start(config)
        .map(|origin| origin.addresses().to_vec())
        .unwrap_err()
}

#[test]
fn listens_on_both_families_and_several_paths_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let unix: Vec<PathBuf> = ["a", "b"].map(|name| folder.path().join(name)).to_vec();
    let listen = ["127.0.0.1:0", "[::1]:0", "127.0.0.1:0"]
        .map(|a| a.parse().unwrap())
        .to_vec();
    let config = Config {
        listen,
        unix: unix.clone(),
        ..Config::default()
    };
    let origin = Origin::start(config).unwrap();
    assert_eq!(origin.addresses().len(), 3);
    assert_eq!(origin.unix_paths(), unix);
    for address in origin.addresses() {
        assert_ne!(address.port(), 0);
        let mut client = Client::over(TcpStream::connect(address).unwrap());
        assert_eq!(client.get("/").body, HELLO.as_bytes(), "{address}");
    }
    for path in &unix {
        let mut client = Client::over(UnixStream::connect(path).unwrap());
        assert_eq!(client.get("/").body, HELLO.as_bytes(), "{}", path.display());
    }
    assert_eq!(origin.requests(), 5);
}

#[test]
fn several_threads_serve_and_count_together() {
    let running = start(Config {
        threads: 3,
        ..Config::default()
    });
    for via in [Via::Tcp, Via::Unix] {
        let mut clients: Vec<_> = (0..20).map(|_| Client::connect(&running, via)).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").body, HELLO.as_bytes());
        }
    }
    assert_eq!(running.origin.requests(), 40);
    assert_eq!(running.origin.connections(), 40);
}

#[test]
fn threads_are_pinned_to_their_cores() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..1_024).find(|&core| allowed.is_set(core)).unwrap();
    let running = start(Config {
        cores: vec![core, core],
        ..Config::default()
    });
    assert_eq!(Client::connect(&running, Via::Tcp).get("/").status, 200);
    for core in [1_023, 5_000] {
        let error = refused(Config {
            cores: vec![core],
            listen: any_port(),
            ..Config::default()
        });
        assert!(
            matches!(error, OriginError::Core { core: c } if c == core),
            "{error}"
        );
    }
}

#[test]
fn nothing_to_listen_on() {
    assert!(matches!(
        refused(Config::default()),
        OriginError::NothingToListenOn
    ));
}

#[test]
fn an_address_in_use_is_named_whatever_the_number_of_threads() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = start(Config {
        threads: 2,
        ..Config::default()
    });
    for address in [taken.local_addr().unwrap(), shared.origin.addresses()[0]] {
        for threads in [1, 2] {
            let listen = vec![address];
            let error = refused(Config {
                listen,
                threads,
                ..Config::default()
            });
            let text = error.to_string();
            assert!(matches!(error, OriginError::Listen { address: a, .. } if a == address));
            assert!(
                text.contains(&address.to_string()) && text.contains("another process"),
                "{text}"
            );
        }
    }
}

#[test]
fn an_address_of_another_machine_is_refused_with_a_hint() {
    let listen = vec!["192.0.2.1:0".parse().unwrap()];
    let text = refused(Config {
        listen,
        ..Config::default()
    })
    .to_string();
    assert!(
        text.contains("192.0.2.1:0") && text.contains("does not have that address"),
        "{text}"
    );
}

#[test]
fn a_path_may_be_as_long_as_the_system_allows() {
    let folder = tempfile::Builder::new()
        .prefix("o")
        .tempdir_in("/tmp")
        .unwrap();
    let limit = 107;
    let name = |bytes: usize| {
        folder
            .path()
            .join("x".repeat(bytes - folder.path().as_os_str().len() - 1))
    };
    let config = |path| Config {
        unix: vec![path],
        ..Config::default()
    };
    drop(Origin::start(config(name(limit))).unwrap());
    let error = refused(config(name(limit + 1)));
    assert!(matches!(error, OriginError::UnixPathTooLong { limit: l, .. } if l == limit));
    assert!(error.to_string().contains("shorter folder"), "{error}");
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.sock");
    let config = || Config {
        unix: vec![path.clone()],
        ..Config::default()
    };
    let live = UnixListener::bind(&path).unwrap();
    assert!(matches!(
        refused(config()),
        OriginError::UnixPathInUse { .. }
    ));
    drop(live);
    assert!(path.exists(), "the socket file remains");
    let origin = Origin::start(config()).unwrap();
    assert!(matches!(
        refused(config()),
        OriginError::UnixPathInUse { .. }
    ));
    assert!(
        path.exists(),
        "the second origin must not remove the socket of the first"
    );
    origin.stop();
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_not_a_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "dear to somebody").unwrap();
    let error = refused(Config {
        unix: vec![path.clone()],
        ..Config::default()
    });
    assert!(
        matches!(error, OriginError::UnixPathOccupied { .. }),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear to somebody");
    let error = refused(Config {
        unix: vec![folder.path().join("no/folder")],
        ..Config::default()
    });
    assert!(error.to_string().contains("create it first"), "{error}");
}

#[test]
fn a_failed_start_leaves_no_socket_file() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("no/folder"));
    refused(Config {
        unix: vec![good.clone(), bad],
        ..Config::default()
    });
    assert!(!good.exists());
    refused(Config {
        unix: vec![good.clone()],
        cores: vec![1_023],
        ..Config::default()
    });
    assert!(!good.exists());
}

#[test]
fn stopping_ends_connections_whatever_they_wait_for() {
    let running = clear();
    let mut clients: Vec<_> = ["/", "/delay/60m", "/slow/10?over=60m", "/fault/stall"]
        .map(|path| {
            let mut client = Client::connect(&running, Via::Tcp);
            client.get("/");
            client.send(get(path));
            client
        })
        .into();
    while running.origin.requests() < 8 {
        std::thread::yield_now();
    }
    let address = running.origin.addresses()[0];
    running.origin.stop();
    for client in &mut clients {
        assert!(matches!(client.rest().1, End::Closed | End::Reset));
    }
    assert!(TcpStream::connect(address).is_err());
    TcpListener::bind(address).expect("the port is free again");
}
