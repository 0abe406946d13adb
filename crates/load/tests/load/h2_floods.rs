//! Tests of HTTP/2 servers that send useless frames forever, or never read. Their loads must end
//! soon, with a reason, and within bounded memory.

use std::time::Duration;

use prony_record::Outcome::{self, Protocol, Timeout};
use prony_record::Record;

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::{Scripted, expect_all, load_h2};
use crate::harness::{Raw, outcomes};

/// Creates a server that sends `first`, then sends `again` forever, and never reads.
fn flooding(first: FrameBuilder, again: FrameBuilder) -> Scripted {
    Scripted::clear(move |peer| {
        peer.send_settings(&[])?;
        let stream = peer.request()?;
        peer.send(&first(stream))?;
        peer.flood(&again(stream))
    })
}

fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

/// Reasons with which the load may end. The second one applies if the server never reads the
/// acknowledgments that its frames require.
const IDLE: &str = "consecutive frames without any effect|acknowledgments are not read";

/// Frames that never end and make no progress.
const FLOODS: [(FrameBuilder, FrameBuilder, &str); 17] = [
    (nothing, |_| settings(&[]), IDLE),
    (nothing, |_| settings(&[(4, 70_000), (3, 5)]), IDLE),
    (nothing, |_| frame(SETTINGS, ACK, 0, &[]), IDLE),
    (nothing, |_| frame(PING, 0, 0, b"flooding"), IDLE),
    (nothing, |_| frame(PING, ACK, 0, b"flooding"), IDLE),
    (nothing, |_| window_update(0, 1), IDLE),
    (nothing, |stream| window_update(stream, 1), IDLE),
    (
        nothing,
        |stream| frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 9]),
        IDLE,
    ),
    (
        nothing,
        |_| frame(PRIORITY, 0, 0x99, &[0, 0, 0, 0, 9]),
        IDLE,
    ),
    (nothing, |_| frame(0xee, 0xff, 0, &[]), IDLE),
    (
        nothing,
        |stream| frame(0xee, 0xff, stream, &[7; 1_000]),
        IDLE,
    ),
    (nothing, |_| goaway(MAX_U31, 0), IDLE),
    (head_only, |stream| data(stream, 0, ""), IDLE),
    (head_only, |stream| data(stream, PADDED, [200; 201]), IDLE),
    (
        |stream| headers(stream, 0, &status(200)),
        |stream| frame(CONTINUATION, 0, stream, &[]),
        "more than 128 CONTINUATION",
    ),
    (
        |stream| headers(stream, 0, &status(200)),
        |stream| frame(CONTINUATION, 0, stream, &field("a", "b").repeat(1_000)),
        "header block of more than",
    ),
    // The client accepts the first 32 interim responses. All later ones are for a closed stream.
    (
        nothing,
        |stream| headers(stream, END_HEADERS, &status(103)),
        "more than 32 interim|without any effect",
    ),
];

#[test]
fn floods_are_cut_short() {
    for (first, again, reason) in FLOODS {
        expect_all(
            &flooding(first, again).load("-n 6 -c 2 --streams 3"),
            Protocol,
            reason,
        );
    }
}

#[test]
fn a_flood_of_resets_is_cut_short() {
    let server = flooding(nothing, |stream| rst_stream(stream, 8));
    let record = server.load("-n 6 -c 2 --streams 3");
    // Streams that are reset end with that outcome. The other streams on the connection fail when
    // the flood is detected.
    for (outcome, _) in outcomes(&record) {
        assert!(matches!(outcome, Outcome::Reset | Protocol), "{outcome:?}");
    }
    assert_eq!(record.totals.failed, 6);
}

#[test]
fn an_endless_body_ends_with_its_requests_timeout() {
    for reply in [
        (|stream| data(stream, 0, [b'x'; 16_384])) as FrameBuilder,
        |stream| data(stream, 0, "x"),
        |stream| data(stream, PADDED, [&[200, b'x'][..], &[0; 200]].concat()),
    ] {
        let record = flooding(head_only, reply).load("-n 6 -c 2 --streams 3 --timeout 200ms");
        expect_all(&record, Timeout, "");
    }
}

