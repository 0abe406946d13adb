//! Results for each entry of a list of URLs.

use prony_record::{EntryGrouping, EntryResult, EntryResults, Record};
use serde_json::Value;

use crate::fleet_loads::FleetSetup;
use crate::running::{Origin, Workdir, check_schema};

#[track_caller]
fn started(record: &Record) -> Vec<(&str, u64)> {
    let rows = record.entries.as_ref().unwrap().rows();
    rows.map(|row| (row.name.as_str(), row.started)).collect()
}

#[track_caller]
fn add_up(record: &Record) {
    record.totals.check().unwrap();
    let rows = || record.entries.as_ref().unwrap().rows();
    let sum = |count: fn(&EntryResult) -> u64| rows().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.started), record.totals.started);
    assert_eq!(sum(|it| it.ok), record.totals.ok);
    assert_eq!(sum(|it| it.failed), record.totals.failed);
    assert_eq!(sum(|it| it.bytes_in), record.totals.bytes_in);
    assert!(rows().all(|it| it.started == it.ok + it.failed + it.unfinished));
}

#[test]
fn the_worst_entries_are_printed_and_all_of_them_stored() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let fast = (1..=6).map(|n| format!("/bytes/{n}\n"));
    let list = fast.collect::<String>() + "/delay/500ms\n/status/503\n/echo POST text\n";
    workdir.write("urls.txt", &list);
    let url = origin.url("/");
    let words = [
        "load", "-n", "90", "-c", "3", "--urls", "urls.txt", "--json", "r.json", "--html",
        "r.html", &url,
    ];
    let output = workdir.run(&words).expect(0);
    let (_, worst) = output.out.split_once("Worst entries\n").unwrap();
    let mut rows = worst.lines().skip(1);
    let row = rows.next().unwrap();
    assert!(
        row.contains("GET /status/503") && row.contains("10 (100%)"),
        "{worst}"
    );
    // On a busy machine, an entry other than the slowest may have the longest p99.
    assert!(rows.any(|row| row.contains("GET /delay/500ms")), "{worst}");
    assert!(worst.contains("5 of 9 entries"), "{worst}");
    let json = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &json);
    assert_eq!(json["load"]["entries"], Value::Null);
    let record = Record::from_json(&workdir.read("r.json")).unwrap();
    add_up(&record);
    let started = started(&record);
    assert_eq!(started.len(), 9);
    assert!(started.iter().all(|(_, count)| *count == 10), "{started:?}");
    let page = workdir.read("r.html");
    assert!(page.contains("All 9 entries") && page.contains("POST /echo"));
    // `prony report` renders the same text from the stored record.
    let again = workdir.run(&["report", "r.json"]).expect(0);
    assert!(
        again.out.contains(worst.lines().nth(1).unwrap()),
        "{}",
        again.out
    );
    workdir
        .run(&["report", "r.json", "--tables", "tables"])
        .expect(0);
    let table = workdir.read("tables/entries.csv");
    assert_eq!(table.lines().count(), 10, "{table}");
}

#[test]
fn agents_results_by_entry_add_up() {
    let ground = FleetSetup::new(2);
    let items = (0..150).map(|n| format!("/bytes/{n}\n/delay/1ms\n/status/404\n"));
    ground.workdir.write("urls.txt", &items.collect::<String>());
    let url = ground.origin.url("/");
    let words = [
        "load",
        "--agents",
        "2",
        "-c",
        "5",
        "-n",
        "901",
        "--urls",
        "urls.txt",
        "--json",
        "by-agents.json",
        &url,
    ];
    let words = ground.words(&words);
    let output = ground.workdir.run(&words).expect(0);
    assert!(output.out.contains("GET /status/{id}"), "{}", output.out);
    let record = Record::from_json(&ground.workdir.read("by-agents.json")).unwrap();
    add_up(&record);
    let entries = record.entries.as_ref().unwrap();
    assert_eq!((entries.grouping, entries.count), (EntryGrouping::Path, 3));
    // The requests are divided into contiguous ranges, one for each of two workers.
    let started = started(&record);
    assert_eq!(
        started.iter().map(|it| it.0).collect::<Vec<_>>(),
        ["GET /bytes/{id}", "GET /delay/1ms", "GET /status/{id}"]
    );
    assert!(
        started.iter().all(|it| it.1.abs_diff(300) <= 2),
        "{started:?}"
    );
    let failed: Vec<u64> = entries.each.iter().map(|it| it.failed).collect();
    assert_eq!(failed, [0, 0, record.totals.failed]);
    ground.end();
}

#[test]
fn comparisons_have_entries_by_variant() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let fast = (1..=5).map(|n| format!("/bytes/{n}\n"));
    workdir.write("urls.txt", &(fast.collect::<String>() + "/status/503\n"));
    let urls = [origin.url("/"), origin.url("/")];
    for (mode, dir) in [("auto", "interleaved"), ("off", "sequential")] {
        let args = "compare -r 300 -c 4 -d 1200ms --warmup 100ms --no-precheck --blocks 2 --names old,new \
                    --urls urls.txt";
        let words: Vec<&str> = args.split_whitespace().collect();
        let more = ["--interleave", mode, "--out", dir, &urls[0], &urls[1]];
        // A verdict may be withheld on a busy machine.
        let output = workdir.run(&[&words[..], &more].concat());
        let (_, worst) = output.out.split_once("Worst entries\n").unwrap();
        // A long name is wrapped to two lines.
        let first: Vec<&str> = worst.lines().skip(1).take(2).collect();
        let first = first.join(" ");
        assert!(first.contains("/status/503"), "{worst}");
        assert!(first.contains("(100%)"), "{worst}");
        assert!(worst.contains("5 of 6 entries"), "{worst}");
        let verdict = workdir.json(&format!("{dir}/verdict.json"));
        check_schema("prony.verdict-1.schema.json", &verdict);
        for (number, name) in ["old", "new"].into_iter().enumerate() {
            let records = [1, 2].map(|block| {
                let json = workdir.read(&format!("{dir}/trials/{block}-{name}/record.json"));
                Record::from_json(&json).unwrap()
            });
            records.iter().for_each(add_up);
            let json = verdict["variants"][number]["entries"].clone();
            let pooled: EntryResults = serde_json::from_value(json).unwrap();
            for (place, entry) in pooled.each.iter().enumerate() {
                let of_trials = records
                    .iter()
                    .map(|it| &it.entries.as_ref().unwrap().each[place]);
                assert_eq!(entry.ok, of_trials.clone().map(|it| it.ok).sum::<u64>());
                let times = of_trials.map(|it| it.response_time_us.p99);
                let (low, high) = times.fold((f64::MAX, 0.0), |(low, high), time| {
                    (time.min(low), time.max(high))
                });
                // A percentile of merged histograms is between the trials' percentiles.
                let p99 = entry.response_time_us.p99;
                assert!(
                    low * 0.99 <= p99 && p99 <= high * 1.01,
                    "{low} {p99} {high}"
                );
                assert!(p99 > 0.0 || entry.ok == 0);
            }
        }
    }
    // A busy machine may withhold the verdict, which is status 1.
    let output = workdir.run(&["report", "sequential", "--tables", "tables"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    let table = workdir.read("tables/entries.csv");
    assert_eq!(table.lines().count(), 13, "{table}");
}
