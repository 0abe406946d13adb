//! Tests that the results by entry of a list match the requests that the server received.

use prony_record::{EntryGrouping, EntryResult, Outcome, Record};

use crate::harness::{Served, Via, text};

#[track_caller]
fn entry<'a>(record: &'a Record, name: &str) -> &'a EntryResult {
    let mut rows = record.entries.as_ref().unwrap().rows();
    let found = rows.find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", record.entries))
}

#[track_caller]
fn add_up(record: &Record) {
    let entries = record.entries.as_ref().unwrap();
    let sum = |count: fn(&EntryResult) -> u64| entries.rows().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.started), record.totals.started);
    assert_eq!(sum(|it| it.ok), record.totals.ok);
    assert_eq!(sum(|it| it.failed), record.totals.failed);
    assert_eq!(sum(|it| it.unfinished), record.totals.unfinished);
    assert_eq!(sum(|it| it.unstarted), record.totals.unstarted);
    assert_eq!(sum(|it| it.bytes_in), record.totals.bytes_in);
    assert_eq!(sum(|it| it.bytes_out), record.totals.bytes_out);
    for row in entries.rows() {
        assert_eq!(row.started, row.ok + row.failed + row.unfinished, "{row:?}");
    }
}

#[test]
fn each_entry_has_its_own_outcomes_bytes_and_times() {
    let served = Served::clear();
    let list = "/bytes/1000\n/status/503\n/delay/30ms\n/bytes/1000\n/echo POST some text\n";
    let list = served.file("urls.txt", list);
    for words in [
        "-c 4",
        "-c 4 -t 2 --order random",
        "-c 2 -r 200",
        "-c 1 --http 2 --streams 4",
    ] {
        let words = format!("-n 100 {words} --urls {}", text(&list));
        let record = served.load(Via::Tcp, "/", &words);
        add_up(&record);
        let entries = record.entries.as_ref().unwrap();
        assert_eq!(entries.grouping, EntryGrouping::Url);
        assert_eq!((entries.count, &entries.other), (4, &None));
        let (bytes, status) = (
            entry(&record, "GET /bytes/1000"),
            entry(&record, "GET /status/503"),
        );
        assert_eq!((bytes.lines, bytes.failed), (2, 0));
        assert!(bytes.bytes_in > 1000 * bytes.ok);
        assert_eq!((status.lines, status.ok), (1, 0));
        assert_eq!(status.outcomes[&Outcome::UnexpectedStatus], status.failed);
        assert_eq!(status.failed, record.totals.failed);
        let delayed = entry(&record, "GET /delay/30ms");
        assert!(delayed.response_time_us.min >= 24_970.0, "{delayed:?}");
        assert_eq!(entry(&record, "POST /echo").failed, 0);
        if !words.contains("random") {
            let each = entries.each.iter().map(|it| (it.name.as_str(), it.started));
            let expected = [
                ("GET /bytes/1000", 40),
                ("GET /status/503", 20),
                ("GET /delay/30ms", 20),
                ("POST /echo", 20),
            ];
            assert_eq!(each.collect::<Vec<_>>(), expected, "{words}");
        }
    }
}

#[test]
fn a_redirected_request_counts_for_the_entry_that_it_began_with() {
    let served = Served::clear();
    let list = served.file("urls.txt", "/redirect/3\n/bytes/10\n");
    let words = format!("-n 20 -c 2 --follow 5 --urls {}", text(&list));
    let record = served.load(Via::Tcp, "/", &words);
    add_up(&record);
    assert_eq!(record.totals.redirected, 30);
    let redirected = entry(&record, "GET /redirect/3");
    assert_eq!((redirected.started, redirected.ok), (10, 10));
    assert!(redirected.bytes_in > entry(&record, "GET /bytes/10").bytes_in);
}

#[test]
fn requests_that_were_due_and_never_began_count_for_their_entries() {
    let served = Served::clear();
    let list = served.file("urls.txt", "/delay/10s\n/bytes/10\n/bytes/20\n");
    let words = format!("-d 500ms -r 100 -c 1 --urls {}", text(&list));
    let record = served.load(Via::Tcp, "/", &words);
    add_up(&record);
    assert_eq!(entry(&record, "GET /delay/10s").unfinished, 1);
    let unstarted: Vec<u64> = record
        .entries
        .as_ref()
        .unwrap()
        .each
        .iter()
        .map(|it| it.unstarted)
        .collect();
    // The schedule has 50 arrivals. The first one occupies the connection until the end.
    assert_eq!(unstarted, [16, 17, 16]);
    assert!(
        entry(&record, "GET /bytes/10")
            .response_time_us
            .at_least
            .contains(&"p50".to_owned())
    );
}

#[test]
fn long_lists_are_grouped_and_the_rest_is_summed_up() {
    let served = Served::clear();
    let lines = |pattern: &dyn Fn(usize) -> String| (0..400).map(pattern).collect::<String>();
    let list = served.file(
        "urls.txt",
        lines(&|n| format!("/bytes/{}?n={n}\n/chunked/{n}\n", n % 7)),
    );
    let words = format!("-n 1600 -c 4 -t 2 --urls {}", text(&list));
    let record = served.load(Via::Tcp, "/", &words);
    add_up(&record);
    let entries = record.entries.as_ref().unwrap();
    assert_eq!((entries.grouping, entries.count), (EntryGrouping::Path, 2));
    for name in ["GET /bytes/{id}", "GET /chunked/{id}"] {
        let group = entry(&record, name);
        assert_eq!((group.lines, group.ok), (400, 800));
    }
    // These 400 names contain no numbers or identifiers.
    let list = served.file("words.txt", lines(&|n| format!("/word-{n}\n")));
    let words = format!("-n 800 -c 4 --expect-status 404 --urls {}", text(&list));
    let record = served.load(Via::Tcp, "/", &words);
    add_up(&record);
    let entries = record.entries.as_ref().unwrap();
    assert_eq!((entries.count, entries.each.len()), (400, 100));
    let other = entry(&record, "other");
    assert_eq!((other.lines, other.started), (300, 600));
    assert_eq!(entry(&record, "GET /word-7").ok, 2);
}

#[test]
fn a_load_of_one_entry_has_no_results_by_entry() {
    let served = Served::clear();
    assert_eq!(served.load(Via::Tcp, "/", "-n 5 -c 1").entries, None);
    let list = served.file("urls.txt", "/bytes/10\n/bytes/10\n");
    let words = format!("-n 5 -c 1 --urls {}", text(&list));
    assert_eq!(served.load(Via::Tcp, "/", &words).entries, None);
}
