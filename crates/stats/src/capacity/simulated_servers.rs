//! Servers in virtual time. One request is served at a time, in the order of arrival.

use super::{GoalReading, Probe, ProbeResult};

/// A reproducible stream of random numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }
}

/// A kind of server. The mean service time is 1 s.
#[derive(Debug, Clone, Copy)]
pub(super) enum Server {
    /// Exponential service times.
    Exponential,
    /// Constant service times.
    Constant,
    /// Constant service times, and a pause of 5 s on average every 300 s, at random times.
    Pauses,
    /// Responds at once, up to a rate of 0.5 per second; above it, much later than any goal.
    Cliff,
}

/// Simulates a probe with Poisson arrivals, and reads one goal: `quantile` of the response times is
/// below `limit_s`.
pub(super) fn simulate(
    server: Server,
    probe: &Probe,
    (quantile, limit_s): (f64, f64),
    random: &mut Random,
) -> ProbeResult {
    let rate = probe.rate_per_s.unwrap_or(1.0);
    let end = probe.settle_s + probe.measure_s;
    let (mut now, mut free_at, mut pause_at) = (0.0, 0.0_f64, 300.0 * random.exponential());
    let (mut all, mut over) = (0_u64, 0_u64);
    loop {
        now += random.exponential() / rate;
        if now > end {
            break;
        }
        let service = match server {
            Server::Exponential => random.exponential(),
            Server::Constant | Server::Pauses => 1.0,
            Server::Cliff if rate > 0.5 => 1e6,
            Server::Cliff => 0.0,
        };
        let mut start = free_at.max(now);
        if matches!(server, Server::Pauses) && start > pause_at {
            start = start.max(pause_at + 5.0 * random.exponential());
            pause_at = start + 300.0 * random.exponential();
        }
        free_at = start + service;
        if now >= probe.settle_s {
            all += 1;
            over += u64::from(free_at - now >= limit_s);
        }
    }
    let expected = all as f64 * (1.0 - quantile);
    ProbeResult {
        offered_per_s: rate,
        achieved_per_s: rate.min(1.0),
        requests: all,
        goals: vec![GoalReading {
            met: over as f64 <= expected,
            excess: over as f64 / expected,
            resolution: 0.5 / expected,
            text: String::new(),
        }],
        generator_saturated: false,
    }
}

/// The share of responses of an M/D/1 queue with a service time of 1 that take longer than `limit`
/// (Erlang 1909; Crommelin 1932).
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

/// The rate at which a rising function reaches `value`, between 0 and 1, by bisection.
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
