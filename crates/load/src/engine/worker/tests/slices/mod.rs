//! Tests of loads in slices. Between two slices, other loads run.

mod accounting;
pub(super) mod agreement;
pub(super) mod chaos;
mod faults;

use crate::carrier::ByteTransport;
use std::collections::VecDeque;

use prony_record::Exchange;

use super::*;
use crate::engine::slices::{LoadSlice, SliceReport};
use crate::engine::worker::SliceFeed;
use crate::request::script::RequestEnd;

/// A slice, and the pause before it in real time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) pause: Nanos,
    pub(super) slice: LoadSlice,
}

/// Creates `count` equal slices. The load's first counted part begins after one settling part.
pub(super) fn turns(count: u64, settling: Nanos, length: Nanos, pause: Nanos) -> Vec<Turn> {
    let turn = |number| Turn {
        pause,
        slice: LoadSlice {
            from: settling + Nanos(length.0 * number),
            settling,
            length,
        },
    };
    (0..count).map(turn).collect()
}

/// Source of the slices that a test gives to one worker.
struct TurnFeed {
    turns: VecDeque<Turn>,
    /// End of the load on the load's clock.
    end: Nanos,
    reports: Vec<SliceReport>,
    /// Real times at which the slices began.
    begins: Vec<Nanos>,
}

impl<'run> SliceFeed<SimulatedSockets<'run>> for TurnFeed {
    fn next(&mut self, sockets: &mut SimulatedSockets<'run>) -> Result<LoadSlice, Nanos> {
        let Turn { pause, slice } = self.turns.pop_front().ok_or(self.end)?;
        sockets.set_clock(pause, slice.begin());
        self.begins.push(sockets.server_clock());
        Ok(slice)
    }

    fn ended(&mut self, report: SliceReport) {
        self.reports.push(report);
    }
}

/// All exchanges that have ended, with their outcomes.
type Exchanges = Rc<RefCell<Vec<(Exchange, Outcome)>>>;

/// A script that records all exchanges but doesn't influence the load.
struct ExchangeLog(Exchanges);

impl Script for ExchangeLog {
    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        self.0.borrow_mut().push((*end.exchange, end.outcome));
    }
}

/// The results of a load in slices.
pub(super) struct SlicedOutcomes {
    pub(super) outcomes: Outcomes,
    /// Results of the load's workers, in order.
    pub(super) workers: Vec<SlicedWorker>,
}

/// The results of one worker of a load in slices.
pub(super) struct SlicedWorker {
    pub(super) exchanges: Vec<(Exchange, Outcome)>,
    pub(super) reports: Vec<SliceReport>,
    /// Real times at which the slices began.
    pub(super) begins: Vec<Nanos>,
}

impl SlicedOutcomes {
    /// Returns the exchanges that did not start in a settling part.
    pub(super) fn counted(&self) -> impl Iterator<Item = &(Exchange, Outcome)> {
        let all = self.workers.iter().flat_map(|worker| &worker.exchanges);
        all.filter(|(exchange, _)| !exchange.is_settling)
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &SliceReport> {
        self.workers.iter().flat_map(|worker| &worker.reports)
    }

    /// Returns the sum of a value over all reports.
    pub(super) fn sum(&self, of: impl Fn(&SliceReport) -> u64) -> u64 {
        self.reports().map(of).sum()
    }

    /// Asserts that each request is accounted for once. `is_complete` is false if the load ended
    /// within a slice, because no report then contains the results of that slice.
    pub(super) fn check(&self, is_complete: bool) {
        let totals = &self.outcomes.record.totals;
        let started = totals.ok + totals.failed + totals.unfinished;
        assert_eq!(totals.started, started);
        let warmup = self.outcomes.record.load.warmup_s;
        let is_measured = |exchange: &Exchange| exchange.intended.as_secs_f64() >= warmup;
        let measured: Vec<_> = self.counted().filter(|(it, _)| is_measured(it)).collect();
        assert_eq!(measured.len() as u64, totals.started);
        for worker in &self.workers {
            for (exchange, _) in &worker.exchanges {
                assert!(exchange.is_in_order(), "{exchange:?}");
            }
        }
        let in_series = self.outcomes.record.series.iter();
        let in_series: u64 = in_series.map(|slice| slice.ok + slice.failed).sum();
        assert_eq!(in_series, totals.ok + totals.failed);
        let reported = [self.sum(|it| it.ok), self.sum(|it| it.failed)];
        let recorded = [totals.ok, totals.failed];
        assert!(reported.iter().zip(recorded).all(|(a, b)| *a <= b));
        if !is_complete {
            return;
        }
        assert_eq!(reported, recorded);
        assert_eq!(totals.unfinished, 0);
        let all = self.workers.iter().map(|worker| worker.exchanges.len());
        assert_eq!(self.sum(|it| it.ended), all.sum::<usize>() as u64);
        let ok = measured
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Ok);
        let response_ns = ok.map(|(exchange, _)| (exchange.ended - exchange.intended).0);
        let reported: u128 = self.reports().map(|it| it.response_ns).sum();
        assert_eq!(reported, u128::from(response_ns.sum::<u64>()));
    }
}

/// Runs a load in slices with one worker per server.
pub(super) fn simulate_slices(
    spec: &LoadSpec,
    servers: Vec<Box<dyn Server>>,
    turns: &[Turn],
) -> SlicedOutcomes {
    let sliced = simulate_slices_with(spec, servers, turns, &Control::new(1), |sockets| sockets);
    sliced.check(true);
    sliced
}

/// Like [`simulate_slices`], but adjusts the sockets with `changed` and doesn't check the results.
pub(super) fn simulate_slices_with(
    spec: &LoadSpec,
    servers: Vec<Box<dyn Server>>,
    turns: &[Turn],
    control: &Control,
    changed: impl for<'a> Fn(SimulatedSockets<'a>) -> SimulatedSockets<'a>,
) -> SlicedOutcomes {
    let of = servers.len() as u64;
    let (mut logs, mut workers, mut worked) = (Vec::new(), Vec::new(), Vec::new());
    for (worker, server) in (0..of).zip(servers) {
        let shard = Shard { worker, of };
        let slots = spec.connections_max(shard) as usize;
        let sockets = changed(SimulatedSockets::new(slots, server));
        logs.push(sockets.log());
        let exchanges = Exchanges::default();
        let capture = CaptureSpec {
            ends: true,
            ..CaptureSpec::default()
        };
        let script = || ScriptRunner::new(Box::new(ExchangeLog(exchanges.clone())), capture, 0);
        // A worker without slots gets no script, because a script without users would end the load
        // immediately.
        let script = (slots > 0).then(script);
        let mut feed = TurnFeed {
            turns: turns.iter().copied().collect(),
            end: turns.last().map_or(Nanos::ZERO, |turn| turn.slice.end()),
            reports: Vec::new(),
            begins: Vec::new(),
        };
        let result = Worker::in_slices(spec, shard, ByteTransport(sockets))
            .with_script(script)
            .run_in_slices(control, &Counter::default(), &mut feed);
        worked.push(result.unwrap());
        workers.push(SlicedWorker {
            exchanges: exchanges.take(),
            reports: feed.reports,
            begins: feed.begins,
        });
    }
    let record = merge(spec, worked, SystemTime::UNIX_EPOCH).unwrap().record;
    let outcomes = Outcomes { record, logs };
    SlicedOutcomes { outcomes, workers }
}
