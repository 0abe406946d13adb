//! Tests of the PROXY protocol with third-party servers, which log the addresses in the header.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use prony_record::{Outcome, Record};

use crate::load::{self, BACKENDS, outcomes};
use crate::process::program;
use crate::server::{Server, ServerSetup, text};

const NGINX: &str = "
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events { worker_connections 512; }
http {
  log_format proxied 'from $proxy_protocol_addr $proxy_protocol_port to $proxy_protocol_server_port seen $remote_addr';
  access_log {folder}/access proxied;
  set_real_ip_from 127.0.0.1;
  set_real_ip_from unix:;
  real_ip_header proxy_protocol;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  ssl_certificate {folder}/certificate.pem;
  ssl_certificate_key {folder}/key.pem;
  server {
    listen 127.0.0.1:{tls} ssl http2 proxy_protocol;
    listen 127.0.0.1:{clear} proxy_protocol;
    listen unix:{folder}/socket proxy_protocol;
    location / { return 200 'hi'; }
  }
}
";

const HAPROXY: &str = "
global
  maxconn 500
  nbthread 1
  log stdout format raw local0
defaults
  mode http
  log global
  log-format \"from %ci %cp to %fp seen %ci\"
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend tls
  bind 127.0.0.1:{tls} accept-proxy ssl crt {folder}/both.pem alpn h2,http/1.1
  http-request return status 200 content-type text/plain string hi
frontend clear
  bind 127.0.0.1:{clear} accept-proxy
  bind unix@{folder}/socket accept-proxy
  http-request return status 200 content-type text/plain string hi
";

/// A server that accepts no connection without a header, and its log file.
struct ProxiedServer {
    server: Server,
    log: &'static str,
}

fn nginx() -> ProxiedServer {
    let place = ServerSetup::new();
    let file = place.site.file("nginx.conf", &place.fill(NGINX));
    let mut command = Command::new(program(&["nginx"]));
    command.arg("-p").arg(place.site.root());
    command.args(["-e", "stderr", "-c"]).arg(&file);
    let server = place.start(&mut command);
    ProxiedServer {
        server,
        log: "access",
    }
}

fn haproxy() -> ProxiedServer {
    let place = ServerSetup::new();
    let file = place.site.file("haproxy.cfg", &place.fill(HAPROXY));
    let mut command = Command::new(program(&["haproxy"]));
    command.args(["-db", "-f"]).arg(&file);
    let server = place.start(&mut command);
    ProxiedServer { server, log: "log" }
}

impl ProxiedServer {
    /// Runs a load. Returns the addresses that the server logged for it. The server writes a log
    /// line after the response, so this function waits for the lines.
    fn load(&self, words: &str) -> (Record, Vec<Vec<String>>) {
        let log = self.server.site.path(self.log);
        let lines = || -> Vec<Vec<String>> {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            // Connections of the readiness check have no PROXY address.
            let lines = text.lines().filter(|line| {
                line.starts_with("from ") && !line.starts_with("from -") && !line.contains("BADREQ")
            });
            lines
                .map(|line| line.split(' ').map(str::to_owned).collect())
                .collect()
        };
        let before = lines().len();
        let mut words: Vec<&str> = words.split_whitespace().collect();
        let ca = self.server.site.path("certificate.pem");
        let socket = self.server.site.path("socket");
        let way = words.remove(0);
        let url = match way {
            "tls" => self.server.url(crate::server::Transport::Tls, "/"),
            _ => self.server.url(crate::server::Transport::Clear, "/"),
        };
        match way {
            "tls" => words.extend(["--ca", text(&ca)]),
            "unix" => words.extend(["--unix", text(&socket)]),
            _ => {}
        }
        let record = load::run(&url, &words);
        let began = Instant::now();
        let wanted = before + record.totals.ok as usize;
        while lines().len() < wanted && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        (record, lines().split_off(before))
    }
}

fn counts(lines: &[Vec<String>], word: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line[word].clone()).or_default() += 1;
    }
    counts
}

