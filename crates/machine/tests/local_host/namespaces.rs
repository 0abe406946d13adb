//! Tests of services in namespaces.

use super::*;

#[test]
fn a_namespace_isolates_network_processes_and_users() {
    places();
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Namespace, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    assert!(!address.ip().is_loopback());
    bench.start(
        PlaceKind::Namespace,
        "for n in net mnt pid uts ipc user; do echo $n $(readlink /proc/self/ns/$n); done; \
         echo devices $(grep -c : /proc/net/dev); echo processes $(ls -d /proc/[0-9]* | wc -l); \
         echo me $(id -u); cat /etc/shadow >/dev/null && echo reads; sleep 1000",
    );
    bench.logged("reads");
    for space in ["net", "mnt", "pid", "uts", "ipc", "user"] {
        let own = std::fs::read_link(format!("/proc/self/ns/{space}")).unwrap();
        assert_ne!(
            bench.logged(&format!("{space} ")),
            own.to_string_lossy(),
            "{space}"
        );
    }
    assert_eq!(bench.logged("devices "), "2");
    assert_eq!(bench.logged("me "), "0");
    let processes: usize = bench.logged("processes ").parse().unwrap();
    assert!(processes <= 6, "the service sees {processes} processes");
}

#[test]
fn a_namespace_has_the_hosts_network_settings() {
    places();
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Namespace, &[]);
    let names = [
        "core/somaxconn",
        "ipv4/tcp_rmem",
        "ipv4/tcp_max_syn_backlog",
        "ipv4/tcp_congestion_control",
    ];
    let script = "for n in $NAMES; do echo $n $(cat /proc/sys/net/$n); done; sleep 1000";
    let mut spec = shell(PlaceKind::Namespace, script);
    spec.env.insert("NAMES".into(), names.join(" "));
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    for name in names {
        let own = std::fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap();
        let own: Vec<&str> = own.split_whitespace().collect();
        assert_eq!(bench.logged(&format!("{name} ")), own.join(" "), "{name}");
    }
}

#[test]
fn a_namespaced_server_is_reached_over_its_link_and_low_ports_are_open() {
    places();
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Namespace, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    let mut spec = shell(PlaceKind::Namespace, "");
    let program = "import socket,sys\n\
        s=socket.create_server((sys.argv[1],80))\n\
        while True:\n c,_=s.accept(); c.sendall(b'x'*100000); c.close()\n";
    spec.command = vec![
        "python3".into(),
        "-c".into(),
        program.into(),
        address.ip().to_string(),
    ];
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    let address = SocketAddr::new(address.ip(), 80);
    let before = bench.host.sample().services["s"].network;
    let received = wait_for("a response", || {
        let mut stream = TcpStream::connect(address).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok().map(|_| bytes.len())
    });
    assert_eq!(received, 100_000);
    let after = bench.host.sample().services["s"].network;
    assert!(!after.shared);
    assert!(after.sent - before.sent >= 100_000, "{before:?} {after:?}");
    assert!(
        after.received - before.received < 100_000,
        "{before:?} {after:?}"
    );
}

#[test]
fn unix_sockets_are_reached_from_outside_a_namespace() {
    for place in places() {
        let mut bench = Bench::new();
        let endpoints = bench.allocate(place, &[ListenKind::Unix]);
        let Endpoint::Unix(path) = &endpoints[0] else {
            panic!("{endpoints:?}")
        };
        let mut spec = shell(place, "");
        let program = "import socket,sys,os\nos.umask(0o077)\ns=socket.socket(socket.AF_UNIX)\n\
            s.bind(sys.argv[1]); s.listen()\nc,_=s.accept(); c.sendall(b'hello'); c.close()\ns.accept()";
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            program.into(),
            path.display().to_string(),
        ];
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        let response = wait_for("a response", || {
            let mut stream = std::os::unix::net::UnixStream::connect(path).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok().map(|_| text)
        });
        assert_eq!(response, "hello");
        bench.host.alive("s").unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o666);
        bench.host.release().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn services_in_namespaces_reach_each_other_and_native_ones() {
    places();
    let mut bench = Bench::new();
    let wanted = |service: &str, place| Allocation {
        jail: None,
        service: service.to_owned(),
        host: None,
        exposed: false,
        place,
        listen: [(String::new(), ListenKind::Tcp)].into(),
    };
    let order = [
        wanted("native", PlaceKind::Native),
        wanted("first", PlaceKind::Namespace),
        wanted("second", PlaceKind::Namespace),
        wanted("front", PlaceKind::Native),
    ];
    let allocated = bench
        .host
        .allocate(&order, &Topology::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let address = |service: &str| match &allocated[service].endpoints[""] {
        Endpoint::Tcp(address) => *address,
        other => panic!("{other:?} is not a TCP endpoint"),
    };
    assert!(
        address("front").ip().is_loopback(),
        "no service in a namespace needs this one"
    );
    let logs = bench.logs();
    let server = "import socket,sys\ns=socket.create_server((sys.argv[1],int(sys.argv[2])))\n\
        while True:\n c,_=s.accept(); c.sendall(sys.argv[3].encode()); c.close()\n";
    for (name, place) in [
        ("native", PlaceKind::Native),
        ("first", PlaceKind::Namespace),
    ] {
        let (ip, port) = (
            address(name).ip().to_string(),
            address(name).port().to_string(),
        );
        let mut spec = shell(place, "");
        spec.name = name.to_owned();
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            server.into(),
            ip,
            port,
            format!("I am {name}"),
        ];
        bench.host.start(&spec, &logs).unwrap();
        wait_for("a server", || TcpStream::connect(address(name)).ok());
    }
    let client = "import socket,sys\nfor a in sys.argv[1:]:\n h,p=a.rsplit(':',1)\n \
        print(socket.create_connection((h,int(p)),10).recv(99).decode(),flush=True)\n";
    let mut spec = shell(PlaceKind::Namespace, "");
    spec.name = "second".to_owned();
    spec.command = vec![
        "python3".into(),
        "-c".into(),
        client.into(),
        address("native").to_string(),
        address("first").to_string(),
    ];
    bench.host.start(&spec, &logs).unwrap();
    wait_for("both answers", || {
        let log = bench.host.log_tail("second", 9);
        assert!(!log.contains("Error"), "{log}");
        (log == "I am native\nI am first").then_some(())
    });
}
