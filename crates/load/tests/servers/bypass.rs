//! Tests of loads over AF_XDP against nginx at the other end of a veth pair. nginx's own log counts
//! the requests.
//!
//! The tests require root, iproute2, nftables and nginx. They fail without them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use prony_record::{Outcome, Record, XdpUse};

use crate::load::{self, outcomes};
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport, text};
use crate::site::hash_of;

#[path = "../../../xdp/tests/link/mod.rs"]
mod link;

use link::{FarEnd, ip, on_link};

const NGINX: &str = "
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events { worker_connections 4096; }
http {
  log_format peer '$remote_addr';
  access_log {folder}/access peer;
  keepalive_requests 1000000;
  client_max_body_size 32m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  ssl_certificate {folder}/certificate.pem;
  ssl_certificate_key {folder}/key.pem;
  server {
    listen 127.0.0.1:{tls} ssl{h2};
    listen 127.0.0.1:{clear}{h2};
    listen 10.9.0.2:{tls} ssl{h2};
    listen 10.9.0.2:{clear}{h2};
    listen [fd09::2]:{tls} ssl{h2};
    listen [fd09::2]:{clear}{h2};
    root {folder}/www;
    location = /echo {
      proxy_pass http://{origin};
      proxy_http_version 1.1;
    }
  }
}
";

/// An nginx server in the other namespace.
struct FarServer {
    server: Server,
    /// Number of lines of the server's log that were already counted.
    seen: usize,
}

impl FarServer {
    /// Starts nginx. `h2` is ` http2` to enable HTTP/2, or empty.
    fn start(far: &FarEnd, h2: &str) -> FarServer {
        let server = far.run(|| {
            let place = ServerSetup::new();
            let configuration = place.fill(&NGINX.replace("{h2}", h2));
            let file = place.site.file("nginx.conf", &configuration);
            let mut command = Command::new(program(&["nginx"]));
            command.arg("-p").arg(place.site.root());
            command.args(["-e", "stderr", "-c"]).arg(&file);
            place.start(&mut command)
        });
        FarServer { server, seen: 0 }
    }

    fn url(&self, way: Transport, host: &str, path: &str) -> String {
        self.server.url(way, path).replace("127.0.0.1", host)
    }

    /// Runs a load over AF_XDP that requests the file of `size` bytes, and verifies each body.
    fn load(&self, way: Transport, host: &str, size: usize, words: &str) -> Record {
        let url = self.url(way, host, &format!("/bytes/{size}"));
        let ca = self.server.site.path("certificate.pem");
        let mut all: Vec<&str> = vec!["--io", "xdp", "--interface", "near"];
        all.extend(["--expect-sha256", hash_of(size)]);
        if way == Transport::Tls {
            all.extend(["--sni", "localhost", "--ca", text(&ca)]);
        }
        all.extend(words.split_whitespace());
        load::run(&url, &all)
    }

