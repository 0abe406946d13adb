//! Checks that the entries add up to the whole load, both in a recorder and in messages.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    Delta, EncodedDelta, Exchange, LoadInfo, MeasuredPart, Nanos, Outcome, Record, Recorder,
};

/// Records requests of every kind with random entry numbers, some of which are higher than the last
/// entry's number.
fn recorded(entries: usize, seed: u64, each: &mut dyn FnMut(&mut Recorder)) -> Recorder {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let warm_up = Nanos::from_millis(700 * (seed % 2));
    let mut recorder = Recorder::new(match seed % 3 {
        0 => MeasuredPart::EndedFrom(warm_up),
        _ => MeasuredPart::DueFrom(warm_up),
    });
    recorder.count_entries(entries);
    recorder.watch();
    let mut now_ms = 0u64;
    for _ in 0..600 {
        now_ms += random.random_range(0..12);
        let rare = Outcome::ALL[random.random_range(0..Outcome::ALL.len())];
        let outcome = [rare, Outcome::Ok, Outcome::Ok][random.random_range(0..3)];
        let due = Nanos::from_millis(now_ms.saturating_sub(random.random_range(0..300)));
        let entry = random.random_range(0..entries as u32 + 2);
        let exchange = Exchange {
            intended: due,
            sent: due + Nanos(random.random_range(0..2) * 5),
            first_byte: None,
            ended: Nanos::from_millis(now_ms) + Nanos(random.random_range(5..900_000)),
            status: None,
            bytes_in: random.random_range(0..9_000),
            body_bytes_in: 0,
            bytes_out: random.random_range(0..900),
            is_settling: random.random_range(0..20) == 0,
            entry,
        };
        if outcome != Outcome::Unstarted {
            recorder.started_entry(entry);
        }
        recorder.ended(&exchange, outcome);
        each(&mut recorder);
    }
    recorder.finish(Nanos::from_millis(now_ms + 120));
    recorder
}

#[track_caller]
fn add_up(delta: &Delta) {
    let sum = |count: fn(&EntryDelta) -> u64| delta.entries.iter().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.started), delta.started);
    assert_eq!(sum(|it| it.unmeasured), delta.unmeasured);
    assert_eq!(sum(|it| it.bytes_in), delta.bytes_in);
    assert_eq!(sum(|it| it.bytes_out), delta.bytes_out);
    for &outcome in Outcome::ALL {
        let of_entries: u64 = delta
            .entries
            .iter()
            .map(|it| it.outcomes.get(outcome))
            .sum();
        assert_eq!(of_entries, delta.outcomes.get(outcome), "{outcome:?}");
    }
    assert!(delta.entries.iter().all(|entry| entry.in_flight() == 0));
    assert_eq!(sum(|it| it.times.count()), delta.response_time.count());
    assert_eq!(
        sum(|it| it.times.censored()),
        delta.response_time.censored()
    );
}

#[test]
fn entries_add_up_to_the_load_over_workers_deltas_and_the_wire() {
    for (entries, seeds) in [(1, 0..3), (2, 3..9), (7, 9..15), (ENTRIES_MAX + 1, 15..18)] {
        let mut whole = Delta::default();
        let mut sum = Delta::default();
        let mut decoded = Delta::default();
        for seed in seeds {
            let mut into = Box::<Delta>::default();
            let mut hand_over = |recorder: &mut Recorder| {
                if recorder.has_news() {
                    recorder.hand_over(&mut into);
                    sum.merge(&into);
                    for piece in EncodedDelta::of(&into).split(1 + 30 * (seed as usize % 4)) {
                        let text = serde_json::to_string(&piece).unwrap();
                        let read: EncodedDelta = serde_json::from_str(&text).unwrap();
                        assert!(read == piece);
                        read.add_to(&mut decoded).unwrap();
                    }
                    into.clear();
                }
            };
            let mut recorder = recorded(entries, seed, &mut hand_over);
            hand_over(&mut recorder);
            add_up(recorder.total());
            whole.merge(recorder.total());
        }
        add_up(&whole);
        assert_eq!(sum, whole);
        assert_eq!(decoded, whole);
    }
}

