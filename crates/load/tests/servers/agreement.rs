//! Tests of the HTTP version: the ALPN result, the requested version, and servers that don't
//! support it.

use prony_record::{Outcome, Record};

use crate::load::{self, BACKENDS, assert_all_ok, finding, outcomes};
use crate::server::{Server, Transport, servers, servers_but};
use crate::{apache, caddy, haproxy, nginx};

fn agreed(record: &Record) -> [Option<&str>; 2] {
    let negotiated = &record.negotiated;
    [negotiated.http.as_deref(), negotiated.alpn.as_deref()]
}

#[test]
fn by_default_tls_agrees_on_http_2() {
    for (name, server) in servers() {
        for io in BACKENDS {
            let words = format!("-n 40 -c 2 --streams 10 --io {io}");
            let record = server.load(Transport::Tls, "/bytes/1024", &words);
            assert_all_ok(&record, 40, name);
            assert_eq!(agreed(&record), [Some("2"), Some("h2")], "{name}");
            assert_eq!(record.load.http, "auto", "{name}");
            assert_eq!(record.load.streams, 10, "{name}");
        }
    }
}

#[test]
fn http_1_1_is_used_on_request() {
    for (name, server) in servers_but("nghttpd") {
        for way in Transport::BOTH {
            let record = server.load(way, "/bytes/1024", "-n 20 -c 2 --http 1.1");
            if (name, way) == ("nginx", Transport::Clear) && outcomes(&record)[0].0 != Outcome::Ok {
                // Before version 1.25.1, nginx supported only HTTP/2 on a port for which HTTP/2 was
                // enabled.
                let errors = finding(&record, "errors");
                assert!(errors.contains("an HTTP/1 request with HTTP/2"), "{errors}");
                continue;
            }
            assert_eq!(outcomes(&record), [(Outcome::Ok, 20)], "{name} {way:?}");
            assert_eq!(agreed(&record)[0], Some("1.1"), "{name} {way:?}");
            assert_eq!(record.load.http, "1.1", "{name}");
        }
    }
}

#[test]
fn by_default_tls_falls_back_to_http_1_1() {
    for (name, server) in [
        ("nginx", nginx::start_http11()),
        ("Apache httpd", apache::start_http11()),
        ("HAProxy without ALPN", haproxy::start_without_alpn()),
    ] {
        for io in BACKENDS {
            let words = format!("-n 20 -c 2 --io {io}");
            let record = server.load(Transport::Tls, "/bytes/16385", &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 20)], "{name}");
            assert_eq!(agreed(&record)[0], Some("1.1"), "{name}");
            assert_eq!(record.totals.body_bytes_in, 20 * 16_385, "{name}");
        }
    }
}

/// A server may reject HTTP/2 in the handshake, select a protocol that wasn't offered, or select
/// none.
#[test]
fn http_2_without_alpn_agreement_is_an_outcome_with_a_reason() {
    for (name, server, outcome, reason) in [
        (
            "nginx",
            nginx::start_http11(),
            Outcome::Tls,
            "NoApplicationProtocol",
        ),
        (
            "Apache httpd",
            apache::start_http11(),
            Outcome::Tls,
            "UnofferedApplicationProtocol",
        ),
        (
            "HAProxy without ALPN",
            haproxy::start_without_alpn(),
            Outcome::Protocol,
            "did not select HTTP/2",
        ),
    ] {
        for io in BACKENDS {
            let words = format!("-n 6 -c 2 --streams 3 --http 2 --io {io}");
            let record = server.load(Transport::Tls, "/bytes/1024", &words);
            assert_eq!(outcomes(&record), [(outcome, 6)], "{name}");
            let errors = finding(&record, "errors");
            assert!(errors.contains(reason), "{name}: {errors}");
        }
    }
}

#[test]
fn cleartext_http_2_to_an_http_1_1_server_is_an_outcome() {
    for (name, server) in [
        ("nginx", nginx::start_http11()),
        ("Apache httpd", apache::start_http11()),
    ] {
        for io in BACKENDS {
            let words = format!("-n 6 -c 2 --streams 3 --http 2 --io {io}");
            let record = server.load(Transport::Clear, "/bytes/1024", &words);
            assert_eq!(outcomes(&record), [(Outcome::Protocol, 6)], "{name}");
            let errors = finding(&record, "errors");
            assert!(errors.contains("HTTP/1, not HTTP/2"), "{name}: {errors}");
        }
    }
}

/// Servers that expect TLS respond to cleartext with an error page that says so, or with a TLS alert.
#[test]
fn cleartext_to_a_tls_port_is_explained() {
    for (name, server, outcome) in [
        ("nginx", nginx::start(""), Outcome::UnexpectedStatus),
        ("Apache httpd", apache::start(), Outcome::UnexpectedStatus),
        ("Caddy", caddy::start(), Outcome::UnexpectedStatus),
        ("prony origin", Server::embedded(), Outcome::Protocol),
    ] {
        for io in BACKENDS {
            let url = server.url(Transport::Tls, "/").replace("https", "http");
            let record = load::run(&url, &["-n", "6", "-c", "2", "--io", io]);
            assert_eq!(outcomes(&record), [(outcome, 6)], "{name}");
            let errors = finding(&record, "errors");
            let hint = "this port expects TLS: use https://";
            assert!(errors.contains(hint), "{name}: {errors}");
        }
    }
}