    /// Returns the peers in the log after it has grown by this number of lines.
    fn peers(&mut self, lines: u64) -> BTreeMap<String, u64> {
        let began = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.server.site.path("access"));
            let log = log.unwrap_or_default();
            let more: Vec<&str> = log.lines().skip(self.seen).collect();
            if more.len() as u64 >= lines || began.elapsed() > Duration::from_secs(20) {
                self.seen += more.len();
                let mut peers = BTreeMap::new();
                for peer in more {
                    *peers.entry(peer.to_owned()).or_default() += 1;
                }
                return peers;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn logged(&mut self, lines: u64) -> u64 {
        self.peers(lines).values().sum()
    }
}

fn used(record: &Record) -> &XdpUse {
    let used = record.generator.xdp.as_ref().unwrap();
    assert_eq!(
        (record.load.io.as_str(), used.mode.as_str()),
        ("xdp", "native")
    );
    used
}

#[test]
fn every_request_and_body_arrives_over_each_protocol() {
    on_link(1, |far| {
        for (h2, flags) in [
            ("", ["", "--no-keepalive"]),
            (" http2", ["--streams 4", ""]),
        ] {
            let mut nginx = FarServer::start(far, h2);
            for (way, host) in [
                (Transport::Clear, "10.9.0.2"),
                (Transport::Tls, "10.9.0.2"),
                (Transport::Clear, "[fd09::2]"),
            ] {
                for (size, count) in [(1 << 10, 400), (16_385, 200), (100 << 10, 60)] {
                    for flags in flags {
                        let http = if h2.is_empty() { "1.1" } else { "2" };
                        let words = format!("-n {count} -c 8 --http {http} {flags}");
                        let case = format!("{way:?} {host} {size} {words}");
                        let record = nginx.load(way, host, size, &words);
                        assert_eq!(outcomes(&record), [(Outcome::Ok, count)], "{case}");
                        assert_eq!(nginx.logged(count), count, "{case}");
                        let used = used(&record);
                        assert!(used.packets_received >= count / 4, "{case}: {used:?}");
                        assert_eq!(used.bad_packets, 0, "{case}");
                    }
                }
            }
        }
    });
}

#[test]
fn lost_packets_are_repeated() {
    on_link(1, |far| {
        let mut nginx = FarServer::start(far, "");
        for (percent, size, count) in [(1, 100 << 10, 200), (5, 100 << 10, 80), (20, 16_385, 60)] {
            far.run(|| drop_at_random(percent));
            for flags in ["", "--no-keepalive"] {
                // A SYN that is lost six times in a row is repeated after a minute.
                let words = format!("-n {count} -c 20 --connect-timeout 5m --timeout 5m {flags}");
                let record = nginx.load(Transport::Clear, "10.9.0.2", size, &words);
                let case = format!("{percent}% {flags}");
                assert_eq!(outcomes(&record), [(Outcome::Ok, count)], "{case}");
                assert_eq!(nginx.logged(count), count, "{case}");
            }
        }
    });
}

/// Applies rules to this thread's namespace.
fn nft(rules: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    let mut nft = Command::new(program(&["nft"]));
    let status = nft.arg("-f").arg(file.path()).status().unwrap();
    assert!(status.success(), "nft: {status}");
}

/// Drops this percentage of the packets at the server's end, in both directions.
///
/// Every SYN-ACK is accepted. If one were dropped on output, the kernel's TCP would learn of it,
/// forget the connection that isn't established yet, and reset it when its next segment arrives.
fn drop_at_random(percent: u32) {
    nft(&format!(
        "table inet loss\ndelete table inet loss\ntable inet loss {{\n\
         chain input {{ type filter hook input priority 0; \
         iifname \"far\" numgen random mod 100 < {percent} drop; }}\n\
         chain output {{ type filter hook output priority 0; \
         tcp flags & (syn | ack) == syn | ack accept; \
         oifname \"far\" numgen random mod 100 < {percent} drop; }}\n}}\n"
    ));
}

#[test]
fn unreachable_ports_and_hosts_fail_at_once() {
    on_link(1, |far| {
        far.run(|| {
            nft("table inet rejects {\n\
                 chain input { type filter hook input priority 0; \
                 tcp dport 81 reject with icmpx port-unreachable; \
                 tcp dport 82 reject with icmpx host-unreachable; \
                 tcp dport 83 reject with icmpx admin-prohibited; }\n}\n");
        });
        for host in ["10.9.0.2", "[fd09::2]"] {
            for (port, outcome) in [
                (81, Outcome::ConnectRefused),
                (82, Outcome::ConnectUnreachable),
                (83, Outcome::ConnectUnreachable),
                // Nothing listens on this port.
                (84, Outcome::ConnectRefused),
            ] {
                let url = format!("http://{host}:{port}/");
                let words = "--io xdp --interface near -n 4 -c 2 --connect-timeout 5m --timeout 5m";
                let words: Vec<&str> = words.split_whitespace().collect();
                let record = load::run(&url, &words);
                assert_eq!(outcomes(&record), [(outcome, 4)], "{url}");
            }
        }
    });
}

#[test]
fn packets_get_smaller_for_a_narrow_path() {
    on_link(1, |far| {
        // near ── far: mid ── last. From far to last, the link carries packets of up to 1,300
        // bytes. The server announces segments for an MTU of 1,500 bytes, so the load learns the
        // limit only from ICMP.
        let last = FarEnd::new();
        ip("route add 10.77.0.0/24 via 10.9.0.2");
        far.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            ip("link add mid type veth peer name last");
            ip(&format!("link set last netns {}", last.path()));
            ip("address add 10.77.0.1/24 dev mid");
            ip("link set mid mtu 1300");
            ip("link set mid up");
        });
        let mut nginx = last.run(|| {
            ip("link set lo up");
            ip("address add 10.77.0.2/24 dev last");
            ip("link set last up");
            ip("route add 10.9.0.0/16 via 10.77.0.1 mtu 1300 advmss 1460");
            let place = ServerSetup::new();
            let lines = NGINX.replace("{h2}", "").replace("10.9.0.2", "10.77.0.2");
            let lines = lines.lines().filter(|line| !line.contains("fd09::2"));
            let lines: Vec<&str> = lines.collect();
            let configuration = place.fill(&lines.join("\n"));
            let file = place.site.file("nginx.conf", &configuration);
            let mut command = Command::new(program(&["nginx"]));
            command.arg("-p").arg(place.site.root());
            command.args(["-e", "stderr", "-c"]).arg(&file);
            let server = place.start(&mut command);
            FarServer { server, seen: 0 }
        });
        let url = nginx.url(Transport::Clear, "10.77.0.2", "/echo");
        let body = "x".repeat(20_000);
        let words =
            "--io xdp --interface near -n 20 -c 4 --method POST --timeout 2m --expect-size 20000";
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["--body", &body]);
        let record = load::run(&url, &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 20)]);
        assert_eq!(nginx.logged(20), 20);
        let used = used(&record);
        assert!(used.retransmitted > 0, "no packet was too large: {used:?}");
    });
}