/// Checks that the server logs the address from the PROXY header, whichever protocol follows it.
fn check_given_addresses(proxied: &ProxiedServer) {
    for (way, http) in [
        ("clear", "--http 1.1"),
        ("tls", "--http 1.1"),
        ("tls", "--http 2 --streams 4"),
        ("unix", "--http 1.1"),
    ] {
        for (version, io) in ["v1", "v2"].into_iter().zip(BACKENDS) {
            let words = format!(
                "{way} -n 96 -c 12 --io {io} {http} --proxy-protocol {version} \
                 --proxy-source 10.9.0.0/29,fd00:9::1-fd00:9::6 --source-order per-user"
            );
            let (record, lines) = proxied.load(&words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 96)], "{words}");
            let sources = record.sources.unwrap();
            assert_eq!(sources.used, 12, "{words}");
            let sent: BTreeMap<String, u64> = sources
                .each
                .iter()
                .map(|source| (source.address.to_string(), source.totals.ok))
                .collect();
            // The log contains the address in the header, and the client address that the server
            // used.
            assert_eq!(counts(&lines, 1), sent, "{words}");
            assert_eq!(counts(&lines, 6), sent, "{words}");
        }
    }
}

/// Checks loads without given addresses. The PROXY header then contains the connection's own
/// addresses or, on a UNIX socket, none.
fn check_own_addresses(proxied: &ProxiedServer) {
    for version in ["v1", "v2"] {
        let words = format!("clear -n 12 -c 3 --proxy-protocol {version} --source 127.0.0.9");
        let (record, lines) = proxied.load(&words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 12)], "{words}");
        assert_eq!(counts(&lines, 1), [("127.0.0.9".to_owned(), 12)].into());
        let url = proxied.server.url(crate::server::Transport::Clear, "");
        let port = url.rsplit_once(':').unwrap().1;
        assert_eq!(counts(&lines, 4), [(port.to_owned(), 12)].into());
        // The log contains as many different ports as there are connections, so it shows the real
        // ports.
        assert_eq!(counts(&lines, 2).len(), 3);
    }
    // These loads run last, because their log lines may be late and would be counted for another
    // load.
    for version in ["v1", "v2"] {
        let record = load_unix(proxied, version);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 12)], "{version}");
    }
}

fn load_unix(proxied: &ProxiedServer, version: &str) -> Record {
    let socket = proxied.server.site.path("socket");
    let words = ["-n", "12", "-c", "3", "--proxy-protocol", version];
    let words = [&words[..], &["--unix", text(&socket)]].concat();
    load::run("http://localhost/", &words)
}

#[test]
fn nginx_logs_the_addresses_in_the_header() {
    let proxied = nginx();
    check_given_addresses(&proxied);
    check_own_addresses(&proxied);
}

#[test]
fn haproxy_logs_the_addresses_in_the_header() {
    let proxied = haproxy();
    check_given_addresses(&proxied);
    // In cleartext the server also accepts HTTP/2 with prior knowledge.
    let words = "clear -n 40 -c 4 --http 2 --streams 5 --proxy-protocol v2 --proxy-source 10.9.0.1";
    let (record, lines) = proxied.load(words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 40)]);
    assert_eq!(counts(&lines, 1), [("10.9.0.1".to_owned(), 40)].into());
    check_own_addresses(&proxied);
}

#[test]
fn a_header_must_be_sent_exactly_if_the_server_expects_one() {
    let proxied = nginx();
    let url = proxied.server.url(crate::server::Transport::Clear, "/");
    let record = load::run(&url, &["-n", "3", "-c", "1"]);
    assert_eq!(record.totals.ok, 0, "{:?}", record.outcomes);
    let plain = crate::nginx::start_http11();
    let url = plain.url(crate::server::Transport::Clear, "/bytes/1");
    let words = ["-n", "3", "-c", "1", "--proxy-protocol", "v1"];
    let record = load::run(&url, &words);
    assert_eq!(record.totals.ok, 0, "{:?}", record.outcomes);
}
