//! Servers simulated in virtual time. Each serves one request at a time, in the order of arrival.

use prony_record::RandomSequence;

use super::{EarlyEnd, GoalReading, Probe, ProbeProgress, ProbeResult, TailCount};

/// Interval, in seconds, at which a running probe is judged.
const JUDGE_INTERVAL_S: f64 = 0.5;
/// Time for connecting, per probe.
const OVERHEAD_S: f64 = 0.1;
/// Utilization that a closed loop achieves on any kind of server.
const EXPLORED_SHARE: f64 = 0.9;
/// Mean gap between two pauses, in service times. `PAUSE_LENGTH` is the mean length of a pause in
/// the same unit.
const PAUSE_GAP: f64 = 300.0;
const PAUSE_LENGTH: f64 = 5.0;
/// Number of requests after which a cold server is almost warm.
const WARM_UP_REQUESTS: f64 = 2_000.0;

/// A reproducible stream of random numbers.
pub(super) struct Random(RandomSequence);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(RandomSequence::new(seed))
    }

    pub(super) fn uniform(&mut self) -> f64 {
        self.0.next_share()
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }
}

/// Behavior of a simulated server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Exponential service times.
    Exponential,
    /// Constant service times.
    Constant,
    /// Constant service times, and pauses of random length at random times.
    Pauses,
    /// Immediate responses up to half of the maximum rate. Above that, responses far slower than
    /// any goal.
    Cliff,
    /// Constant service times that are 50% longer at first.
    Warming,
}

/// A server with a goal: `quantile` of the response times is below `limit` service times.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimulatedServer {
    pub(super) kind: Kind,
    /// Mean service time, in seconds.
    pub(super) service_s: f64,
    pub(super) quantile: f64,
    pub(super) limit: f64,
    /// Requests served so far.
    pub(super) served: f64,
}

impl SimulatedServer {
    /// Creates a server with a service time of 1 ms.
    pub(super) fn new(kind: Kind, quantile: f64, limit: f64) -> SimulatedServer {
        SimulatedServer {
            kind,
            service_s: 1e-3,
            quantile,
            limit,
            served: 0.0,
        }
    }

    /// Returns the longest response time that meets the goal, in seconds.
    pub(super) fn limit_s(&self) -> f64 {
        self.limit * self.service_s
    }

    fn service_times(&self, rate: f64, random: &mut Random) -> f64 {
        match self.kind {
            Kind::Exponential => random.exponential(),
            Kind::Constant | Kind::Pauses => 1.0,
            Kind::Cliff if rate * self.service_s > 0.5 => 1e6,
            Kind::Cliff => 0.0,
            Kind::Warming => 1.0 + 0.5 * (-self.served / WARM_UP_REQUESTS).exp(),
        }
    }

    /// Runs a probe with Poisson arrivals.
    pub(super) fn run(&mut self, probe: &Probe, random: &mut Random) -> ProbeResult {
        let Some(rate) = probe.rate_per_s else {
            let achieved = EXPLORED_SHARE / self.service_s;
            self.served += achieved * probe.planned_s();
            return self.result(achieved, achieved, (0, 1), probe.planned_s(), false);
        };
        let gap = PAUSE_GAP * self.service_s;
        let (mut now, mut free_at, mut pause_at) = (0.0, 0.0_f64, gap * random.exponential());
        let (mut all, mut over, mut ended) = (0_u64, 0_u64, 0_u64);
        // End time of each response in flight, and whether the response counts as slow.
        let mut in_flight = std::collections::VecDeque::new();
        let (mut judge_at, mut ended_before) = (JUDGE_INTERVAL_S, 0);
        let (mut end, mut early) = (probe.planned_s(), None);
        loop {
            now += random.exponential() / rate;
            while judge_at < now.min(end) {
                while in_flight.front().is_some_and(|(at, _)| *at <= judge_at) {
                    let (_, counted): (f64, Option<bool>) = in_flight.pop_front().unwrap();
                    ended += 1;
                    all += u64::from(counted.is_some());
                    over += u64::from(counted == Some(true));
                }
                if judge_at <= probe.settle_s {
                    ended_before = ended;
                }
                let progress = ProbeProgress {
                    elapsed_s: judge_at,
                    ended,
                    goals: self.readings(over, all),
                };
                early = probe.early_end(&progress, self.limit_s());
                if early.is_some() {
                    end = judge_at;
                }
                judge_at += JUDGE_INTERVAL_S;
            }
            if now > end {
                break;
            }
            let mut start = free_at.max(now);
            if self.kind == Kind::Pauses && start > pause_at {
                start = start.max(pause_at + PAUSE_LENGTH * self.service_s * random.exponential());
                pause_at = start + gap * random.exponential();
            }
            free_at = start + self.service_s * self.service_times(rate, random);
            self.served += 1.0;
            let is_slow = free_at - now >= self.limit_s();
            in_flight.push_back((free_at, (now >= probe.settle_s).then_some(is_slow)));
        }
        for (at, counted) in in_flight {
            ended += u64::from(at <= end);
            all += u64::from(counted.is_some());
            over += u64::from(counted == Some(true));
        }
        let measured_s = (end - probe.settle_s.min(end)).max(1e-9);
        let achieved = (ended - ended_before.min(ended)) as f64 / measured_s;
        let is_cut = early == Some(EarlyEnd::Unmet) || early == Some(EarlyEnd::Met);
        let offered = all as f64 / measured_s;
        self.result(offered, achieved.min(offered), (over, all), end, is_cut)
    }

    fn result(
        &self,
        offered: f64,
        achieved: f64,
        (over, all): (u64, u64),
        took_s: f64,
        cut_short: bool,
    ) -> ProbeResult {
        ProbeResult {
            offered_per_s: offered,
            achieved_per_s: achieved,
            requests: all,
            limit_s: self.limit_s(),
            goals: self.readings(over, all),
            generator_saturated: false,
            cut_short,
            took_s: took_s + OVERHEAD_S,
        }
    }

    fn readings(&self, over: u64, all: u64) -> Vec<GoalReading> {
        if all == 0 {
            return Vec::new();
        }
        let expected = all as f64 * (1.0 - self.quantile);
        vec![GoalReading {
            met: over as f64 <= expected,
            excess: over as f64 / expected,
            resolution: 0.5 / expected,
            tail: Some(TailCount {
                over,
                all,
                allowed_share: 1.0 - self.quantile,
            }),
            value: 0.0,
        }]
    }
}

/// Returns the share of the responses of an M/D/1 queue with a service time of 1 that take longer
/// than `limit` (Erlang 1909; Crommelin 1932).
pub(super) fn share_over_in_md1(rate: f64, limit: f64) -> f64 {
    let wait = limit - 1.0;
    let (mut sum, mut factorial) = (0.0, 1.0);
    for k in 0..=(wait.floor() as u32) {
        if k > 0 {
            factorial *= f64::from(k);
        }
        let x = rate * (wait - f64::from(k));
        sum += x.exp() * (-x).powi(k as i32) / factorial;
    }
    1.0 - (1.0 - rate) * sum
}

/// Finds, by bisection, the rate between 0 and 1 at which an increasing function reaches `value`.
pub(super) fn rate_where(value: f64, of: impl Fn(f64) -> f64, steps: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..steps {
        let middle = f64::midpoint(low, high);
        if of(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}
