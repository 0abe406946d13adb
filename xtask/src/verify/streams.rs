//! Check: gaps between events are reported as the server made them, with 2,000 streams of 20 events
//! per second on one core.
//!
//! The server is a thread of this process. It sends one event after the other on a fixed schedule
//! and reads the clock before each, so it knows the true gaps, including those that its own delays
//! changed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;

/// Number of streams.
const STREAMS: u32 = 2_000;
/// Time between two events of a stream.
const GAP: Duration = Duration::from_millis(50);
/// Number of streams whose events are due at the same time, so that the server can sleep in between.
const GROUP: u32 = 8;
/// Time from the first request until the events begin.
const FIRST_AFTER: Duration = Duration::from_millis(1_500);
/// Maximum error of a percentile of the gaps, in microseconds.
const ERROR_US_MAX: f64 = 100.0;
/// Number of loads. Other programs on the machine can only add errors, so the best load shows the
/// accuracy.
const LOADS: usize = 3;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Transfer-Encoding: chunked\r\n\r\n";
const EVENT: &[u8] = b"1f\r\ndata: {\"text\":\"one event\"}    \n\r\n1\r\n\n\r\n";

/// Gaps of one load in microseconds: their median, 90th and 99th percentile, and mean.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gaps([f64; 4]);

const NAMES: [&str; 4] = ["p50", "p90", "p99", "mean"];

/// Runs the loads and compares the gaps that prony reports with those of the server.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let prony = &prony.first();
    let loads: Result<Vec<_>, _> = (0..LOADS).map(|_| one_load(prony)).collect();
    Ok(figures(&loads?))
}

/// Runs a load. Returns the reported and the true gaps, the reported event rate, and the share of
/// the time in which the worker was busy.
fn one_load(prony: &Prony) -> Result<(Gaps, Gaps, f64, f64), String> {
    let failed = |error: io::Error| format!("the server of events failed: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let is_over = AtomicBool::new(false);
    let (record, truth) = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &is_over));
        let record = load(prony, address);
        is_over.store(true, Ordering::Relaxed);
        // Wakes the server if it is still waiting for connections.
        drop(TcpStream::connect(address));
        (record, server.join())
    });
    let record = record?;
    let truth = truth.map_err(|_| "the server of events panicked".to_owned())?;
    let truth = Gaps::of(truth.map_err(failed)?);
    let number = |pointer: &str| {
        let found = record.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("the record lacks {pointer}"))
    };
    let mut seen = [0.0; 4];
    for (figure, name) in seen.iter_mut().zip(NAMES) {
        *figure = number(&format!("/events/event_gap_us/{name}"))?;
    }
    let rate = number("/events/events_per_s")?;
    Ok((Gaps(seen), truth, rate, number("/generator/busy_share")?))
}

fn load(prony: &Prony, address: SocketAddr) -> Result<Value, String> {
    let (url, streams) = (format!("http://{address}/"), STREAMS.to_string());
    let args = [
        "load", "--events", "sse", "-c", &streams, "-t", "1", "--cores", "1", "--warmup", "3s",
        "-d", "4s", &url, "--json", "-",
    ];
    // Every stream is cut off by the end of the load, so no request succeeds.
    let output = prony.run(&args, &[0, 1])?;
    serde_json::from_slice(&output.stdout).map_err(|e| format!("the record is not JSON: {e}"))
}

/// Accepts the streams, then sends events until the load is over. Returns the gaps between events of
/// a stream.
fn serve(listener: &TcpListener, is_over: &AtomicBool) -> io::Result<Vec<Duration>> {
    let mut streams = Vec::new();
    while streams.len() < STREAMS as usize {
        let (stream, _) = listener.accept()?;
        if is_over.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    // The load sends its requests when all connections are open.
    for stream in &mut streams {
        let mut request = [0; 1024];
        if stream.read(&mut request)? == 0 {
            return Ok(Vec::new());
        }
        stream.write_all(HEAD)?;
    }
    let begin = Instant::now() + FIRST_AFTER;
    let mut sent: Vec<Option<Instant>> = vec![None; streams.len()];
    let mut gaps = Vec::new();
    for round in 0.. {
        for (number, stream) in (0..).zip(&mut streams) {
            let group = number / GROUP * GROUP;
            wait_until(begin + GAP * round + GAP * group / STREAMS);
            let now = Instant::now();
            // The load ends with open streams.
            if is_over.load(Ordering::Relaxed) || stream.write_all(EVENT).is_err() {
                return Ok(gaps);
            }
            let before = sent[number as usize].replace(now);
            gaps.extend(before.map(|before| now - before));
        }
    }
    Ok(gaps)
}

/// Waits precisely: the last part without sleeping.
fn wait_until(due: Instant) {
    const SPIN: Duration = Duration::from_micros(50);
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN {
            thread::sleep(left - SPIN);
        }
    }
}

