//! Tests of named places and links on this machine: reachability, rates, settings and cleanup.
//!
//! The tests require root, iproute2 and nftables. Tests that run a plan also require nginx or
//! Caddy. `cargo xtask test` installs these programs, and the tests fail without them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use prony_experiment::runner::{ExperimentEvent, ExperimentOutcome, Interrupt, RunSettings, run};
use prony_machine::host::local::LocalHost;
use prony_machine::host::{Host, HostError};
use prony_machine::place::{self, NetnsHandle};
use prony_machine::profile::MachineProfile;
use prony_machine::telemetry::LinkTraffic;
use prony_plan::Plan;
use prony_plan::service::PlaceKind;
use prony_plan::topology::{
    AddressBlock, LinkEnd, LinkRate, NamedPlace, NetworkLink, PacketShare, Topology,
};
use prony_stats::Metric;

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

const CLIENTS: usize = 0;
const FRONT: usize = 1;
const BACK: usize = 2;

/// A host with its own state folder.
struct Lab {
    folder: tempfile::TempDir,
    host: LocalHost,
}

impl Lab {
    fn new() -> Self {
        place::check_kind(PlaceKind::Named(0)).expect("these tests require root and iproute2");
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        for dir in [folder.path(), &state] {
            // The workers of nginx run as another user, who must be able to enter the folders.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir, open).unwrap();
        }
        let host = LocalHost::with_state_in(state);
        Self { folder, host }
    }

    fn netns_handle(&self, place: usize) -> NetnsHandle {
        self.host
            .netns_handle(PlaceKind::Named(place))
            .unwrap()
            .unwrap()
    }

    /// Runs a plan in which the names of all places end with `own`, and checks that none of their
    /// namespaces is left.
    fn run(
        &mut self,
        plan: &str,
        own: &str,
        on: &mut dyn FnMut(&Interrupt, &ExperimentEvent),
    ) -> ExperimentOutcome {
        let plan = Plan::from_str(plan, Path::new("places.toml"), MachineProfile::this());
        let plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
        plan.check_machine()
            .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
        let settings = RunSettings::new(self.out());
        let interrupt = Interrupt::default();
        let finished = run(&plan, &mut self.host, &settings, &interrupt, &mut |event| {
            on(&interrupt, &event);
        });
        let finished = finished.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(namespaces(own), BTreeSet::new(), "left behind");
        finished
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }
}

/// Returns the namespaces whose names end with `own` and that were created by this process, in
/// which other tests run at the same time.
fn namespaces(own: &str) -> BTreeSet<String> {
    let prefix = format!("prony-{}-", std::process::id());
    let names = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&prefix) && name.ends_with(own))
        .collect()
}

fn place(name: &str) -> NamedPlace {
    NamedPlace {
        name: name.to_owned(),
        settings: BTreeMap::new(),
        where_possible: false,
        sources: Vec::new(),
    }
}

/// Returns the topology `clients ── wan ── front ── lan ── back`, where the link `wan` has a rate.
fn chain() -> Topology {
    let link = |name: &str, [a, b]: [usize; 2], subnet, rate| {
        let end = |place, last| LinkEnd {
            place,
            address: Ipv4Addr::new(10, 77, subnet, last),
        };
        NetworkLink {
            name: name.to_owned(),
            ends: [end(a, 1), end(b, 2)],
            rate,
            loss: None,
            emulation: None,
        }
    };
    let rate = Some(LinkRate::new(20_000_000));
    Topology {
        places: vec![place("clients"), place("front"), place("back")],
        links: vec![
            link("wan", [CLIENTS, FRONT], 0, rate),
            link("lan", [FRONT, BACK], 1, None),
        ],
    }
}

/// Listens on all addresses of a place.
fn listen(netns: &NetnsHandle) -> (TcpListener, u16) {
    let listener = netns
        .run_inside(|| TcpListener::bind("0.0.0.0:0").unwrap())
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn reaches(netns: &NetnsHandle, address: Ipv4Addr, port: u16) -> bool {
    let address = SocketAddr::from((address, port));
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(3)).is_ok();
    netns.run_inside(connect).unwrap()
}