#[test]
fn sources_need_no_address_of_the_machine() {
    on_link(1, |far| {
        let mut nginx = FarServer::start(far, "");
        // An address block that the server reaches through a route needs only one entry in the
        // server's neighbor table. Each address in the server's own subnet needs an entry, so the
        // table's size limits their number.
        ip("route add local 10.50.0.0/16 dev lo");
        far.run(|| ip("route add 10.50.0.0/16 via 10.9.0.1"));
        for (host, block, count) in [
            ("10.9.0.2", "10.9.4.1-10.9.4.200", 200),
            ("[fd09::2]", "fd09::1:1-fd09::1:c8", 200),
            ("10.9.0.2", "10.50.0.1-10.50.31.64", 8000),
        ] {
            let words = format!("-n {count} -c 64 --no-keepalive --source {block}");
            let record = nginx.load(Transport::Clear, host, 1 << 10, &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, count)], "{host}");
            let peers = nginx.peers(count);
            assert_eq!(peers.len() as u64, count, "{host}");
            assert!(peers.values().all(|&count| count == 1), "{host}");
            let is_routed = block.starts_with("10.50");
            let replies = used(&record).neighbor_replies;
            assert!(is_routed == (replies == 0), "{host}: {replies}");
        }
    });
}

/// Number of established connections at the server's end, over IPv4.
fn established() -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let states = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(3));
    states.filter(|state| *state == "01").count()
}

#[test]
fn the_end_of_a_load_closes_thousands_of_connections() {
    on_link(1, |far| {
        let nginx = FarServer::start(far, "");
        let words = "-n 3000 -c 3000 --connect-timeout 2m";
        let record = nginx.load(Transport::Clear, "10.9.0.2", 1 << 10, words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 3000)]);
        let began = Instant::now();
        // nginx would keep idle connections open for 75 s, so only the end of the load can have
        // closed them.
        while far.run(established) > 0 {
            let left = far.run(established);
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{left} connections are open"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn each_worker_has_a_queue() {
    on_link(2, |far| {
        let mut nginx = FarServer::start(far, "");
        for flags in ["", "--no-keepalive"] {
            let words = format!("-n 1000 -c 16 -t 2 {flags}");
            let record = nginx.load(Transport::Clear, "10.9.0.2", 16_385, &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 1000)], "{flags}");
            assert_eq!(nginx.logged(1000), 1000, "{flags}");
            assert_eq!((record.load.threads, used(&record).queues), (2, 2));
        }
        // A single worker can use all queues.
        let record = nginx.load(Transport::Clear, "10.9.0.2", 1 << 10, "-n 200 -c 16 -t 1");
        assert_eq!(outcomes(&record), [(Outcome::Ok, 200)]);
        assert_eq!(used(&record).queues, 2);
    });
}

#[test]
fn unsuitable_interfaces_and_settings_are_refused() {
    on_link(1, |_| {
        let refused = |words: &str, url: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            let error = load::settings(&words).resolve(Some(url)).err();
            error
                .unwrap_or_else(|| panic!("{words:?} was accepted"))
                .to_string()
        };
        let url = "http://10.9.0.2/";
        let near = "--io xdp --interface near";
        for (words, url, parts) in [
            ("--io xdp", url, ["--io xdp needs", "--interface"]),
            ("--interface near", url, ["--interface", "--io xdp"]),
            ("--busy-poll", url, ["--busy-poll", "--io xdp"]),
            (
                "--io xdp --interface lo",
                url,
                ["--interface lo", "Ethernet"],
            ),
            (
                "--io xdp --interface no0",
                url,
                ["no interface no0", "ip link"],
            ),
            (near, "http://192.168.7.7/", ["192.168.7.7", "no route"]),
            (near, "http://127.0.0.1/", ["127.0.0.1", "uses lo"]),
            (
                &format!("{near} --source 10.8.0.1"),
                url,
                ["10.8.0.1", "10.9.0.1/16"],
            ),
            (
                &format!("{near} -t 2 -c 2"),
                url,
                ["--threads 2", "at most 1 thread,"],
            ),
            (
                &format!("{near} --http 3 -k"),
                "https://10.9.0.2/",
                ["--http 3", "QUIC"],
            ),
            (&format!("{near} --unix /run/x"), url, ["UNIX", "--unix"]),
            (
                &format!("{near} -c 60000"),
                url,
                ["--connections 60000", "--source"],
            ),
        ] {
            let error = refused(words, url);
            assert!(
                parts.iter().all(|part| error.contains(part)),
                "{words}: {error}"
            );
        }
        ip("link set near mtu 1279");
        assert!(refused(near, url).contains("at least 1280"));
        ip("link set near mtu 1500");
        ip("link set near down");
        assert!(refused(near, url).contains("ip link set near up"));
    });
}
