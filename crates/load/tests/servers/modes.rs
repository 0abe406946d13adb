//! Tests of other modes over HTTP/2: an open loop, several workers, a connection per request, UNIX
//! sockets, interim responses, and long heads.

use prony_record::Outcome;

use crate::load::{BACKENDS, assert_all_ok, finding, outcomes};
use crate::server::{Server, Transport, servers, servers_but, text};
use crate::{caddy, haproxy, nginx};

#[test]
fn an_open_loop_spreads_over_streams() {
    let server = nginx::start("");
    for way in Transport::BOTH {
        for io in BACKENDS {
            for words in ["-c 1 --streams 50", "-c 4 --streams 5 --arrivals poisson"] {
                let words = format!("-r 1000 -n 300 --http 2 --expect-size 1024 {words} --io {io}");
                let record = server.load(way, "/bytes/1024", &words);
                assert_all_ok(&record, 300, &format!("{way:?} {words}"));
                assert_eq!(record.load.model, "open");
            }
        }
    }
}

#[test]
fn a_load_that_ends_by_time_accounts_for_every_stream() {
    // A single load might end before its connections are open if the machine is busy.
    let mut ok = 0;
    for (name, server) in servers() {
        for io in BACKENDS {
            let words = format!("-d 150ms --warmup 50ms -c 3 --streams 20 -t 2 --http 2 --io {io}");
            let record = server.load(Transport::Tls, "/bytes/16384", &words);
            let totals = &record.totals;
            assert_eq!(totals.failed, 0, "{name}: {}", finding(&record, "errors"));
            assert_eq!(totals.started, totals.ok + totals.unfinished, "{name}");
            assert!(totals.unfinished <= 60, "{name}: {totals:?}");
            ok += totals.ok;
        }
    }
    assert!(ok > 0);
}

#[test]
fn a_connection_for_each_request() {
    for (name, server) in servers() {
        for way in Transport::BOTH {
            let record = server.load(way, "/bytes/1024", "-n 30 -c 3 --no-keepalive --http 2");
            let case = format!("{name} {way:?}");
            assert_all_ok(&record, 30, &case);
            assert_eq!(record.totals.connections_opened, 30, "{case}");
        }
    }
}

#[test]
fn unix_sockets_carry_http_2_too() {
    // The load is in cleartext, because nginx's additional sockets support nothing else.
    let server = nginx::start("listen unix:{folder}/socket http2;");
    let socket = server.site.path("socket");
    for io in BACKENDS {
        let words = format!(
            "-n 200 -c 2 --streams 10 --http 2 --expect-size 16385 --io {io} --unix {}",
            text(&socket)
        );
        let record = server.load(Transport::Clear, "/bytes/16385", &words);
        assert_all_ok(&record, 200, io);
    }
}

#[test]
fn tls_1_2_agrees_on_http_2() {
    for (name, server) in servers() {
        let words = "-n 40 -c 2 --streams 10 --tls-max 1.2";
        let record = server.load(Transport::Tls, "/bytes/16385", words);
        assert_all_ok(&record, 40, name);
        assert_eq!(record.negotiated.tls.as_deref(), Some("TLSv1.2"), "{name}");
    }
}

#[test]
fn early_hints_come_before_the_response() {
    let server = haproxy::start_with("http-request early-hint Link \"</style.css>; rel=preload\"");
    for way in Transport::BOTH {
        let words = "-n 200 -c 1 --streams 20 --http 2 --expect-size 1024 --expect-status 200";
        let record = server.load(way, "/bytes/1024", words);
        assert_all_ok(&record, 200, &format!("{way:?}"));
        assert_eq!(record.status.into_iter().collect::<Vec<_>>(), [(200, 200)]);
    }
}

#[test]
fn a_body_after_expect_continue_is_sent() {
    // HAProxy 2.6 loses response bodies after a status 100, with any client.
    for (name, server) in servers_but("HAProxy") {
        let body = server.site.path("www/bytes/16385");
        let words = format!(
            "-n 20 -c 1 --streams 5 --http 2 -X POST -H Expect:100-continue --expect-size 16385 \
             --body-file {}",
            text(&body)
        );
        let record = server.load(Transport::Tls, "/echo", &words);
        assert_all_ok(&record, 20, name);
    }
}

/// The heads contain 40 KB of fields, which don't fit into one frame.
#[test]
fn heads_of_several_frames() {
    let fields: String = (0..10)
        .map(|at| format!("add_header X-Long-{at} {};\n", "v".repeat(4000)))
        .collect();
    let nginx = nginx::start(&fields);
    let fields: String = (0..10)
        .map(|at| format!("header X-Long-{at} {}\n", "v".repeat(4000)))
        .collect();
    let caddy = caddy::start_with(&fields);
    for (name, server) in [("nginx", nginx), ("Caddy", caddy)] {
        for way in Transport::BOTH {
            for io in BACKENDS {
                let words = format!("-n 100 -c 1 --streams 20 --http 2 --io {io}");
                let record = server.load(way, "/bytes/1024", &words);
                let case = format!("{name} {way:?} {io}");
                assert_all_ok(&record, 100, &case);
                assert_eq!(record.totals.body_bytes_in, 100 * 1024, "{case}");
            }
        }
    }
}

/// Servers announce the maximum size of the headers that they accept. They may accept or reject
/// longer ones.
#[test]
fn headers_longer_than_a_server_takes_are_an_outcome() {
    let long = format!("X-Long:{}", "v".repeat(60_000));
    for (name, server) in servers() {
        let words = format!("-n 6 -c 1 --streams 3 --http 2 -H {long}");
        let record = server.load(Transport::Clear, "/bytes/1024", &words);
        let known = outcomes(&record);
        let reason = finding(&record, "errors");
        let is_timeout = |(outcome, _): &(Outcome, u64)| *outcome == Outcome::Timeout;
        assert!(!known.iter().any(is_timeout), "{name}: {known:?} {reason}");
        let expected = match name {
            "nginx" => "ENHANCE_YOUR_CALM",
            "hyper" => "16384 bytes of headers",
            _ => "",
        };
        assert!(reason.contains(expected), "{name}: {reason}");
        // The server still works afterwards.
        let record = server.load(
            Transport::Clear,
            "/bytes/1024",
            "-n 6 -c 1 --streams 3 --http 2",
        );
        assert_all_ok(&record, 6, name);
    }
}

#[test]
fn bodies_of_unknown_length_end_with_the_stream() {
    let server = haproxy::start();
    for (way, path) in [
        (Transport::Tls, "/chunked/100K"),
        (Transport::Clear, "/chunked/0"),
    ] {
        let record = server.load(way, path, "-n 100 -c 2 --streams 10 --http 2");
        assert_all_ok(&record, 100, path);
    }
}

#[test]
fn statuses_are_counted() {
    let server = Server::embedded();
    let list = "/status/204\n/status/304\n/redirect/1\n/status/404\n/bytes/10\n";
    let list = server.site.file("statuses", list);
    let words = format!("-n 50 -c 1 --streams 10 --http 2 --urls {}", text(&list));
    for way in Transport::BOTH {
        let record = server.load(way, "/", &words);
        let all = outcomes(&record);
        assert_eq!(all, [(Outcome::Ok, 40), (Outcome::UnexpectedStatus, 10)]);
        let statuses: Vec<_> = record.status.into_keys().collect();
        assert_eq!(statuses, [200, 204, 302, 304, 404]);
    }
}