impl Gaps {
    fn of(mut gaps: Vec<Duration>) -> Gaps {
        gaps.sort_unstable();
        let us = |gap: Duration| gap.as_secs_f64() * 1e6;
        let at = |quantile: f64| {
            let rank = (quantile * gaps.len() as f64).ceil() as usize;
            gaps.get(rank.saturating_sub(1)).map_or(0.0, |gap| us(*gap))
        };
        let sum: Duration = gaps.iter().sum();
        let mean = us(sum) / gaps.len().max(1) as f64;
        Gaps([at(0.5), at(0.9), at(0.99), mean])
    }

    /// Returns the largest difference of a figure.
    fn error_us(&self, truth: &Gaps) -> f64 {
        let pairs = self.0.iter().zip(truth.0);
        pairs
            .map(|(seen, truth)| (seen - truth).abs())
            .fold(0.0, f64::max)
    }
}

fn figures(loads: &[(Gaps, Gaps, f64, f64)]) -> Vec<CheckFigure> {
    let each = |texts: Vec<String>| texts.join("; ");
    let four = |gaps: &Gaps| gaps.0.map(|us| format!("{us:.0}")).join(", ");
    let errors: Vec<f64> = loads
        .iter()
        .map(|(seen, truth, ..)| seen.error_us(truth))
        .collect();
    let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let rate = f64::from(STREAMS) / GAP.as_secs_f64();
    let rates: Vec<f64> = loads.iter().map(|load| load.2).collect();
    vec![
        CheckFigure::shown(
            format!("true gaps ({}) in µs", NAMES.join(", ")),
            each(loads.iter().map(|(_, truth, ..)| four(truth)).collect()),
        ),
        CheckFigure::shown(
            "reported gaps".to_owned(),
            each(loads.iter().map(|(seen, ..)| four(seen)).collect()),
        ),
        CheckFigure::judged(
            "largest error of a figure (of the best load)",
            format!("at most {ERROR_US_MAX} µs"),
            each(errors.iter().map(|us| format!("{us:.1} µs")).collect()),
            best <= ERROR_US_MAX,
        ),
        CheckFigure::judged(
            "events per second",
            format!("{rate} ± 1%"),
            each(rates.iter().map(|rate| format!("{rate:.0}")).collect()),
            rates.iter().any(|seen| (seen / rate - 1.0).abs() <= 0.01),
        ),
        CheckFigure::shown(
            "busy share of the worker".to_owned(),
            each(
                loads
                    .iter()
                    .map(|load| format!("{:.0}%", load.3 * 100.0))
                    .collect(),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(seen: [f64; 4], rate: f64) -> usize {
        let truth = Gaps([50_000.0, 50_010.0, 50_200.0, 50_000.0]);
        let figures = figures(&[(Gaps(seen), truth, rate, 0.3)]);
        figures.iter().filter(|f| f.holds == Some(false)).count()
    }

    #[test]
    fn wrong_gaps_and_lost_events_fail() {
        let right = [50_003.0, 50_050.0, 50_290.0, 50_001.0];
        assert_eq!(failures(right, 40_010.0), 0);
        assert_eq!(failures(right, 39_000.0), 1);
        assert_eq!(
            failures([50_003.0, 50_050.0, 50_310.0, 50_001.0], 40_000.0),
            1
        );
    }

    #[test]
    fn gaps_have_their_percentiles() {
        let gaps = (1..=100).map(Duration::from_micros).collect();
        assert_eq!(Gaps::of(gaps), Gaps([50.0, 90.0, 99.0, 50.5]));
    }
}