#[test]
fn only_links_connect_places() {
    let mut lab = Lab::new();
    let mut topology = chain();
    topology.places[CLIENTS].sources = AddressBlock::cover("10.50.0.0/22").unwrap();
    lab.host.allocate(&[], &topology).unwrap();
    let [clients, front, back] = [CLIENTS, FRONT, BACK].map(|place| lab.netns_handle(place));
    let (listener, port) = listen(&front);
    let leg = |from| topology.address(FRONT, from).unwrap();
    assert!(reaches(&clients, leg(CLIENTS), port));
    assert!(reaches(&back, leg(BACK), port));
    assert!(reaches(&front, Ipv4Addr::LOCALHOST, port));
    let (_unlinked, hidden) = listen(&back);
    let address = topology.address(BACK, FRONT).unwrap();
    assert!(reaches(&front, address, hidden));
    assert!(
        !reaches(&clients, address, hidden),
        "front must not forward packets"
    );
    let from_outside = TcpStream::connect_timeout(
        &SocketAddr::from((leg(CLIENTS), port)),
        Duration::from_millis(300),
    );
    assert!(from_outside.is_err(), "the host must not reach a place");

    // Accept pending connections. Then check that every address of the block can be bound and
    // reached.
    while listener.set_nonblocking(true).is_ok() && listener.accept().is_ok() {}
    listener.set_nonblocking(false).unwrap();
    for source in ["10.50.0.1", "10.50.1.77", "10.50.3.254"] {
        let source: Ipv4Addr = source.parse().unwrap();
        let connected = clients
            .run_inside(|| connect_from(source, leg(CLIENTS), port))
            .unwrap();
        let (_accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), source);
        drop(connected);
    }
    drop((clients, front, back));
    lab.host.release().unwrap();
    assert!(lab.host.netns_handle(PlaceKind::Named(FRONT)).is_err());
}

/// Connects from the address `source`, as the load does for each of its source addresses.
fn connect_from(source: Ipv4Addr, address: Ipv4Addr, port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &SocketAddr::from((address, port))).unwrap();
    socket.into()
}

fn traffic(lab: &mut Lab, link: &str) -> LinkTraffic {
    lab.host.sample().links[link]
}

#[test]
fn a_link_keeps_its_rate_both_ways_and_counts_every_frame() {
    const PAYLOAD: usize = 2_000_000;
    let mut lab = Lab::new();
    let topology = chain();
    lab.host.allocate(&[], &topology).unwrap();
    let doors = [lab.netns_handle(CLIENTS), lab.netns_handle(FRONT)];
    let rate = topology.links[0].rate.unwrap();
    for (sender, receiver) in [(CLIENTS, FRONT), (FRONT, CLIENTS)] {
        let (listener, port) = listen(&doors[receiver]);
        let address = topology.address(receiver, sender).unwrap();
        let before = traffic(&mut lab, "wan");
        let began = Instant::now();
        let received = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
            });
            let send = || {
                let mut stream = TcpStream::connect((address, port)).unwrap();
                stream.write_all(&vec![7; PAYLOAD]).unwrap();
            };
            doors[sender].run_inside(send).unwrap();
            reading.join().unwrap()
        });
        let took_s = began.elapsed().as_secs_f64();
        assert_eq!(received as usize, PAYLOAD);
        let crossed = traffic(&mut lab, "wan").since(&before);
        let (bytes, packets) = match sender {
            CLIENTS => (crossed.forward_bytes, crossed.forward_packets),
            _ => (crossed.reverse_bytes, crossed.reverse_packets),
        };
        // A busy machine can only make the transfer slower.
        let most = rate.bits_per_s as f64 / 8.0 * took_s * 1.05 + rate.burst_bytes as f64;
        assert!((bytes as f64) < most, "{bytes} bytes in {took_s} s");
        // Each frame of 1,514 bytes holds at most 1,448 bytes of payload, retransmitted or not.
        assert!(
            packets >= (PAYLOAD / 1_448) as u64,
            "{packets} packets are fewer than the frames of the payload"
        );
        assert!(bytes >= PAYLOAD as u64 * 1_514 / 1_448, "{bytes} bytes");
        assert!(
            bytes / packets <= 1_514,
            "{bytes} bytes in {packets} packets"
        );
    }
}