#[test]
fn a_slow_flood_ends_with_its_requests_timeout() {
    let server = Scripted::clear(|peer| {
        peer.send_settings(&[])?;
        peer.request()?;
        loop {
            peer.send(&frame(PING, 0, 0, b"are you?"))?;
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    expect_all(
        &server.load("-n 6 -c 2 --streams 3 --timeout 200ms"),
        Timeout,
        "",
    );
}

#[test]
fn a_server_that_never_reads() {
    let never = || {
        Raw::new(|stream| {
            std::thread::sleep(Duration::from_secs(1));
            drop(stream);
        })
    };
    let record = load_h2(&never().url(), "-n 6 -c 2 --streams 3 --timeout 200ms");
    expect_all(&record, Timeout, "");
    // This server even allows the client to send the whole body.
    let record = with_large_body(
        &greedy(|_| Some(())),
        "-n 6 -c 2 --streams 3 --timeout 200ms",
    );
    expect_all(&record, Timeout, "");
}

/// Creates a server that allows clients to send everything, then runs `then`, and never reads.
fn greedy(then: fn(&mut Peer) -> Option<()>) -> Scripted {
    Scripted::clear(move |peer| {
        peer.send_settings(&[(INITIAL_WINDOW_SIZE, MAX_U31)])?;
        peer.send(&window_update(0, MAX_U31 - 65_535))?;
        then(peer)?;
        std::thread::sleep(Duration::from_secs(1));
        None
    })
}

/// Runs a load whose requests each have a body of 30 MB.
fn with_large_body(server: &Scripted, words: &str) -> Record {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 30 << 20]).unwrap();
    server.load(&format!("{words} -X POST --body-file {}", body.display()))
}

#[test]
fn data_beyond_the_window() {
    // The client's window stays at 16 MiB, because the server doesn't read window updates. Any
    // additional data is a violation.
    let server = greedy(|peer| {
        peer.request()?;
        std::thread::sleep(Duration::from_millis(100));
        peer.send(&head_only(1))?;
        peer.flood(&data(1, 0, [b'x'; 16_384]))
    });
    let record = with_large_body(&server, "-n 2 -c 2 --timeout 10s");
    expect_all(&record, Protocol, "more DATA than the stream's window");
}

#[test]
fn a_rate_is_kept_despite_a_hostile_server() {
    for reply in [
        (|_| settings(&[(2, 1)])) as FrameBuilder,
        |s| headers(s, ALL, &field("a", "b")),
        |_| vec![0xff; 9],
        nothing,
    ] {
        let record =
            Scripted::sending_once(reply).load("-r 200 -d 1s -c 4 --streams 5 --timeout 300ms");
        let totals = &record.totals;
        assert_eq!(totals.started + totals.unstarted, 200, "{totals:?}");
        assert_eq!(totals.ok, 0);
    }
}

#[test]
fn hostile_servers_cost_no_memory() {
    if !is_alone("hostile_servers_cost_no_memory") {
        return;
    }
    let words = "-n 6 -c 2 --streams 3 --timeout 300ms";
    // The load is repeated, because the allocator keeps freed memory and doesn't reuse all of it
    // for the next load.
    for _ in 0..12 {
        Scripted::responding(|s| response(s, &[b'x'; 10_000])).load(words);
    }
    let before = peak_memory_kib();
    let endless: [(FrameBuilder, FrameBuilder); 3] = [
        (head_only, |s| data(s, 0, [b'x'; 16_384])),
        (head_only, |s| data(s, 0, "x")),
        (nothing, |s| rst_stream(s, 8)),
    ];
    let floods = FLOODS.map(|(first, again, _)| (first, again));
    for (n, (first, again)) in floods.into_iter().chain(endless).enumerate() {
        flooding(first, again).load(words);
        let more = peak_memory_kib().saturating_sub(before);
        assert!(more < 6 << 10, "{more} KiB more after flood {n}");
    }
    Scripted::responding(hpack_bomb).load(words);
    let more = peak_memory_kib().saturating_sub(before);
    assert!(more < 6 << 10, "{more} KiB more after a bomb");
    // The load holds the body in memory once. While the test creates the file, the body is in
    // memory twice.
    with_large_body(&greedy(|_| Some(())), words);
    let more = peak_memory_kib().saturating_sub(before);
    assert!(
        more < 80 << 10,
        "{more} KiB more for bodies that the server does not read"
    );
}

/// Runs a test of this module again in a separate process. Returns true within that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "PRONY_TEST_IS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let name = format!("h2_floods::{test}");
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        // Otherwise glibc may give each thread its own arena that keeps freed memory, so peak
        // memory would vary with scheduling.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && output.contains("1 passed"),
        "{output}"
    );
    false
}

/// Peak memory of this process (proc(5), VmHWM).
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
