//! Servers that close connections often, or allow few streams per connection.

use std::time::Duration;

use crate::load::{BACKENDS, assert_all_ok, finding};
use crate::server::Transport;
use crate::{nghttpd, nginx};

/// nginx sends GOAWAY after every hundred requests, and does not process later ones.
#[test]
fn nothing_is_lost_when_a_server_often_sends_goaway() {
    let server = nginx::start("keepalive_requests 100;");
    for way in Transport::BOTH {
        for io in BACKENDS {
            for streams in [1, 30, 100] {
                let words = format!(
                    "-n 2000 -c 2 --streams {streams} --http 2 --io {io} --expect-size 1024"
                );
                let record = server.load(way, "/bytes/1024", &words);
                let case = format!("{way:?} {io}, {streams} streams");
                assert_all_ok(&record, 2000, &case);
                let totals = &record.totals;
                assert!(totals.connections_opened >= 20, "{case}: {totals:?}");
                assert_eq!(totals.body_bytes_in, 2000 * 1024, "{case}");
                // With one stream, no request is in flight when GOAWAY arrives.
                assert!(streams > 1 || totals.retried == 0, "{case}: {totals:?}");
            }
        }
    }
}

/// GOAWAY interrupts requests while their bodies are being sent. The client sends them again.
#[test]
fn uploads_survive_goaway() {
    let server = nginx::start("keepalive_requests 100;");
    let body = server.site.path("www/bytes/16385");
    for way in Transport::BOTH {
        let words = format!(
            "-n 1000 -c 1 --streams 60 --http 2 -X POST --body-file {} --expect-size 16385",
            body.display()
        );
        let record = server.load(way, "/echo", &words);
        assert_all_ok(&record, 1000, &format!("{way:?}"));
        assert!(record.totals.connections_opened >= 10);
    }
}

/// A server that reloads its configuration sends GOAWAY on every connection.
#[test]
fn nothing_is_lost_when_a_server_reloads() {
    let server = nginx::start("");
    for way in Transport::BOTH {
        let record = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    std::thread::sleep(Duration::from_millis(300));
                    server.signal(libc::SIGHUP);
                }
            });
            server.load(way, "/bytes/1024", "-d 1500ms -c 4 --streams 10 --http 2")
        });
        let totals = &record.totals;
        assert_eq!(totals.failed, 0, "{way:?}: {}", finding(&record, "errors"));
        assert!(totals.ok > 0 && totals.connections_opened > 4, "{totals:?}");
    }
}

#[test]
fn a_server_that_allows_few_streams_limits_the_load_and_loses_nothing() {
    for (name, server) in [
        ("nginx", nginx::start("http2_max_concurrent_streams 8;")),
        ("nghttpd", nghttpd::start(&["-m", "8"])),
    ] {
        for way in Transport::BOTH {
            for io in BACKENDS {
                let words = format!("-n 1000 -c 2 --streams 100 --http 2 --io {io}");
                let record = server.load(way, "/bytes/16384", &words);
                let case = format!("{name} {way:?} {io}");
                assert_all_ok(&record, 1000, &case);
                let limited = finding(&record, "streams-limited");
                assert!(limited.contains('8'), "{case}: {limited:?}");
                let enough = server.load(way, "/bytes/1", "-n 50 -c 2 --streams 8 --http 2");
                assert_eq!(finding(&enough, "streams-limited"), "", "{case}");
            }
        }
    }
}

#[test]
fn http_1_1_limits_the_streams_to_one() {
    let server = nginx::start_http11();
    let record = server.load(Transport::Tls, "/bytes/1024", "-n 20 -c 2 --streams 10");
    assert_eq!(record.totals.ok, 20);
    assert!(!finding(&record, "streams-limited").is_empty());
}

/// nginx responds before it has read the body, and then resets the stream without an error.
#[test]
fn a_response_before_the_end_of_the_body_counts() {
    let server = nginx::start("");
    let body = server.site.path("www/bytes/1048576");
    for way in Transport::BOTH {
        for (streams, n) in [(1, 5), (10, 50)] {
            let words = format!(
                "-n {n} -c 1 --streams {streams} --http 2 -X POST --body-file {} --expect-size 20",
                body.display()
            );
            let record = server.load(way, "/early", &words);
            assert_all_ok(&record, n, &format!("{way:?}, {streams} streams"));
        }
    }
}
