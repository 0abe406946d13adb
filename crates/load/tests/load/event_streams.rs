//! Tests of streamed responses against the origin, over every version of HTTP.

use prony_origin::{Config, Tls};
use prony_record::{Outcome, Record};

use crate::harness::{Served, Via, errors, load_with, outcomes, text};

/// A version of HTTP, with the connections that carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http1Tls,
    Http2,
    Http3,
}

const VERSIONS: [Version; 4] = [
    Version::Http1,
    Version::Http1Tls,
    Version::Http2,
    Version::Http3,
];

struct Server {
    clear: Served,
    secured: Served,
}

impl Server {
    fn start() -> Server {
        Server {
            clear: Served::clear(),
            secured: Served::with(Config {
                tls: Some(Tls::Generated),
                quic: vec!["127.0.0.1:0".parse().unwrap()],
                ..Config::default()
            }),
        }
    }

    fn load(&self, version: Version, path: &str, words: &str) -> Record {
        match version {
            Version::Http1 => self.clear.load(Via::Tcp, path, words),
            Version::Http1Tls => self.secured.load(Via::Tls, path, words),
            Version::Http2 => {
                let words = format!("--http 2 --streams 4 {words}");
                self.clear.load(Via::Tcp, path, &words)
            }
            Version::Http3 => {
                let address = self.secured.origin.quic_addresses()[0];
                let ca = self.secured.ca();
                let mut all: Vec<&str> = words.split_whitespace().collect();
                all.extend(["--http", "3", "--streams", "4", "--ca", text(&ca)]);
                load_with(&format!("https://{address}{path}"), &all)
            }
        }
    }
}

#[test]
fn every_event_is_counted_over_every_version_of_http() {
    let server = Server::start();
    for version in VERSIONS {
        for (path, words) in [
            ("/events/5?every=1ms", "--events sse"),
            ("/events/5?every=1ms&gzip=yes", "--events sse"),
            ("/events/5?every=1ms&form=lines", "--events lines"),
            ("/events/5?every=5ms", "--events chunks"),
            (
                "/events/5?every=1ms&end=done",
                "--events sse --end-marker [DONE]",
            ),
            ("/events/5?every=1ms", "--events sse --event-field text"),
        ] {
            let record = server.load(version, path, &format!("-c 3 -n 24 {words}"));
            assert_eq!(outcomes(&record), [(Outcome::Ok, 24)], "{version:?} {path}");
            let events = record.events.as_ref().unwrap();
            assert_eq!(events.events, 120, "{version:?} {path} {words}");
            assert_eq!(events.events_per_response, Some(5.0));
            let has_field = words.contains("--event-field");
            assert_eq!(events.chars, has_field.then_some(120 * 7));
            let gaps = record.distribution("event_gap").unwrap();
            let firsts = record.distribution("first_event").unwrap();
            assert_eq!((gaps.count(), firsts.count()), (96, 24));
        }
    }
}

#[test]
fn the_schedule_of_the_origin_is_seen() {
    let server = Server::start();
    for version in VERSIONS {
        let path = "/events/4?every=30ms&after=50ms";
        let record = server.load(version, path, "--events sse -c 2 -n 8");
        let events = record.events.as_ref().unwrap();
        // The origin never sends an event before it is due, so these bounds hold on a busy machine.
        // The histograms round down by up to 0.1%.
        assert!(events.first_event_us.min >= 49_950.0, "{events:?}");
        let response = record.response_time_us.min;
        assert!(response >= 139_860.0, "{response}");
        assert!(events.event_gap_us.mean >= 10_000.0, "{events:?}");
    }
}

#[test]
fn streams_that_fail_have_their_outcomes_over_every_version_of_http() {
    let server = Server::start();
    for version in VERSIONS {
        for (path, words, outcome, reason) in [
            ("end=half", "", Outcome::StoppedEarly, "within an event"),
            ("end=plain", "--end-marker [DONE]", Outcome::NoEndMarker, ""),
            ("end=stall", "--gap-timeout 50ms", Outcome::Stalled, ""),
            ("after=10s", "--timeout 50ms", Outcome::Timeout, ""),
            ("form=lines", "", Outcome::StoppedEarly, "has no event"),
        ] {
            let path = format!("/events/2?every=1ms&{path}");
            let words = format!("--events sse -c 2 -n 8 {words}");
            let record = server.load(version, &path, &words);
            assert_eq!(outcomes(&record), [(outcome, 8)], "{version:?} {path}");
            assert!(errors(&record).contains(reason), "{}", errors(&record));
        }
        let path = "/events/2?every=1ms&end=cut";
        let record = server.load(version, path, "--events sse -c 2 -n 8");
        let cut = match version {
            Version::Http2 | Version::Http3 => Outcome::Reset,
            Version::Http1 | Version::Http1Tls => Outcome::Truncated,
        };
        // A reset may overtake the events, and over HTTP/1 even the head.
        let found = outcomes(&record);
        let is_cut = |(outcome, _): &(Outcome, u64)| [cut, Outcome::ClosedEarly].contains(outcome);
        assert!(found.iter().all(is_cut), "{version:?}: {found:?}");
        let events = record.events.as_ref().unwrap();
        assert_eq!(events.failed, 8);
        if cut == Outcome::Truncated {
            let truncated = found.iter().find(|(outcome, _)| *outcome == cut);
            assert_eq!(
                events.failed_in_gap,
                truncated.map_or(0, |(_, count)| *count)
            );
        }
    }
}

#[test]
fn a_stalled_stream_leaves_the_others_of_its_connection_alone() {
    let server = Server::start();
    let list = server.clear.file(
        "urls",
        "/events/2?every=1ms&end=stall\n/events/40?every=5ms\n/events/40?every=5ms\n",
    );
    let words = format!(
        "--events sse -c 1 -n 3 --gap-timeout 60ms --urls {}",
        text(&list)
    );
    let record = server.load(Version::Http2, "/", &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 2), (Outcome::Stalled, 1)]);
    assert_eq!(record.totals.connections_opened, 1);
}
