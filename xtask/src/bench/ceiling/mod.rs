//! Row `open-max`: the highest open-loop rate that a tool sustains on one core.
//!
//! Lateness is measured at the server, not by the tools: `bench/responder` records when each
//! request arrives (see `arrivals`). A tool sustains a rate if its 99th percentile of lateness is
//! at most 1 ms in one of two attempts.

mod arrivals;
mod search;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{self, End};
use super::programs;
use super::ratios::{RandomNumbers, Spread, shuffle};
use super::rotation::{K6_SCRIPT, VEGETA_TARGETS, write_tool_files};
use super::rows::{ConnectionUse, ROWS, Row};
use super::server::BenchFolder;
use super::tool::{PEERS, Tool};
use super::tools::RunParameters;

/// Name of the row on the command line.
pub(super) const ID: &str = "open-max";
/// Title of the row in the list of rows.
pub(super) const TITLE: &str = "highest rate of an open loop with p99 lateness ≤ 1 ms";

/// Maximum 99th percentile of lateness, in microseconds.
const LATE_P99_MAX_US: f64 = 1_000.0;

/// Duration of a probe in seconds; the first second is ignored.
const PROBE_SECONDS: u32 = 3;

/// Time after the planned end of a probe at which the tool is killed.
const OVERTIME_MAX: Duration = Duration::from_secs(10);

/// Time limit for the responder to start, and to end.
const RESPONDER_TIMEOUT: Duration = Duration::from_secs(10);

/// If the responder uses more than this fraction of its core, it may be the bottleneck.
const BUSY_SHARE: f64 = 0.9;

/// Highest rate that a tool sustained in one rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ceiling {
    rate: u32,
    /// True if the responder's core was busy at a rate that the tool missed, so the tool might be
    /// faster than measured.
    server_limited: bool,
}

/// Results of all rotations.
pub(super) struct Ceilings {
    versions: String,
    /// The tools that ran, prony included.
    tools: Vec<Tool>,
    /// For each rotation, the tools that sustained any rate.
    rotations: Vec<BTreeMap<Tool, Ceiling>>,
}

/// Tools to measure, number of rotations, and cores to use.
pub(super) struct CeilingSettings<'a> {
    pub(super) peers: &'a [Tool],
    pub(super) rotations: usize,
    pub(super) seed: u64,
    /// Path of a prony binary that is already built.
    pub(super) prony: &'a [PathBuf],
    /// Cores of the server and of the generator.
    pub(super) cores: (usize, usize),
    /// True to install missing programs.
    pub(super) install: bool,
}

/// Finds the highest rate that each suitable tool sustains. Each rotation runs the tools in another
/// random order.
pub(super) fn measure(settings: &CeilingSettings, own: &Path) -> Result<Ceilings, String> {
    let peers: Vec<Tool> = PEERS
        .iter()
        .copied()
        .filter(|tool| settings.peers.contains(tool) && tool.unfit(row()).is_none())
        .collect();
    let programs = programs::gather(&peers, settings.prony, own, settings.install)?;
    let versions = programs::versions(&programs);
    println!("{versions}");
    let here = |e: std::io::Error| format!("{}: {e}", own.display());
    let folder = BenchFolder::new(own).map_err(here)?;
    let course = ProbeContext {
        responder: programs::build("prony-responder")?,
        programs: &programs.tools,
        folder: folder.path(),
        cores: settings.cores,
    };
    let mut tools: Vec<Tool> = programs.tools.keys().copied().collect();
    // The floor program sends at timer ticks and has no schedule.
    tools.retain(|tool| *tool != Tool::Floor);
    let mut numbers = RandomNumbers(settings.seed);
    let mut rotations = Vec::new();
    for number in 1..=settings.rotations {
        shuffle(&mut tools, &mut numbers);
        let mut rotation = BTreeMap::new();
        for &tool in &tools {
            let ceiling = course.ceiling(tool);
            let text = match ceiling {
                Some(Ceiling {
                    rate,
                    server_limited,
                }) => {
                    let sign = if server_limited { "≥ " } else { "" };
                    format!("{sign}{rate}/s")
                }
                None => "could not sustain any rate".to_owned(),
            };
            println!(
                "{ID:<14} {number}/{} {:<8} {text}",
                settings.rotations,
                tool.name()
            );
            rotation.extend(ceiling.map(|ceiling| (tool, ceiling)));
        }
        rotations.push(rotation);
    }
    Ok(Ceilings {
        versions,
        tools,
        rotations,
    })
}

