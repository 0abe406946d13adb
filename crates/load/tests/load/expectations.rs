//! Expectations: the responses that count as success.

use prony_origin::pattern;
use prony_record::Outcome::{Ok as Fine, UnexpectedBody, UnexpectedSize, UnexpectedStatus};
use sha2::{Digest, Sha256};

use crate::harness::{Served, Via, outcomes};

fn hex(bytes: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn statuses_sizes_and_hashes() {
    let served = Served::clear();
    let hello = hex(b"Hello, world!");
    let other = hex(b"Hello, World!");
    let of_hash = |hash: &str| format!("--expect-sha256 {hash}");
    for (path, words, outcome, status) in [
        ("/", String::new(), Fine, 200),
        ("/status/304", String::new(), Fine, 304),
        ("/status/404", String::new(), UnexpectedStatus, 404),
        ("/status/500", String::new(), UnexpectedStatus, 500),
        ("/status/404", "--expect-status 404".to_owned(), Fine, 404),
        (
            "/",
            "--expect-status 404,500-599".to_owned(),
            UnexpectedStatus,
            200,
        ),
        ("/", "--expect-size 13".to_owned(), Fine, 200),
        ("/", "--expect-size 12".to_owned(), UnexpectedSize, 200),
        ("/chunked/10K", "--expect-size 10K".to_owned(), Fine, 200),
        ("/", of_hash(&hello), Fine, 200),
        ("/", of_hash(&hello.to_uppercase()), Fine, 200),
        ("/", of_hash(&other), UnexpectedBody, 200),
        // The first violated expectation is reported.
        (
            "/status/404",
            format!("--expect-size 1 {}", of_hash(&hello)),
            UnexpectedStatus,
            404,
        ),
        (
            "/",
            format!("--expect-size 1 {}", of_hash(&other)),
            UnexpectedSize,
            200,
        ),
    ] {
        let record = served.load(Via::Tcp, path, &format!("-n 10 -c 2 {words}"));
        assert_eq!(outcomes(&record), [(outcome, 10)], "{path} {words}");
        assert_eq!(
            record.status.into_iter().collect::<Vec<_>>(),
            [(status, 10)]
        );
        // The responses were complete, so the connections are kept even if the expectations aren't
        // met.
        assert_eq!(record.totals.connections_opened, 2, "{path} {words}");
    }
}

#[test]
fn bodies_larger_than_any_buffer_are_read_whole() {
    let body = pattern::first(10 << 20);
    let words = format!("-n 4 -c 2 --expect-size 10M --expect-sha256 {}", hex(&body));
    for via in [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls] {
        let served = Served::via(via);
        for path in ["/bytes/10M", "/chunked/10M"] {
            let record = served.load(via, path, &words);
            assert_eq!(outcomes(&record), [(Fine, 4)], "{path}, {via:?}");
            assert_eq!(record.totals.body_bytes_in, 4 * (10 << 20));
            assert!(record.totals.bytes_in > record.totals.body_bytes_in);
        }
    }
}
