//! Tests that each part of a slice counts the right requests.

use super::*;
use crate::carrier::ByteTransport;

/// Three slices of 100 ms with settling parts of 20 ms and drains of 20 ms. The server takes 35 ms,
/// so requests of the settling part end in the counted part, and the last requests of the counted
/// part end in the drain.
fn three() -> Vec<Turn> {
    turns(3, ms(20), ms(100), ms(100))
}

/// Real time at which the third slice starts.
const THIRD_BEGIN: Nanos = ms(100 + 2 * (20 + 100 + 20 + 100));

fn server() -> Box<dyn Server> {
    responding(|_| {
        let (first, rest) = OK.split_at(20);
        reply([
            (ms(20), Step::Send(first.to_vec())),
            (ms(35), Step::Send(rest.to_vec())),
        ])
    })
}

fn four() -> LoadSpec {
    spec("-c 4 --warmup 20ms")
}

#[test]
fn requests_that_start_in_the_counted_part_count_with_their_full_times() {
    let sliced = simulate_slices(&four(), vec![server()], &three());
    let worker = &sliced.workers[0];
    assert_eq!(worker.begins[2], THIRD_BEGIN);
    // Four connections start four rounds in each slice. The first round starts in the settling
    // part.
    let report = SliceReport {
        ok: 12,
        failed: 0,
        ended: 16,
        response_ns: 12 * u128::from(ms(35).0),
        drain: ms(20),
        p99: worker.reports[0].p99,
    };
    assert_eq!(worker.reports, [report; 3]);
    assert!(report.p99 >= ms(35) && report.excess(&[]) == Nanos::ZERO);
    let record = &sliced.outcomes.record;
    assert_eq!(sliced.outcomes.all(), [(Outcome::Ok, 36)]);
    assert_eq!(record.totals.elapsed_s, 0.3);
    let times = &record.response_time_us;
    assert!(times.min > 34_900.0 && times.max < 35_100.0, "{times:?}");
    for (exchange, _) in sliced.counted() {
        let begin = exchange.intended;
        assert_eq!((exchange.sent, exchange.ended), (begin, begin + ms(35)));
        assert_eq!(exchange.first_byte, Some(begin + ms(20)));
    }
}

#[test]
fn settling_requests_are_never_counted() {
    // The server fails all requests of the settling parts, and no others.
    let turns = three();
    let begins: Vec<Nanos> = (0..3).map(|n| ms(100 + n * 240)).collect();
    let server = responding(move |asked| {
        let is_settling = |begin: &Nanos| (*begin..*begin + ms(20)).contains(&asked.now);
        let response = if begins.iter().any(is_settling) {
            b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"
        } else {
            OK
        };
        reply([(ms(35), Step::Send(response.to_vec()))])
    });
    let sliced = simulate_slices(&four(), vec![server], &turns);
    assert_eq!(sliced.outcomes.all(), [(Outcome::Ok, 36)]);
    assert_eq!(sliced.outcomes.record.status, [(200, 36)].into());
    assert!(sliced.outcomes.record.findings.is_empty());
}

/// Runs three slices, and stops the load `time` after the start of the third.
fn stopped_after(time: Nanos, words: &str) -> SlicedOutcomes {
    let control = Rc::new(Control::new(1));
    let interrupted = control.clone();
    let spec = spec(&format!("{words} --warmup 20ms"));
    let whole = simulate_slices(&spec, vec![server()], &three());
    let at = whole.workers[0].begins[2] + time;
    let sliced = simulate_slices_with(&spec, vec![server()], &three(), &control, |sockets| {
        sockets.with_interrupt(at, interrupted.clone())
    });
    sliced.check(false);
    sliced
}