/// Sends datagrams from one place to an address in another place, where no socket receives them.
fn send_datagrams(from: &NetnsHandle, to: Ipv4Addr, count: usize) {
    let send = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..count {
            socket.send_to(&[7; 100], (to, 9)).unwrap();
        }
    };
    from.run_inside(send).unwrap();
}

/// Returns the number of packets that the loss rules of a place have dropped; `None` if the place
/// has no such rules.
fn dropped_packets(netns: &NetnsHandle) -> Option<u64> {
    let list = || Command::new("nft").args(["list", "ruleset"]).output();
    let listed = netns.run_inside(list).unwrap().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let rules = String::from_utf8(listed.stdout).unwrap();
    let (_, count) = rules.split_once("counter packets ")?;
    count.split(' ').next()?.parse().ok()
}

#[test]
fn a_lossy_link_drops_its_share_each_way_and_others_drop_nothing() {
    const SENT: usize = 4_000;
    let mut lab = Lab::new();
    let mut topology = chain();
    (topology.links[0].rate, topology.links[0].loss) = (None, PacketShare::parse("10%").ok());
    topology.links[1].loss = PacketShare::parse("0%").ok();
    lab.host.allocate(&[], &topology).unwrap();
    let [clients, front, back] = [CLIENTS, FRONT, BACK].map(|place| lab.netns_handle(place));
    assert_eq!(
        [&clients, &front, &back].map(dropped_packets),
        [Some(0), Some(0), None]
    );
    send_datagrams(&back, topology.address(FRONT, BACK).unwrap(), SENT);
    assert_eq!(
        dropped_packets(&front),
        Some(0),
        "packets on the other link"
    );

    // The expected number is 400, and six standard deviations are 114. ICMP replies are too few to
    // matter.
    send_datagrams(&clients, topology.address(FRONT, CLIENTS).unwrap(), SENT);
    let dropped = dropped_packets(&front).unwrap();
    assert!((280..520).contains(&dropped), "{dropped} of {SENT}");
    let before = dropped_packets(&clients).unwrap();
    send_datagrams(&front, topology.address(CLIENTS, FRONT).unwrap(), SENT);
    let dropped = dropped_packets(&clients).unwrap() - before;
    assert!((280..520).contains(&dropped), "{dropped} of {SENT}");
}

#[test]
fn settings_are_the_places_own_and_those_of_the_machine_are_refused() {
    let read = || std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let outside = read();
    let mut lab = Lab::new();
    let mut topology = Topology {
        places: vec![place("tuned"), place("plain")],
        links: Vec::new(),
    };
    let settings = [
        ("net.core.somaxconn", "1234"),
        ("net.ipv4.ip_local_port_range", "2000 60000"),
    ];
    topology.places[0].settings = settings
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    lab.host.allocate(&[], &topology).unwrap();
    assert_eq!(lab.netns_handle(0).run_inside(read).unwrap().trim(), "1234");
    assert_eq!(lab.netns_handle(1).run_inside(read).unwrap(), outside);
    assert_eq!(read(), outside);

    let machines = ("net.core.netdev_max_backlog".to_owned(), "7".to_owned());
    topology.places[0].settings.extend([machines]);
    let error = lab.host.allocate(&[], &topology).unwrap_err();
    assert!(matches!(error, HostError::Setting { .. }), "{error}");
    assert!(error.to_string().contains("whole machine"), "{error}");
    topology.places[0].where_possible = true;
    lab.host.allocate(&[], &topology).unwrap();
    let facts = &lab.host.environment().places["tuned"];
    assert_eq!(facts.sysctls["net.core.somaxconn"], "1234");
    assert!(
        facts
            .not_applicable
            .contains_key("net.core.netdev_max_backlog")
    );

    topology.places[0].settings = [(
        "net.ipv4.tcp_congestion_control".to_owned(),
        "nonsense".to_owned(),
    )]
    .into();
    let error = lab.host.allocate(&[], &topology).unwrap_err();
    assert!(
        error.to_string().contains("tcp_congestion_control"),
        "{error}"
    );
}

