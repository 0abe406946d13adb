//! The rows `open-max`: the highest open-loop rate that a tool sustains on one core, and its
//! lateness at each rate that was tried.
//!
//! Lateness is measured at the server, not by the tools: `bench/responder` records when each
//! request arrives (see `arrivals`). The responder in the kernel is faster and records nothing, so
//! only prony runs against it, and prony's record has the lateness. A tool sustains a rate if its
//! 99th percentile of lateness is at most 1 ms in one of two attempts.

mod arrivals;
mod search;

use std::path::Path;
use std::time::Instant;

use super::engine::{Contest, Run};
use super::figures::{Lateness, LatenessCurve, Measure, Values, add_point};
use super::rows::{ConnectionUse, Row, ServerKind};
use super::runner::{Runner, kept_percent};
use super::server::Server;
use super::server::plain::PlainServer;
use super::tool::Tool;

/// Maximum 99th percentile of lateness, in microseconds.
pub(super) const LATE_P99_MAX_US: f64 = 1_000.0;

/// Duration of a probe in seconds; the first second is ignored.
const PROBE_SECONDS: u32 = 3;

/// Minimum percentage of the requested rate. What is missing was late without end.
const KEPT_MIN: f64 = 99.5;

/// Searches the highest rate of each tool.
pub(super) struct CeilingContest<'a> {
    pub(super) row: &'static Row,
    pub(super) kind: ServerKind,
    /// Path of the responder.
    pub(super) responder: &'a Path,
    pub(super) runner: Runner<'a>,
    /// Core of the responder.
    pub(super) server_core: usize,
}

/// Result of one rate.
struct ProbeResult {
    /// An error if the tool failed or didn't keep the rate.
    late: Result<Lateness, String>,
    /// Utilization of the responder's core, in percent; 0 if it is unknown.
    server_percent: f64,
}

impl Contest for CeilingContest<'_> {
    fn run(&mut self, tool: Tool) -> Result<Run, String> {
        let probe = |rate| {
            let failed = |problem| ProbeResult {
                late: Err(problem),
                server_percent: 0.0,
            };
            let result = self.probe(tool, rate).unwrap_or_else(failed);
            let text = match &result.late {
                Ok(Lateness { p50, p99, p999 }) => {
                    format!("lateness p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0} us")
                }
                Err(problem) => problem.clone(),
            };
            let (name, percent) = (tool.name(), result.server_percent);
            println!("    {name:<8} {rate:>7}/s  {text}, server {percent:.0}%");
            result
        };
        Ok(highest_rate(probe))
    }
}

/// Searches the highest rate, and the highest utilization of the server at a rate that was missed.
/// Without a sustained rate, the result has only the lateness.
fn highest_rate(mut probe: impl FnMut(u32) -> ProbeResult) -> Run {
    let mut busiest_miss: f64 = 0.0;
    let mut curve = LatenessCurve::new();
    let rate = search::highest(|rate| {
        let result = probe(rate);
        if let Ok(late) = result.late {
            add_point(&mut curve, rate, late);
            if late.p99 <= LATE_P99_MAX_US {
                return true;
            }
        }
        busiest_miss = busiest_miss.max(result.server_percent);
        false
    });
    let mut values = Values::from([(Measure::ServerShare, busiest_miss)]);
    values.extend(rate.map(|rate| (Measure::Rate, f64::from(rate))));
    Run {
        curve,
        ..Run::of(values)
    }
}