#[test]
fn a_load_may_be_stopped_in_each_part_of_a_slice() {
    for (time, ok, unfinished, elapsed_s) in [
        // Stop in the settling part: the load ends where the previous slice ended.
        (ms(10), 24, 0, 0.2),
        // Stop in the counted part.
        (ms(60), 24, 4, 0.24),
        // Stop in the drain, after the first byte of the responses.
        (ms(130), 32, 4, 0.3),
    ] {
        let sliced = stopped_after(time, "-c 4");
        let totals = &sliced.outcomes.record.totals;
        assert_eq!((totals.ok, totals.unfinished), (ok, unfinished), "{time}");
        assert_eq!(totals.elapsed_s, elapsed_s, "{time}");
        assert_eq!(sliced.workers[0].reports.len(), 2);
    }
}

#[test]
fn a_stopped_open_loop_has_all_arrivals_before_the_stop() {
    for (time, arrivals) in [(ms(10), 200), (ms(60), 240), (ms(130), 300)] {
        let sliced = stopped_after(time, "-c 4 -r 1000");
        let totals = &sliced.outcomes.record.totals;
        assert_eq!(totals.started + totals.unstarted, arrivals, "{time}");
    }
}

#[test]
fn slices_may_be_shorter_than_a_response_or_empty() {
    for (settling, length) in [(ms(0), ms(1)), (ms(7), ms(0)), (ms(0), ms(0))] {
        let turns = turns(20, settling, length, ms(10));
        for words in ["-c 4", "-c 4 -r 1000"] {
            let sliced = simulate_slices(&spec(words), vec![server()], &turns);
            let per_slice = 4 * u64::from(length > Nanos::ZERO && words == "-c 4");
            let is_open = words.contains("-r");
            let ok = sliced.outcomes.record.totals.ok;
            assert!(is_open || ok == 20 * per_slice, "{words} {ok}");
        }
    }
}

#[test]
fn a_load_whose_first_slice_never_starts_returns_a_record_of_zeros() {
    let sliced = simulate_slices(&four(), vec![server()], &[]);
    assert_eq!(sliced.outcomes.record.totals.started, 0);
    assert!(sliced.outcomes.record.findings.is_empty());
}

#[test]
fn connections_may_be_opened_before_the_first_slice() {
    let control = Control::new(1);
    let shard = Shard { worker: 0, of: 1 };
    let mut spec = four();
    spec.open_before_start();
    let turns = three();
    let mut feed = TurnFeed {
        end: turns.last().unwrap().slice.end(),
        turns: turns.into(),
        reports: Vec::new(),
        begins: Vec::new(),
    };
    let sockets = SimulatedSockets::new(4, server());
    let log = sockets.log();
    let mut worker = Worker::in_slices(&spec, shard, ByteTransport(sockets));
    worker.preconnect(&control).unwrap();
    let mut worker = worker.restart();
    worker.start_clock(SimulatedSockets::start_clock);
    let counter = Counter::default();
    let result = worker.run_in_slices(&control, &counter, &mut feed).unwrap();
    assert_eq!(result.sink.recorder.outcomes().get(Outcome::Ok), 36);
    assert_eq!(log.borrow().connects.len(), 0);
    assert_eq!(log.borrow().before.as_ref().unwrap().connects.len(), 4);
}

#[test]
fn a_watched_load_publishes_all_of_its_results() {
    let control = Control::new(1);
    control.watch();
    let shard = Shard { worker: 0, of: 1 };
    let spec = spec("-c 4 --warmup 20ms");
    let turns = turns(12, ms(20), ms(250), ms(100));
    let mut feed = TurnFeed {
        end: turns.last().unwrap().slice.end(),
        turns: turns.into(),
        reports: Vec::new(),
        begins: Vec::new(),
    };
    let worker = Worker::in_slices(
        &spec,
        shard,
        ByteTransport(SimulatedSockets::new(4, server())),
    );
    let counter = control.counter(0).unwrap();
    let result = worker.run_in_slices(&control, counter, &mut feed).unwrap();
    assert_eq!(&control.take(), result.sink.recorder.total());
}