/// A plan with a load over a rate-limited link to an nginx, which is a proxy for another nginx. The
/// load and both servers run in separate places.
const TWO_LEGS: &str = r#"
name = "two-legs"
baseline = { rate = "slow" }
[trials]
blocks = 1
warmup = "100ms"
duration = "1s"
seed = 3
[factors]
rate = [{ name = "slow", rate = "40Mbit" }, { name = "fast", rate = "120Mbit" }]
[place.clients_of_plan]
[place.front_of_plan.sysctl]
net.core.somaxconn = 999
[place.back_of_plan]
[link.wan]
between = ["clients_of_plan", "front_of_plan"]
rate = "{{ rate.rate }}"
[link.lan]
between = ["front_of_plan", "back_of_plan"]
[service.app]
place = "back_of_plan"
command = ["nginx", "-c", "{{ app.files['nginx.conf'] }}", "-g", "daemon off;"]
[service.app.files]
"page.html" = { text = "{% for i in range(1000) %}0123456789{% endfor %}" }
"nginx.conf" = { text = """
pid {{ app.dir }}/nginx.pid; error_log stderr; worker_processes 1; events {}
http { access_log off; server { listen {{ app.address }}; root {{ app.dir }}; } }
""" }
[service.lb]
needs = ["app"]
place = "front_of_plan"
command = ["nginx", "-c", "{{ lb.files['nginx.conf'] }}", "-g", "daemon off;"]
ready = { get = "/page.html" }
[service.lb.files]
"nginx.conf" = { text = """
pid {{ lb.dir }}/nginx.pid; error_log stderr; worker_processes 1; events {}
http {
  log_format who '$remote_addr';
  access_log SEEN who;
  upstream app { server {{ app.address }}; keepalive 8; }
  server {
    listen {{ lb.address }};
    location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
""" }
[load]
place = "clients_of_plan"
target = "lb"
path = "/page.html"
connections = 8
no_keepalive = true
source = ["10.60.0.0/20"]
"#;

#[test]
fn a_plan_with_two_legs_runs_and_leaves_nothing() {
    let mut lab = Lab::new();
    let seen = lab.folder.path().join("seen.log");
    let plan = TWO_LEGS.replace("SEEN", &seen.display().to_string());
    let finished = lab.run(&plan, "_of_plan", &mut |_, _| {});
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let document = finished.document;
    let median = |variant: usize, metric| document.variants[variant].metrics[&metric].median;
    for variant in [0, 1] {
        let used = median(variant, Metric::LinkUsedShare);
        assert!((0.0..=1.0).contains(&used), "{used}");
        // On a busy machine, the link's counters may be read up to some percent of the trial before
        // or after the measured part ends, so the lower limit allows for that.
        let overhead = median(variant, Metric::LinkOverheadShare);
        assert!(
            (0.0..0.5).contains(&overhead),
            "overhead of headers and frames: {overhead}"
        );
    }
    let trial = |file: &str| {
        let path = lab.out().join("trials/1-slow").join(file);
        std::fs::read_to_string(path).unwrap()
    };
    assert!(
        trial("lb/nginx.conf").contains("server 10.213.1.2:"),
        "the proxy uses the address on its own link"
    );
    assert!(trial("lb/nginx.conf").contains("listen 0.0.0.0:"));
    let record = prony_record::Record::from_json(&trial("record.json")).unwrap();
    assert!(
        record.load.url.starts_with("http://10.213.0.2:"),
        "{}",
        record.load.url
    );
    assert!(
        record.totals.ok > 8 && record.totals.failed == 0,
        "{:?}",
        record.totals
    );
    // The link carries 40 Mbit/s. The token bucket allows an additional burst.
    let payload = record.totals.body_bytes_in as f64 / record.totals.elapsed_s;
    assert!(
        payload < 5_000_000.0 * 1.1,
        "{payload} body bytes per second"
    );
    assert!(trial("telemetry.csv").contains(",link:wan,"));
    assert!(
        std::fs::read_to_string(lab.out().join("environment.json"))
            .unwrap()
            .contains("\"999\"")
    );
    let mut log = String::new();
    std::fs::File::open(&seen)
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    let sources: BTreeSet<Ipv4Addr> = log.lines().filter_map(|line| line.parse().ok()).collect();
    let block = AddressBlock::cover("10.60.0.0/20").unwrap()[0];
    let of_load = sources.iter().filter(|&&source| block.has(source)).count();
    assert!(of_load > 100, "{of_load} of the load's addresses were seen");
}

