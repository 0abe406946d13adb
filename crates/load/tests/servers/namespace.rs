//! Tests of thousands of source addresses through one local route, in the test's own network
//! namespace, with an nginx that logs its clients.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use prony_record::Outcome;

use crate::load::{self, BACKENDS, outcomes};
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport};

const NGINX: &str = "
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events { worker_connections 512; }
http {
  log_format from '$remote_addr';
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {
    access_log {folder}/access from;
    listen 127.0.0.1:{clear};
    listen [::1]:{clear};
    location / { return 200 'hi'; }
  }
  server {
    access_log off;
    listen 127.0.0.1:{tls};
  }
}
";

/// Runs `work` on a thread with its own network namespace. The namespace has only a loopback
/// interface and ends with the thread.
fn in_namespace(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: a plain system call, which affects only this thread and its child processes.
            let made = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            let error = std::io::Error::last_os_error();
            assert_eq!(made, 0, "a network namespace needs root ({error})");
            ip("link set lo up");
            work();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn ip(words: &str) {
    let status = Command::new(program(&["ip"]))
        .args(words.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {words}: {status}");
}

fn nginx() -> Server {
    let place = ServerSetup::new();
    let file = place.site.file("nginx.conf", &place.fill(NGINX));
    let mut command = Command::new(program(&["nginx"]));
    command.arg("-p").arg(place.site.root());
    command.args(["-e", "stderr", "-c"]).arg(&file);
    place.start(&mut command)
}

/// Returns the peers in the server's log after it has grown by this number of lines.
fn peers(server: &Server, seen: &mut usize, lines: u64) -> BTreeMap<String, u64> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(server.site.path("access")).unwrap_or_default();
        let more: Vec<&str> = text.lines().skip(*seen).collect();
        if more.len() as u64 >= lines || began.elapsed() > Duration::from_secs(20) {
            *seen += more.len();
            let mut peers = BTreeMap::new();
            for peer in more {
                *peers.entry(peer.to_owned()).or_default() += 1;
            }
            return peers;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn refusal(url: &str, source: &str) -> String {
    let options = load::settings(&["--source", source]);
    match options.resolve(Some(url)) {
        Ok(_) => panic!("{source} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn one_local_route_allows_twelve_thousand_sources() {
    in_namespace(|| {
        let (server, mut seen) = (nginx(), 0);
        let url = server.url(Transport::Clear, "/");
        let error = refusal(&url, "10.4.0.0/14");
        for part in [
            "10.4.0.1 is not an address",
            "ip route add local 10.4.0.0/14 dev lo",
        ] {
            assert!(error.contains(part), "{error}");
        }
        ip("route add local 10.4.0.0/14 dev lo");
        let ends = ["--source", "10.4.0.1", "--source", "10.7.255.254"];
        let words = [&["-n", "4", "-c", "2", "--no-keepalive"][..], &ends].concat();
        let record = load::run(&url, &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
        let both = ["10.4.0.1", "10.7.255.254"].map(|address| (address.to_owned(), 2));
        assert_eq!(peers(&server, &mut seen, 4), both.into());

        for io in BACKENDS {
            let words = ["-n", "12000", "-c", "64", "--no-keepalive", "--io", io];
            let block = ["--source", "10.4.0.1-10.4.46.224"];
            let record = load::run(&url, &[&words[..], &block].concat());
            assert_eq!(outcomes(&record), [(Outcome::Ok, 12_000)], "{io}");
            let sources = record.sources.unwrap();
            assert_eq!((sources.given, sources.used), (12_000, 12_000), "{io}");
            assert_eq!((sources.ok.least, sources.ok.most), (1, 1), "{io}");
            assert_eq!(sources.each, [], "12,000 sources have only a total");
            let peers = peers(&server, &mut seen, 12_000);
            assert_eq!(peers.len(), 12_000, "{io}");
            assert!(peers.values().all(|&n| n == 1), "{io}");
        }
    });
}

#[test]
fn a_local_route_allows_ipv6_sources_too() {
    in_namespace(|| {
        let (server, mut seen) = (nginx(), 0);
        let url = server
            .url(Transport::Clear, "/")
            .replace("127.0.0.1", "[::1]");
        let error = refusal(&url, "fd00:5::/64");
        assert!(
            error.contains("ip -6 route add local fd00:5::/64 dev lo"),
            "{error}"
        );
        ip("-6 route add local fd00:5::/64 dev lo");
        for io in BACKENDS {
            let words = ["-n", "500", "-c", "16", "--no-keepalive", "--io", io];
            let block = ["--source", "fd00:5::/64"];
            let record = load::run(&url, &[&words[..], &block].concat());
            assert_eq!(outcomes(&record), [(Outcome::Ok, 500)], "{io}");
            assert_eq!(peers(&server, &mut seen, 500).len(), 500, "{io}");
        }
        // An address just outside the block does not belong to this machine.
        let error = refusal(&url, "fd00:5:0:1::1");
        assert!(error.contains("is not an address"), "{error}");
    });
}