/// The row that defines connections and path of all probes. Each probe sets the rate.
fn row() -> &'static Row {
    let mut rows = ROWS.iter();
    let open = rows.find(|row| matches!(row.shape, ConnectionUse::Paced(_)));
    open.unwrap_or(&ROWS[0])
}

/// Environment that all probes share.
struct ProbeContext<'a> {
    responder: PathBuf,
    programs: &'a BTreeMap<Tool, PathBuf>,
    folder: &'a Path,
    /// Cores of the responder and of the generator.
    cores: (usize, usize),
}

struct ProbeResult {
    /// The 99th percentile of lateness in microseconds; an error if the tool failed or didn't keep
    /// the rate.
    late_p99_us: Result<f64, String>,
    /// Utilization of the responder's core, as a fraction.
    server_share: f64,
}

impl ProbeContext<'_> {
    fn ceiling(&self, tool: Tool) -> Option<Ceiling> {
        let mut busiest_miss: f64 = 0.0;
        let rate = search::highest(|rate| {
            let probe = self
                .probe(tool, rate)
                .unwrap_or_else(|problem| ProbeResult {
                    late_p99_us: Err(problem),
                    server_share: 0.0,
                });
            let kept = matches!(probe.late_p99_us, Ok(late) if late <= LATE_P99_MAX_US);
            if !kept {
                busiest_miss = busiest_miss.max(probe.server_share);
            }
            let text = match &probe.late_p99_us {
                Ok(late) => format!("p99 lateness {late:.0} us"),
                Err(problem) => problem.clone(),
            };
            let share = probe.server_share * 100.0;
            println!(
                "    {:<8} {rate:>7}/s  {text}, server {share:.0}%",
                tool.name()
            );
            kept
        });
        rate.map(|rate| Ceiling {
            rate,
            server_limited: busiest_miss >= BUSY_SHARE,
        })
    }

    fn probe(&self, tool: Tool, rate: u32) -> Result<ProbeResult, String> {
        let (server_core, generator_core) = self.cores;
        let program = self.programs.get(&tool).ok_or("not installed")?;
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let file = self.folder.join("arrivals");
        let text = |e: std::io::Error| e.to_string();
        let mut command = Command::new(&self.responder);
        command.arg(format!("127.0.0.1:{port}")).arg(&file);
        let responder =
            process::start_on(server_core, libc::SIGKILL, &mut command).map_err(text)?;
        let listens = wait_until_it_listens(port);
        let row = Row {
            shape: ConnectionUse::Paced(rate),
            path: "/",
            ..*row()
        };
        let url = format!("http://127.0.0.1:{port}/");
        let [record, k6_script, vegeta_targets] = ["record.json", K6_SCRIPT, VEGETA_TARGETS]
            .map(|name| self.folder.join(name).display().to_string());
        write_tool_files(self.folder, &url).map_err(text)?;
        let parameters = RunParameters {
            url: &url,
            address: "127.0.0.1",
            port,
            seconds: PROBE_SECONDS,
            record: &record,
            siege_keeps: "",
            siege_closes: "",
            k6_script: &k6_script,
            vegeta_targets: &vegeta_targets,
        };
        let mut command = Command::new(program);
        command.args(tool.arguments(&row, &parameters));
        command.env("HOME", self.folder);
        let log = self.folder.join(format!("{}.log", tool.name()));
        process::log_into(&mut command, &log).map_err(text)?;
        let time = Duration::from_secs(PROBE_SECONDS.into());
        let started = Instant::now();
        let ran = listens.and_then(|()| {
            let end = End::ByItself(time + OVERTIME_MAX);
            process::run_on(generator_core, end, &mut command).map_err(text)
        });
        let wall = started.elapsed();
        let served = process::terminate_and_wait(&responder, RESPONDER_TIMEOUT).map_err(text)?;
        let usage = ran?;
        if !usage.status.success() {
            return Err(format!("{}: {}", tool.name(), usage.status));
        }
        let bytes = std::fs::read(&file).map_err(text)?;
        let arrivals = arrivals::parse(&bytes);
        Ok(ProbeResult {
            late_p99_us: arrivals::late_p99_us(&arrivals, f64::from(rate), row.connections),
            server_share: served.cpu.as_secs_f64() / wall.as_secs_f64().max(0.001),
        })
    }
}

fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn wait_until_it_listens(port: u16) -> Result<(), String> {
    let started = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if started.elapsed() > RESPONDER_TIMEOUT {
            return Err("the responder does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl Ceilings {
    /// Ratio of prony's rate to a tool's, over all rotations in which both sustained a rate, and
    /// whether the responder limited prony in any of these rotations.
    fn lead(&self, tool: Tool) -> Option<(Spread, bool)> {
        let pairs = || {
            let pair = |r: &BTreeMap<Tool, Ceiling>| Some((*r.get(&Tool::Prony)?, *r.get(&tool)?));
            self.rotations.iter().filter_map(pair)
        };
        let ratio = |(own, other): (Ceiling, Ceiling)| f64::from(own.rate) / f64::from(other.rate);
        let spread = Spread::of(pairs().map(ratio))?;
        Some((spread, pairs().any(|(own, _)| own.server_limited)))
    }

    fn has_kept_a_rate(&self, tool: Tool) -> bool {
        self.rotations.iter().any(|rates| rates.contains_key(&tool))
    }

    /// Returns true if prony sustained a rate and its median ratio to every tool is at least 1.
    pub(super) fn all_met(&self) -> bool {
        let mut leads = PEERS.iter().filter_map(|&tool| self.lead(tool));
        self.has_kept_a_rate(Tool::Prony) && leads.all(|(spread, _)| spread.median >= 1.0)
    }

    /// Renders versions and results as Markdown.
    pub(super) fn render(&self) -> String {
        let mut table =
            "| tool | prony's highest rate ÷ the tool's | prony ahead |\n|---|---|---|\n"
                .to_owned();
        for &tool in PEERS.iter().filter(|tool| self.tools.contains(tool)) {
            let name = tool.name();
            let Some((spread, server_limited)) = self.lead(tool) else {
                let (result, ahead) = match self.has_kept_a_rate(Tool::Prony) {
                    true => ("the tool could not sustain any rate", "yes"),
                    false => ("prony could not sustain any rate", "no"),
                };
                table.push_str(&format!("| {name} | {result} | {ahead} |\n"));
                continue;
            };
            let Spread { median, min, max } = spread;
            let sign = if server_limited { "≥ " } else { "" };
            let ahead = if median >= 1.0 { "yes" } else { "no" };
            table.push_str(&format!(
                "| {name} | {sign}{median:.2} ({min:.2}–{max:.2}) | {ahead} |\n"
            ));
        }
        let rotations = self.rotations.len();
        format!("{rotations} rotations; {}.\n\n{table}", self.versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(rates: &[(Tool, u32)]) -> Ceilings {
        let ceiling = |&(tool, rate): &(Tool, u32)| {
            let server_limited = rate > 90_000;
            (
                tool,
                Ceiling {
                    rate,
                    server_limited,
                },
            )
        };
        Ceilings {
            versions: String::new(),
            tools: vec![Tool::Prony, Tool::Oha, Tool::Vegeta, Tool::Zrk],
            rotations: vec![rates.iter().map(ceiling).collect()],
        }
    }

    #[test]
    fn a_limit_of_the_server_makes_the_lead_a_lower_bound() {
        let found = ceilings(&[(Tool::Prony, 100_000), (Tool::Oha, 40_000)]);
        assert!(
            found
                .render()
                .contains("| oha | ≥ 2.50 (2.50–2.50) | yes |")
        );
        assert!(
            found
                .render()
                .contains("| vegeta | the tool could not sustain any rate | yes |")
        );
        assert!(found.all_met());
    }

    #[test]
    fn a_faster_peer_misses_the_target() {
        let found = ceilings(&[(Tool::Prony, 40_000), (Tool::Zrk, 50_000)]);
        assert!(found.render().contains("| zrk | 0.80 (0.80–0.80) | no |"));
        assert!(!found.all_met());
        assert!(!ceilings(&[(Tool::Oha, 40_000)]).all_met());
    }
}
