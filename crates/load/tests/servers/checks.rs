//! Checks that every server must pass.

use crate::load::{BACKENDS, assert_all_ok};
use crate::server::{Server, Transport, text};
use crate::site::{SIZES, hash_of};

/// Returns the number of requests for a body size. Large bodies are requested less often. For other
/// bodies, there are more requests than streams, so that each stream slot is reused.
fn requests(size: usize, streams: u64) -> u64 {
    match (size, streams) {
        (0..50_000, 1) => 20,
        (0..50_000, _) => 250,
        (0..1_000_000, 1) => 4,
        (0..1_000_000, _) => 110,
        (0..10_000_000, 1) => 2,
        (0..10_000_000, _) => 10,
        (_, 1) => 1,
        _ => 3,
    }
}

/// Requests bodies of each size over one stream and over many streams. Every body must be complete
/// and correct.
pub(crate) fn bodies_of_every_size(server: &Server) {
    for_each_way(|way, io| {
        for streams in [1, 100] {
            for size in SIZES {
                let n = requests(size, streams);
                let words = format!(
                    "-n {n} -c 1 --streams {streams} --http 2 --io {io} \
                     --expect-size {size} --expect-sha256 {}",
                    hash_of(size)
                );
                let case = format!("{way:?} {io}, {size} bytes, {streams} streams");
                let record = server.load(way, &format!("/bytes/{size}"), &words);
                assert_all_ok(&record, n, &case);
                assert_eq!(record.totals.body_bytes_in, n * size as u64, "{case}");
                assert_eq!(record.totals.connections_opened, 1, "{case}");
            }
        }
    });
}

/// Requests bodies of all sizes at the same time on a few connections. No response may contain
/// bytes of another response.
pub(crate) fn bodies_of_all_sizes_at_once(server: &Server) {
    let list: String = SIZES
        .iter()
        .map(|size| format!("/bytes/{size}\n"))
        .collect();
    let list = server.site.file("sizes", &list);
    let words = format!("-n 80 -c 2 --streams 20 --http 2 --urls {}", text(&list));
    for_each_way(|way, io| {
        let record = server.load(way, "/", &format!("{words} --io {io}"));
        assert_all_ok(&record, 80, &format!("{way:?} {io}"));
        let bodies = 10 * SIZES.iter().sum::<usize>();
        assert_eq!(record.totals.body_bytes_in, bodies as u64, "{way:?} {io}");
    });
}

/// Checks that responses to HEAD have no body, even with a Content-Length, and that the next
/// response is correct.
pub(crate) fn heads(server: &Server) {
    let list = "/bytes/1024 HEAD\n/bytes/1024\n/bytes/1048576 HEAD\n/bytes/0 HEAD\n";
    let list = server.site.file("heads", list);
    let words = format!("-n 200 -c 1 --http 2 --urls {}", text(&list));
    for_each_way(|way, io| {
        for streams in [1, 100] {
            let words = format!("{words} --streams {streams} --io {io}");
            let record = server.load(way, "/", &words);
            let case = format!("{way:?} {io}, {streams} streams");
            assert_all_ok(&record, 200, &case);
            assert_eq!(record.totals.body_bytes_in, 50 * 1024, "{case}");
        }
    });
}

/// Sends bodies to `/echo`. The echoed bodies must be unchanged: one body that is larger than
/// several windows, and small ones on many streams.
pub(crate) fn uploads(server: &Server) {
    for_each_way(|way, io| {
        for (size, n, streams) in [
            (0, 20, 10),
            (1, 20, 10),
            (16_385, 50, 50),
            (1 << 20, 3, 1),
            (1 << 20, 12, 6),
        ] {
            let file = server.site.path(&format!("www/bytes/{size}"));
            let words = format!(
                "-n {n} -c 1 --streams {streams} --http 2 --io {io} -X POST --body-file {} \
                 --expect-size {size} --expect-sha256 {}",
                text(&file),
                hash_of(size)
            );
            let case = format!("{way:?} {io}, {size} bytes, {streams} streams");
            let record = server.load(way, "/echo", &words);
            assert_all_ok(&record, n, &case);
            assert!(record.totals.bytes_out > n * size as u64, "{case}");
        }
    });
}

/// Requests a thousand URLs of different lengths, up to 3 KB.
pub(crate) fn long_lists(server: &Server) {
    let list: String = (0..1000)
        .map(|at| {
            let filling = "/a-long-query".repeat(match at % 100 {
                99 => 250,
                other => other / 10,
            });
            format!("/bytes/1?{at}{filling}\n")
        })
        .collect();
    let list = server.site.file("list", &list);
    let words = format!("-n 2000 -c 2 --streams 50 --http 2 --urls {}", text(&list));
    for_each_way(|way, io| {
        let words = format!("{words} --io {io} --expect-size 1");
        let record = server.load(way, "/", &words);
        assert_all_ok(&record, 2000, &format!("{way:?} {io}"));
        assert_eq!(record.load.urls, 1000);
    });
}

fn for_each_way(mut check: impl FnMut(Transport, &'static str)) {
    for way in Transport::BOTH {
        for io in BACKENDS {
            check(way, io);
        }
    }
}

/// Defines the tests of one server, which `$start` starts.
macro_rules! check_all {
    ($start:expr) => {
        #[test]
        fn bodies_of_every_size() {
            crate::checks::bodies_of_every_size(&$start);
        }

        #[test]
        fn bodies_of_all_sizes_at_once() {
            crate::checks::bodies_of_all_sizes_at_once(&$start);
        }

        #[test]
        fn heads() {
            crate::checks::heads(&$start);
        }

        #[test]
        fn uploads() {
            crate::checks::uploads(&$start);
        }

        #[test]
        fn long_lists() {
            crate::checks::long_lists(&$start);
        }
    };
}
pub(crate) use check_all;
