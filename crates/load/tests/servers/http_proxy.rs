//! Loads through Apache httpd as an HTTP proxy, to third-party servers.

use std::process::Command;

use prony_record::Outcome;

use crate::apache;
use crate::load::outcomes;
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport, servers};

const CONFIGURATION: &str = "
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
LoadModule proxy_connect_module {modules}/mod_proxy_connect.so
<IfModule !unixd_module>
  LoadModule unixd_module {modules}/mod_unixd.so
</IfModule>
User #65534
Group #65534
StartServers 1
ServerLimit 1
ThreadsPerChild 25
MaxRequestWorkers 25
MaxKeepAliveRequests 0
Listen 127.0.0.1:{tls}
Listen 127.0.0.1:{clear}
ProxyRequests On
AllowCONNECT {allowed}
";

/// Starts a proxy that opens tunnels only to the port of the URL `allowed`.
fn proxy(allowed: &str) -> Server {
    let port = allowed
        .split(['/', ':'])
        .rfind(|it| it.parse::<u16>().is_ok());
    let place = ServerSetup::new();
    let modules = apache::modules();
    let configuration = CONFIGURATION
        .replace("{modules}", modules.to_str().unwrap())
        .replace("{allowed}", port.unwrap());
    let file = place.site.file("httpd.conf", &place.fill(&configuration));
    let mut command = Command::new(program(&["apache2", "httpd"]));
    command.arg("-DFOREGROUND").arg("-f").arg(&file);
    command.arg("-E").arg(place.site.path("log"));
    place.start(&mut command)
}

fn address(proxy: &Server) -> String {
    let url = proxy.url(Transport::Clear, "");
    url.trim_start_matches("http://").to_owned()
}

#[test]
fn tunnels_reach_every_server() {
    for (name, server) in servers() {
        let proxy = proxy(&server.url(Transport::Tls, "/"));
        let words = format!(
            "-n 200 -c 4 --streams 5 --http 2 --proxy {}",
            address(&proxy)
        );
        let record = server.load(Transport::Tls, "/bytes/1024", &words);
        assert_eq!(
            outcomes(&record),
            [(Outcome::Ok, 200)],
            "{name}: {:?}",
            record.findings
        );
        assert_eq!(record.negotiated.http.as_deref(), Some("2"), "{name}");
        assert_eq!(
            record.totals.tls_handshakes,
            record.totals.connections_opened
        );
    }
}

#[test]
fn cleartext_requests_are_forwarded() {
    let server = apache::start_http11();
    let proxy = proxy(&server.url(Transport::Tls, "/"));
    let words = format!("-n 200 -c 4 --http 1.1 --proxy {}", address(&proxy));
    let record = server.load(Transport::Clear, "/bytes/1024", &words);
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 200)],
        "{:?}",
        record.findings
    );
    assert_eq!(record.totals.connections_opened, 4);
}

#[test]
fn a_refused_tunnel_is_reported() {
    let server = Server::embedded();
    let proxy = proxy("x:1/");
    let words = format!("-n 4 -c 2 --http 1.1 --proxy {}", address(&proxy));
    let record = server.load(Transport::Tls, "/bytes/1024", &words);
    assert_eq!(outcomes(&record), [(Outcome::ConnectFailed, 4)]);
    let mut findings = record.findings.iter();
    assert!(findings.any(|found| {
        found
            .text
            .contains("the proxy responded to CONNECT with 403")
    }));
}