#[test]
fn results_of_entries_fulfill_the_identity_and_add_up_to_the_totals() {
    let names = (0..6).map(|n| EntryInfo {
        name: format!("GET /{n}"),
        lines: n + 1,
    });
    let list = EntryList {
        grouping: EntryGrouping::Path,
        each: names.collect(),
        other: Some(OtherEntries {
            entries: 30,
            lines: 40,
        }),
    };
    let recorder = recorded(list.results(), 1, &mut |_| {});
    let load = LoadInfo {
        entries: Some(Box::new(list)),
        ..LoadInfo::default()
    };
    let end = Nanos::from_secs(3);
    let record = Record::build(load, recorder.total(), (Nanos::ZERO, end), None);
    record.totals.check().unwrap();
    assert_eq!(record.load.entries, None);
    let entries = record.entries.as_ref().unwrap();
    assert_eq!((entries.count, entries.each.len()), (36, 6));
    let other = entries.other.as_ref().unwrap();
    assert_eq!((other.name.as_str(), other.lines), ("other", 40));
    for row in entries.rows() {
        assert_eq!(row.started, row.ok + row.failed + row.unfinished);
        let outcomes: u64 = row.outcomes.values().sum();
        assert_eq!(outcomes, row.started + row.unstarted);
    }
    let sum = |count: fn(&EntryResult) -> u64| entries.rows().map(count).sum::<u64>();
    let totals = &record.totals;
    assert_eq!(sum(|it| it.started), totals.started);
    assert_eq!(sum(|it| it.ok), totals.ok);
    assert_eq!(sum(|it| it.failed), totals.failed);
    assert_eq!(sum(|it| it.unfinished), totals.unfinished);
    assert_eq!(sum(|it| it.unstarted), totals.unstarted);
    assert_eq!(sum(|it| it.bytes_in), totals.bytes_in);
    assert_eq!(sum(|it| it.bytes_out), totals.bytes_out);
    let rate: f64 = entries.rows().map(|it| it.ok_per_s).sum();
    assert!((rate - record.rate.ok_per_s).abs() < 1e-6);
    assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
}

#[test]
fn requests_in_flight_at_a_lost_agent_become_unfinished() {
    let mut entries = EntryDeltas::new(3);
    entries.0[0].started = 7;
    entries.0[0].unmeasured = 2;
    entries.0[0].outcomes.add_many(Outcome::Ok, 4);
    entries.0[1].started = 5;
    entries.0[1].outcomes.add_many(Outcome::Unstarted, 9);
    entries.end_in_flight();
    let unfinished: Vec<u64> = entries
        .iter()
        .map(|it| it.outcomes.get(Outcome::Unfinished))
        .collect();
    assert_eq!(unfinished, [1, 5, 0]);
}

#[test]
fn entries_without_requests_equal_missing_ones() {
    let mut used = EntryDeltas::new(3);
    assert_eq!(used, EntryDeltas::default());
    used.0[1].bytes_in = 1;
    assert_ne!(used, EntryDeltas::default());
    assert_eq!(used.used().len(), 2);
    used.clear();
    assert_eq!(used, EntryDeltas::new(100));
}

#[test]
fn pooled_entries_are_those_of_one_load_of_all_requests() {
    let names = (0..6).map(|n| EntryInfo {
        name: format!("GET /{n}"),
        lines: n + 1,
    });
    let list = EntryList {
        each: names.collect(),
        ..EntryList::default()
    };
    let end = Nanos::from_secs(3);
    let mut whole = Delta::default();
    let loads: Vec<EntryResults> = (1..5)
        .map(|seed| {
            let recorder = recorded(list.results(), seed, &mut |_| {});
            whole.merge(recorder.total());
            let mut results = EntryResults::of(&list, &recorder.total().entries, end);
            results.keep_histograms(&recorder.total().entries);
            let json = serde_json::to_string(&results).unwrap();
            serde_json::from_str(&json).unwrap()
        })
        .collect();
    let timed = |loads: &[EntryResults]| {
        let timed = loads.iter().map(|load| (load, end.as_secs_f64()));
        EntryResults::pooled(timed)
    };
    let all_time = Nanos(end.0 * loads.len() as u64);
    let expected = EntryResults::of(&list, &whole.entries, all_time);
    assert_eq!(timed(&loads), Some(expected));

    // If one of the histograms is missing, the counts are still complete, but there are no
    // percentiles.
    let mut lacking = loads.clone();
    lacking[1].each[2].histogram = None;
    let pooled = timed(&lacking).unwrap();
    assert_eq!(pooled.each[2].response_time_us, crate::Summary::default());
    assert!(pooled.each[2].ok > loads[1].each[2].ok);
    assert!(pooled.each[3].response_time_us.p99 > 0.0);
    lacking[1].each[2].histogram = Some("AAAA".to_owned());
    let pooled = timed(&lacking).unwrap();
    assert_eq!(pooled.each[2].response_time_us, crate::Summary::default());

    lacking[1].each[2].name = "GET /other".to_owned();
    assert_eq!(timed(&lacking), None);
    assert_eq!(timed(&[]), None);
}
