//! Row `open-max`: the highest open-loop rate that a tool sustains on one core.
//!
//! Lateness is measured at the server, not by the tools: `bench/responder` records when each
//! request arrives (see `arrivals`). A tool sustains a rate if its 99th percentile of lateness is
//! at most 1 ms in one of two attempts.

mod arrivals;
mod search;

use std::path::Path;
use std::time::Instant;

use super::engine::{Contest, Run};
use super::figures::{Measure, Values};
use super::rows::{ConnectionUse, Row};
use super::runner::Runner;
use super::server::Server;
use super::server::plain::PlainServer;
use super::tool::Tool;

/// Maximum 99th percentile of lateness, in microseconds.
const LATE_P99_MAX_US: f64 = 1_000.0;

/// Duration of a probe in seconds; the first second is ignored.
const PROBE_SECONDS: u32 = 3;

/// Searches the highest rate of each tool.
pub(super) struct CeilingContest<'a> {
    pub(super) row: &'static Row,
    /// Path of the responder.
    pub(super) responder: &'a Path,
    pub(super) runner: Runner<'a>,
    /// Core of the responder.
    pub(super) server_core: usize,
}

/// Result of one rate.
struct ProbeResult {
    /// The 99th percentile of lateness in microseconds; an error if the tool failed or didn't keep
    /// the rate.
    late_p99_us: Result<f64, String>,
    /// Utilization of the responder's core, in percent.
    server_percent: f64,
}

impl Contest for CeilingContest<'_> {
    fn run(&mut self, tool: Tool) -> Result<Run, String> {
        let probe = |rate| {
            let failed = |problem| ProbeResult {
                late_p99_us: Err(problem),
                server_percent: 0.0,
            };
            let result = self.probe(tool, rate).unwrap_or_else(failed);
            let text = match &result.late_p99_us {
                Ok(late) => format!("p99 lateness {late:.0} us"),
                Err(problem) => problem.clone(),
            };
            let (name, percent) = (tool.name(), result.server_percent);
            println!("    {name:<8} {rate:>7}/s  {text}, server {percent:.0}%");
            result
        };
        highest_rate(probe).map(Run::of)
    }
}

/// Searches the highest rate, and the highest utilization of the server at a rate that was missed.
fn highest_rate(mut probe: impl FnMut(u32) -> ProbeResult) -> Result<Values, String> {
    let mut busiest_miss: f64 = 0.0;
    let rate = search::highest(|rate| {
        let result = probe(rate);
        let kept = matches!(result.late_p99_us, Ok(late) if late <= LATE_P99_MAX_US);
        if !kept {
            busiest_miss = busiest_miss.max(result.server_percent);
        }
        kept
    });
    let rate = rate.ok_or("could not sustain any rate")?;
    Ok(Values::from([
        (Measure::Rate, f64::from(rate)),
        (Measure::ServerShare, busiest_miss),
    ]))
}

impl CeilingContest<'_> {
    fn probe(&self, tool: Tool, rate: u32) -> Result<ProbeResult, String> {
        let folder = self.runner.folder;
        let mut server = PlainServer::arrivals(self.responder, folder, self.server_core)?;
        let row = Row {
            shape: ConnectionUse::Paced(rate),
            ..*self.row
        };
        let endpoint = server.endpoint(&row);
        let started = Instant::now();
        let ran = self
            .runner
            .drive(&row, tool, &endpoint, PROBE_SECONDS, |_| Ok(()));
        let wall = started.elapsed();
        let (served, bytes) = server.stop(folder)?;
        ran?;
        let arrivals = arrivals::parse(&bytes);
        Ok(ProbeResult {
            late_p99_us: arrivals::late_p99_us(&arrivals, f64::from(rate), row.connections),
            server_percent: served.cpu.as_secs_f64() * 100.0 / wall.as_secs_f64().max(0.001),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_judged_at_the_rates_that_were_missed() {
        let probe = |rate: u32| ProbeResult {
            late_p99_us: match rate {
                ..=20_000 => Ok(900.0),
                20_001..=24_000 => Ok(1_100.0),
                _ => Err("ran at 90% of the rate".to_owned()),
            },
            server_percent: f64::from(rate) / 1_000.0,
        };
        let values = highest_rate(probe).unwrap();
        let rate = values[&Measure::Rate];
        assert!((18_000.0..=20_000.0).contains(&rate), "{rate}");
        assert_eq!(values[&Measure::ServerShare], 32.0);
        let never = |_| ProbeResult {
            late_p99_us: Ok(2_000.0),
            server_percent: 0.0,
        };
        assert_eq!(
            highest_rate(never).unwrap_err(),
            "could not sustain any rate"
        );
    }
}