impl CeilingContest<'_> {
    fn probe(&self, tool: Tool, rate: u32) -> Result<ProbeResult, String> {
        let row = Row {
            shape: ConnectionUse::Paced(rate),
            ..*self.row
        };
        match self.kind {
            ServerKind::FarKernel => self.probe_kernel(tool, &row),
            _ => self.probe_arrivals(tool, &row, rate),
        }
    }

    fn probe_arrivals(&self, tool: Tool, row: &Row, rate: u32) -> Result<ProbeResult, String> {
        let folder = self.runner.folder;
        let mut server = PlainServer::arrivals(self.responder, folder, self.server_core)?;
        let endpoint = server.endpoint(row);
        let started = Instant::now();
        let ran = self
            .runner
            .drive(row, tool, &endpoint, PROBE_SECONDS, |_| Ok(()));
        let wall = started.elapsed();
        let (served, bytes) = server.stop(folder)?;
        ran?;
        let arrivals = arrivals::parse(&bytes);
        Ok(ProbeResult {
            late: arrivals::lateness(&arrivals, f64::from(rate), row.connections),
            server_percent: served.cpu.as_secs_f64() * 100.0 / wall.as_secs_f64().max(0.001),
        })
    }

    fn probe_kernel(&self, tool: Tool, row: &Row) -> Result<ProbeResult, String> {
        let runner = &self.runner;
        let mut server = PlainServer::far_kernel(self.responder, runner.folder, self.server_core)?;
        let endpoint = server.endpoint(row);
        let prepare = |command: &mut _| server.prepare(command);
        runner.drive(row, tool, &endpoint, PROBE_SECONDS, prepare)?;
        let report = runner.report(tool)?;
        let requests = tool.requests(&report).ok_or("no request arrived")?;
        let kept = kept_percent(row, requests, PROBE_SECONDS).unwrap_or_default();
        let late = match lateness_of_record(&report) {
            _ if kept < KEPT_MIN => Err(format!("ran at {kept:.1}% of the rate")),
            late => late.ok_or_else(|| "the record has no lateness".to_owned()),
        };
        Ok(ProbeResult {
            late,
            server_percent: 0.0,
        })
    }
}

/// Reads the lateness from prony's record.
fn lateness_of_record(record: &str) -> Option<Lateness> {
    let record: serde_json::Value = serde_json::from_str(record).ok()?;
    let late = record.pointer("/generator/late_us")?;
    let number = |name| late.get(name)?.as_f64();
    Some(Lateness {
        p50: number("p50")?,
        p99: number("p99")?,
        p999: number("p99_9")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(p99: f64) -> Result<Lateness, String> {
        Ok(Lateness {
            p50: p99 / 10.0,
            p99,
            p999: p99 * 2.0,
        })
    }

    #[test]
    fn the_server_is_judged_at_the_rates_that_were_missed() {
        let probe = |rate: u32| ProbeResult {
            late: match rate {
                ..=20_000 => late(900.0),
                20_001..=24_000 => late(1_100.0),
                _ => Err("ran at 90% of the rate".to_owned()),
            },
            server_percent: f64::from(rate) / 1_000.0,
        };
        let run = highest_rate(probe);
        let rate = run.values[&Measure::Rate];
        assert!((18_000.0..=20_000.0).contains(&rate), "{rate}");
        assert_eq!(run.values[&Measure::ServerShare], 32.0);
        assert_eq!(run.curve[&16_000].p999, 1_800.0);
        assert!(!run.curve.contains_key(&32_000));
    }

    #[test]
    fn a_tool_that_sustains_no_rate_has_its_best_lateness_at_each() {
        let mut attempts = 0.0;
        let run = highest_rate(|_| {
            attempts += 1.0;
            ProbeResult {
                late: late(5_000.0 - 100.0 * attempts),
                server_percent: 0.0,
            }
        });
        assert!(!run.values.contains_key(&Measure::Rate));
        // Each rate was tried twice.
        assert_eq!(run.curve[&8_000].p99, 4_800.0);
        assert_eq!(run.curve[&250].p99, 3_800.0);
    }

    #[test]
    fn the_record_has_the_lateness_of_a_load() {
        let record = r#"{"generator":{"late_us":{"p50":1.5,"p99":20,"p99_9":300}}}"#;
        let found = lateness_of_record(record).unwrap();
        assert_eq!((found.p50, found.p99, found.p999), (1.5, 20.0, 300.0));
        assert_eq!(lateness_of_record("{}"), None);
    }
}