#[test]
fn an_interrupted_load_in_a_place_ends_at_once() {
    let mut lab = Lab::new();
    let seen = lab.folder.path().join("seen.log");
    let plan = TWO_LEGS
        .replace("SEEN", &seen.display().to_string())
        .replace("_of_plan", "_stopped")
        .replace("duration = \"1s\"", "duration = \"10m\"");
    let began = Instant::now();
    let finished = lab.run(&plan, "_stopped", &mut |interrupt, event| {
        if matches!(event, ExperimentEvent::Loading { .. }) {
            interrupt.stop();
        }
    });
    assert!(finished.interrupted && finished.failed.is_none());
    assert!(
        began.elapsed() < WAIT_TIMEOUT,
        "the interrupt did not end the load"
    );
}

/// A plan that compares HTTP/3 over a link with and without packet loss.
const LOSSY: &str = r#"
name = "lossy"
baseline = { loss = "none" }
[trials]
blocks = 1
warmup = "100ms"
duration = "2s"
[factors]
loss = [{ name = "none", loss = "0%" }, { name = "some", loss = "5%" }]
[place.clients_lossy]
[place.server_lossy]
[link.wan]
between = ["clients_lossy", "server_lossy"]
addresses = ["10.213.0.1", "10.213.0.2"]
loss = "{{ loss.loss }}"
[service.web]
place = "server_lossy"
listen = { https = "tcp", quic = "udp" }
command = ["caddy", "run", "--adapter", "caddyfile", "--config", "{{ web.files['Caddyfile'] }}"]
env = { HOME = "{{ web.dir }}", XDG_DATA_HOME = "{{ web.dir }}", XDG_CONFIG_HOME = "{{ web.dir }}" }
ready = { get = "/page.html", status = 200, listener = "quic" }
[service.web.files]
"server.crt" = { certificate = ["127.0.0.1", "10.213.0.2"] }
"server.key" = { key_of = "server.crt" }
"www/page.html" = { text = "{% for i in range(1000) %}0123456789{% endfor %}" }
"Caddyfile" = { text = """
{
	admin off
	auto_https off
	storage file_system {{ web.dir }}/storage
}
https://:{{ web.https.port }} {
	tls {{ web.files['server.crt'] }} {{ web.files['server.key'] }}
	root * {{ web.dir }}/www
	file_server
}
""" }
[load]
place = "clients_lossy"
target = "web.quic"
path = "/page.html"
http = "3"
connections = 8
streams = 4
timeout = "20s"
insecure = true
"#;

#[test]
fn http3_survives_a_link_that_loses_packets() {
    let mut lab = Lab::new();
    let finished = lab.run(LOSSY, "_lossy", &mut |_, _| {});
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    for (id, is_lossy) in [("none", false), ("some", true)] {
        let path = lab.out().join(format!("trials/1-{id}/record.json"));
        let record = std::fs::read_to_string(path).unwrap();
        let record = prony_record::Record::from_json(&record).unwrap();
        assert!(record.totals.ok > 32, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.outcomes);
        let quic = record.quic.unwrap();
        // On a busy machine, packets that are only late count as lost, too. The link loses 5%.
        let share = quic.packets_lost as f64 / quic.packets_sent as f64;
        assert_eq!(share > 0.01, is_lossy, "{id}: {quic:?}");
    }
}
