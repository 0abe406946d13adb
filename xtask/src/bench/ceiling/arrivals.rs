//! Lateness of requests, computed from their arrival times at the server. This module does no I/O.

use std::collections::BTreeMap;

use crate::bench::figures::{Lateness, percentile};

/// Time after the first arrival that is ignored, because tools open their connections then.
const SETTLE_NS: u64 = 1_000_000_000;

/// Time before the last arrival that is ignored, because tools wind down then.
const END_NS: u64 = 100_000_000;

/// Maximum deviation of a schedule's rate from the requested rate, as a fraction. A tool that
/// rounds its intervals deviates slightly from the exact schedule; that isn't lateness.
const RATE_TOLERANCE: f64 = 0.005;

/// Minimum number of requests for computing the lateness on a schedule.
const REQUESTS_MIN: usize = 50;

/// Arrival of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) connection: u32,
    pub(super) at_ns: u64,
}

/// Parses the file of arrivals that the responder wrote.
pub(super) fn parse(bytes: &[u8]) -> Vec<Arrival> {
    let (records, _) = bytes.as_chunks::<12>();
    let arrival = |record: &[u8; 12]| {
        let [a, b, c, d, time @ ..] = *record;
        Arrival {
            connection: u32::from_le_bytes([a, b, c, d]),
            at_ns: u64::from_le_bytes(time),
        }
    };
    records.iter().map(arrival).collect()
}

/// Returns percentiles of the lateness for `connections` connections with a total rate of `rate`
/// requests per second, or an error if the tool didn't keep the rate.
///
/// Some tools have one schedule for all connections, and others have one for each connection. The
/// schedule that fits better is used. It is evenly spaced and starts so that the most punctual
/// request has lateness 0. Arrivals are matched with the schedule in order, so a request that was
/// overtaken counts as less late than it is.
pub(super) fn lateness(
    arrivals: &[Arrival],
    rate: f64,
    connections: u32,
) -> Result<Lateness, String> {
    let first = arrivals.iter().map(|a| a.at_ns).min().unwrap_or(0);
    let last = arrivals.iter().map(|a| a.at_ns).max().unwrap_or(0);
    let judged = first + SETTLE_NS..last.saturating_sub(END_NS);
    let mut all: Vec<u64> = Vec::with_capacity(arrivals.len());
    let mut by_connection: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for arrival in arrivals.iter().filter(|a| judged.contains(&a.at_ns)) {
        all.push(arrival.at_ns);
        let own = by_connection.entry(arrival.connection).or_default();
        own.push(arrival.at_ns);
    }
    let shared = percentiles(delays(&all, rate)?);
    let mut own = Some(Vec::new());
    for times in by_connection.values() {
        let late = delays(times, rate / f64::from(connections)).ok();
        own = own.zip(late).map(|(own, late)| [own, late].concat());
    }
    let own = own.map(percentiles);
    Ok(own.filter(|own| own.p99 < shared.p99).unwrap_or(shared))
}

fn percentiles(mut delays_ns: Vec<f64>) -> Lateness {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| percentile(&mut delays_ns, share) / 1e3);
    Lateness { p50, p99, p999 }
}

/// Lateness of each request in nanoseconds, relative to an evenly spaced schedule.
fn delays(times: &[u64], rate: f64) -> Result<Vec<f64>, String> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Err("no request arrived".to_owned());
    };
    if times.len() < REQUESTS_MIN {
        return Err(format!("only {} requests arrived", times.len()));
    }
    let gap = (last - first) as f64 / (times.len() - 1) as f64;
    let kept = 1e9 / gap / rate;
    if (kept - 1.0).abs() > RATE_TOLERANCE {
        return Err(format!("ran at {:.1}% of the rate", kept * 100.0));
    }
    let offset = |(index, at): (usize, &u64)| (at - first) as f64 - index as f64 * gap;
    let mut offsets: Vec<f64> = times.iter().enumerate().map(offset).collect();
    // Medians are used, because the mean gap would depend on the lateness of the first and the last
    // request.
    let part = offsets.len() / 10;
    let mut ends = [&offsets[offsets.len() - part..], &offsets[..part]].map(<[f64]>::to_vec);
    let drift = percentile(&mut ends[0], 0.5) - percentile(&mut ends[1], 0.5);
    let drift = drift / (offsets.len() - part) as f64;
    for (index, offset) in offsets.iter_mut().enumerate() {
        *offset -= drift * index as f64;
    }
    let earliest = offsets.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(offsets.iter().map(|offset| offset - earliest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Arrivals over 4 s at 10,000 per second. Request `n` is on connection `of(n)` and arrives
    /// `late(n)` nanoseconds after its scheduled time.
    fn arrivals(of: impl Fn(u64) -> u32, late: impl Fn(u64) -> u64) -> Vec<Arrival> {
        let mut all: Vec<Arrival> = (0..40_000)
            .map(|n| Arrival {
                connection: of(n),
                at_ns: SECOND_NS + n * 100_000 + late(n),
            })
            .collect();
        all.sort_by_key(|a| a.at_ns);
        all
    }

    fn late(arrivals: &[Arrival]) -> f64 {
        lateness(arrivals, 10_000.0, 10).unwrap().p99
    }

    #[test]
    fn punctual_requests_are_not_late_on_whatever_connections_they_come() {
        assert!(late(&arrivals(|n| (n % 10) as u32, |_| 0)) < 1.0);
        assert!(late(&arrivals(|n| (n * n % 7) as u32, |_| 0)) < 1.0);
    }

    #[test]
    fn lateness_is_that_of_the_slowest_hundredth() {
        // Every 100 ms, the tool stalls for 2 ms and then sends everything that is due.
        let stall = |n: u64| match n % 1000 {
            due @ ..20 => (19 - due) * 100_000,
            _ => 0,
        };
        let p99 = late(&arrivals(|n| (n * n % 7) as u32, stall));
        assert!((900.0..=1_010.0).contains(&p99), "{p99}");
        let all = lateness(&arrivals(|n| (n * n % 7) as u32, stall), 10_000.0, 10).unwrap();
        assert!(all.p50 < 1.0 && all.p999 > 1_700.0, "{all:?}");
        // Arrivals at the start are ignored.
        let at_start = arrivals(|_| 0, |n| if n < 5_000 { 30_000_000 } else { 0 });
        assert!(late(&at_start) < 1.0);
    }

    #[test]
    fn connections_may_have_schedules_of_their_own() {
        // All ten connections send at the same time, every millisecond.
        let bursts = arrivals(|n| (n % 10) as u32, |n| (9 - n % 10) * 100_000);
        assert!(late(&bursts) < 1.0);
    }

    #[test]
    fn a_tool_that_does_not_keep_the_rate_is_refused() {
        let slow = arrivals(|_| 0, |n| n * 1_000);
        let problem = lateness(&slow, 10_000.0, 10).unwrap_err();
        assert_eq!(problem, "ran at 99.0% of the rate");
        assert!(lateness(&[], 10_000.0, 10).is_err());
        assert!(lateness(&slow[..10], 10_000.0, 10).is_err());
    }

    #[test]
    fn the_file_has_twelve_bytes_per_request() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&7u32.to_le_bytes());
        bytes.extend_from_slice(&(1u64 << 40).to_le_bytes());
        bytes.push(1);
        let expected = Arrival {
            connection: 7,
            at_ns: 1 << 40,
        };
        assert_eq!(parse(&bytes), [expected]);
    }
}
