//! Rows `xdp-…`: kernel sockets and AF_XDP over a veth pair between two network namespaces.
//!
//! nginx runs on one core, at the far end of the link. The generator runs on another core, at the
//! near end. nginx counts the requests; if a program in the kernel responds instead, prony counts
//! them. Only ratios within a rotation are shown.

mod generators;
mod link;
mod responder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::{self, End};
use super::programs;
use super::ratios::{RandomNumbers, Spread, shuffle};
use super::server::{BenchFolder, Nginx};
use crate::test::install::{find_program, install_missing};
use crate::test::packages::{self, Need};
use generators::{BypassCommand, BypassGenerator};
use link::{Link, SERVER};
use responder::Responder;

/// Time after the planned end of a run at which the generator is killed.
const OVERTIME_MAX: Duration = Duration::from_secs(30);

const MIB: f64 = 1024.0 * 1024.0;

/// Use of connections by the load of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BypassShape {
    KeepAlive,
    /// A new connection for each request.
    Close,
    /// Requests per second of an open loop.
    Paced(u32),
}

/// A requirement for prony over AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Requirement {
    /// Minimum number of requests per second.
    Reaches(f64),
    /// Minimum ratio of prony's requests per second to another generator's.
    Rate(BypassGenerator, f64),
    /// Maximum ratio of prony's CPU time per request to another generator's.
    Cost(BypassGenerator, f64),
    /// Maximum ratio of the CPU time per request with 200,000 source addresses to that with one
    /// source address.
    SourcesCost(f64),
    /// Maximum 99th percentile of start lateness in microseconds.
    LateP99(f64),
    /// Maximum anonymous memory in MiB, not counting the rings.
    Memory(f64),
}

/// A row of the AF_XDP table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BypassRow {
    /// Name of the row on the command line.
    pub(super) id: &'static str,
    /// Name of the row in the tables.
    pub(super) title: &'static str,
    shape: BypassShape,
    connections: u32,
    /// Path of the request to nginx; `None` if the responder in the kernel is the server.
    path: Option<&'static str>,
    generators: &'static [BypassGenerator],
    requirements: &'static [Requirement],
}

/// Every row, in the table's order.
pub(super) const ROWS: &[BypassRow] = &[
    BypassRow {
        id: "xdp-close-1k",
        title: "connection per request, 192, 1K",
        shape: BypassShape::Close,
        connections: 192,
        path: Some("/1k"),
        generators: &[
            BypassGenerator::Wrk,
            BypassGenerator::Uring,
            BypassGenerator::Xdp,
            BypassGenerator::ManySources,
        ],
        requirements: &[
            Requirement::Rate(BypassGenerator::Wrk, 2.5),
            Requirement::Cost(BypassGenerator::Wrk, 0.4),
            Requirement::SourcesCost(1.1),
        ],
    },
    BypassRow {
        id: "xdp-ka-13",
        title: "keep-alive, 64, 13 bytes",
        shape: BypassShape::KeepAlive,
        connections: 64,
        path: Some("/13"),
        generators: &[
            BypassGenerator::Wrk,
            BypassGenerator::Uring,
            BypassGenerator::Xdp,
        ],
        requirements: &[Requirement::Cost(BypassGenerator::Uring, 0.75)],
    },
    BypassRow {
        id: "xdp-open-1k",
        title: "open loop, 20,000/s, 64, 1K",
        shape: BypassShape::Paced(20_000),
        connections: 64,
        path: Some("/1k"),
        generators: &[
            BypassGenerator::Uring,
            BypassGenerator::Xdp,
            BypassGenerator::Spinning,
        ],
        requirements: &[
            Requirement::Cost(BypassGenerator::Uring, 0.5),
            Requirement::LateP99(50.0),
        ],
    },
    BypassRow {
        id: "xdp-many-1k",
        title: "keep-alive, 10,000, 1K",
        shape: BypassShape::KeepAlive,
        connections: 10_000,
        path: Some("/1k"),
        generators: &[
            BypassGenerator::Uring,
            BypassGenerator::Xdp,
            BypassGenerator::OneConnection,
        ],
        requirements: &[Requirement::Memory(16.0)],
    },
    BypassRow {
        id: "xdp-echo",
        title: "keep-alive, 256, a responder in the kernel",
        shape: BypassShape::KeepAlive,
        connections: 256,
        path: None,
        generators: &[BypassGenerator::Xdp, BypassGenerator::Spinning],
        requirements: &[Requirement::Reaches(500_000.0)],
    },
];

/// Rows to measure, number and duration of the runs, and cores to use.
pub(super) struct BypassSettings<'a> {
    pub(super) rows: &'a [BypassRow],
    pub(super) rotations: usize,
    pub(super) seconds: u32,
    pub(super) seed: u64,
    /// Path of a prony binary that is already built.
    pub(super) prony: Option<&'a Path>,
    /// Cores of the server and of the generator.
    pub(super) cores: (usize, usize),
    /// True to install missing programs.
    pub(super) install: bool,
}

/// Measurements of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BypassRun {
    /// CPU time per request, in microseconds.
    cpu_us: f64,
    rate_per_s: f64,
    /// 99th percentile of start lateness in microseconds.
    late_p99_us: Option<f64>,
    /// Highest anonymous memory without the rings, in MiB.
    memory_mib: f64,
}

type BypassRotation = BTreeMap<BypassGenerator, BypassRun>;

/// Results of a row.
struct BypassOutcome {
    row: BypassRow,
    rotations: Vec<BypassRotation>,
}

/// Results of all rows.
pub(super) struct BypassOutcomes {
    versions: String,
    outcomes: Vec<BypassOutcome>,
}

/// Runs all generators of each row, in random order within each rotation.
pub(super) fn measure(settings: &BypassSettings, own: &Path) -> Result<BypassOutcomes, String> {
    let here = |e: std::io::Error| format!("{}: {e}", own.display());
    let prony = match settings.prony {
        Some(path) => std::path::absolute(path).map_err(|e| e.to_string())?,
        None => programs::build("prony")?,
    };
    if settings.install {
        let is_used = |need: &&Need| matches!(need.name, "nginx" | "wrk" | "ip (iproute2)");
        let needs = packages::NEEDS.iter().filter(is_used);
        install_missing(&needs.chain([&packages::ETHTOOL]).collect::<Vec<_>>());
    }
    let nginx = programs::nginx()?;
    let wrk = find_program("wrk");
    let versions = versions(&prony, &nginx, wrk.as_deref());
    println!("{versions}");
    let folder = BenchFolder::new(own).map_err(here)?;
    let responder = match settings.rows.iter().any(|row| row.path.is_none()) {
        true => Some(programs::build("prony-responder")?),
        false => None,
    };
    let link = Link::new()?;
    let mut course = BypassCourse {
        settings,
        prony,
        wrk,
        responder,
        folder: folder.path(),
        nginx: Nginx::start(&nginx, folder.path(), settings.cores.0)?,
        link,
    };
    let mut numbers = RandomNumbers(settings.seed);
    let outcomes = settings.rows.iter();
    let outcomes = outcomes.map(|row| course.measure(row, &mut numbers));
    Ok(BypassOutcomes {
        versions,
        outcomes: outcomes.collect::<Result<_, _>>()?,
    })
}

fn versions(prony: &Path, nginx: &Path, wrk: Option<&Path>) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = vec![
        format!("nginx {}", programs::version(nginx, &["-v"])),
        format!("prony {}", programs::version(prony, &["--version"])),
    ];
    parts.extend(wrk.map(|wrk| format!("wrk {}", programs::version(wrk, &["-v"]))));
    parts.push(format!("Linux {}", kernel.trim()));
    parts.join(", ")
}

/// Environment of the runs.
struct BypassCourse<'a> {
    settings: &'a BypassSettings<'a>,
    prony: PathBuf,
    wrk: Option<PathBuf>,
    responder: Option<PathBuf>,
    folder: &'a Path,
    nginx: Nginx,
    link: Link,
}

impl BypassCourse<'_> {
    fn measure(
        &mut self,
        row: &BypassRow,
        numbers: &mut RandomNumbers,
    ) -> Result<BypassOutcome, String> {
        let _responder = match (row.path, &self.responder) {
            (None, Some(program)) => {
                let core = self.settings.cores.0;
                Some(Responder::start(program, self.folder, core)?)
            }
            _ => None,
        };
        let mut order = row.generators.to_vec();
        let mut rotations = Vec::new();
        for number in 1..=self.settings.rotations {
            shuffle(&mut order, numbers);
            let mut rotation = BypassRotation::new();
            for &generator in &order {
                self.nginx.settle()?;
                let text = match self.run(row, generator) {
                    Ok(run) => {
                        rotation.insert(generator, run);
                        run.to_string()
                    }
                    Err(problem) => problem,
                };
                let (id, name) = (row.id, generator.name());
                let rotations = self.settings.rotations;
                println!("{id:<14} {number}/{rotations} {name:<14} {text}");
            }
            rotations.push(rotation);
        }
        Ok(BypassOutcome {
            row: *row,
            rotations,
        })
    }

    fn run(&mut self, row: &BypassRow, generator: BypassGenerator) -> Result<BypassRun, String> {
        let text = |e: std::io::Error| e.to_string();
        let program = match generator.is_prony() {
            true => &self.prony,
            false => self.wrk.as_ref().ok_or("wrk is not installed")?,
        };
        let record = self.folder.join("record.json");
        let run = BypassCommand {
            url: match row.path {
                Some(path) => format!("http://{SERVER}:{}{path}", self.nginx.clear_port()),
                None => format!("http://{SERVER}:{}/", responder::PORT),
            },
            seconds: self.settings.seconds,
            record: &record,
        };
        let mut command = Command::new(program);
        command.args(generator.arguments(row, &run));
        process::log_into(&mut command, &self.folder.join("generator.out")).map_err(text)?;
        self.link.in_generator(&mut command);
        let time = Duration::from_secs(self.settings.seconds.into());
        let before = self.nginx.page.read()?.requests;
        let end = End::ByItself(time + OVERTIME_MAX);
        let usage = process::run_on(self.settings.cores.1, end, &mut command).map_err(text)?;
        let served = self.nginx.page.read()?.requests - before;
        if !usage.status.success() {
            let said = std::fs::read_to_string(self.folder.join("generator.out"));
            return Err(format!("{}: {}", usage.status, said.unwrap_or_default()));
        }
        let record = match generator.is_prony() {
            true => {
                let written = std::fs::read_to_string(&record).map_err(text)?;
                serde_json::from_str(&written).map_err(|e| e.to_string())?
            }
            false => serde_json::Value::Null,
        };
        let number = |pointer: &str| record.pointer(pointer).and_then(|value| value.as_f64());
        let requests = match row.path {
            Some(_) => served as f64,
            None => number("/totals/ok").unwrap_or(0.0),
        };
        if requests == 0.0 {
            return Err("no request arrived".to_owned());
        }
        let rings = number("/generator/xdp/ring_bytes").unwrap_or(0.0);
        Ok(BypassRun {
            cpu_us: usage.cpu.as_secs_f64() * 1e6 / requests,
            rate_per_s: requests / time.as_secs_f64(),
            late_p99_us: number("/generator/late_us/p99"),
            memory_mib: (usage.anonymous_bytes as f64 - rings) / MIB,
        })
    }
}

impl std::fmt::Display for BypassRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cost, rate, memory) = (self.cpu_us, self.rate_per_s, self.memory_mib);
        write!(f, "{cost:.2} us, {rate:.0}/s, {memory:.1} MiB")?;
        match self.late_p99_us {
            Some(late) => write!(f, ", p99 lateness {late:.0} us"),
            None => Ok(()),
        }
    }
}

impl BypassOutcome {
    fn xdp(&self) -> impl Iterator<Item = (&BypassRotation, &BypassRun)> {
        let rotations = self.rotations.iter();
        rotations.filter_map(|rotation| Some((rotation, rotation.get(&BypassGenerator::Xdp)?)))
    }

    /// Returns the ratio of prony's value over AF_XDP to another generator's value.
    fn ratio(&self, other: BypassGenerator, of: impl Fn(&BypassRun) -> f64) -> Option<Spread> {
        let ratios = self.xdp();
        Spread::of(ratios.filter_map(|(all, run)| Some(of(run) / of(all.get(&other)?))))
    }

    /// Returns the measured value for a requirement, and whether the value meets it.
    fn judged(&self, requirement: Requirement) -> Option<(Spread, bool)> {
        let (found, is_met): (_, fn(f64, f64) -> bool) = match requirement {
            Requirement::Reaches(_) => (
                Spread::of(self.xdp().map(|(_, run)| run.rate_per_s)),
                |a, b| a >= b,
            ),
            Requirement::Rate(other, _) => (self.ratio(other, |run| run.rate_per_s), |a, b| a >= b),
            Requirement::Cost(other, _) => (self.ratio(other, |run| run.cpu_us), |a, b| a <= b),
            Requirement::SourcesCost(_) => {
                let ratios = self.xdp().filter_map(|(all, one)| {
                    let many = all.get(&BypassGenerator::ManySources)?;
                    Some(many.cpu_us / one.cpu_us)
                });
                (Spread::of(ratios), |a, b| a <= b)
            }
            Requirement::LateP99(_) => (
                Spread::of(self.xdp().filter_map(|(_, run)| run.late_p99_us)),
                |a, b| a <= b,
            ),
            Requirement::Memory(_) => (
                Spread::of(self.xdp().map(|(_, run)| run.memory_mib)),
                |a, b| a <= b,
            ),
        };
        let found = found?;
        Some((found, is_met(found.median, requirement.limit())))
    }
}

impl Requirement {
    fn limit(self) -> f64 {
        match self {
            Requirement::Reaches(limit)
            | Requirement::Rate(_, limit)
            | Requirement::Cost(_, limit)
            | Requirement::SourcesCost(limit)
            | Requirement::LateP99(limit)
            | Requirement::Memory(limit) => limit,
        }
    }

    fn text(self) -> String {
        match self {
            Requirement::Reaches(limit) => format!("requests/s ≥ {limit}"),
            Requirement::Rate(other, limit) => format!("requests/s ≥ {limit} × {}", other.name()),
            Requirement::Cost(other, limit) => format!("cost ≤ {limit} × {}", other.name()),
            Requirement::SourcesCost(limit) => {
                format!("cost with 200,000 sources ≤ {limit} × one source")
            }
            Requirement::LateP99(limit) => format!("p99 lateness ≤ {limit} µs"),
            Requirement::Memory(limit) => {
                format!("anonymous memory beyond the rings ≤ {limit} MiB")
            }
        }
    }
}

impl BypassOutcomes {
    /// Returns true if all targets are met.
    pub(super) fn all_met(&self) -> bool {
        self.outcomes.iter().all(|outcome| {
            let requirements = outcome.row.requirements.iter();
            let mut judged = requirements.map(|it| outcome.judged(*it));
            judged.all(|judged| judged.is_some_and(|(_, is_met)| is_met))
        })
    }

    /// Renders versions and results as Markdown.
    pub(super) fn render(&self) -> String {
        let rotations = self.outcomes.iter().map(|it| it.rotations.len()).max();
        let mut text = format!(
            "{} rotations; {}.\n\n| row | target | AF_XDP | met |\n|---|---|---|---|\n",
            rotations.unwrap_or(0),
            self.versions
        );
        for outcome in &self.outcomes {
            for &requirement in outcome.row.requirements {
                let (figure, is_met) = match outcome.judged(requirement) {
                    None => ("–".to_owned(), false),
                    Some((Spread { median, min, max }, is_met)) => {
                        (format!("{median:.2} ({min:.2}–{max:.2})"), is_met)
                    }
                };
                text.push_str(&format!(
                    "| {} | {} | {figure} | {} |\n",
                    outcome.row.title,
                    requirement.text(),
                    if is_met { "yes" } else { "no" }
                ));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu_us: f64, rate_per_s: f64) -> BypassRun {
        BypassRun {
            cpu_us,
            rate_per_s,
            late_p99_us: Some(40.0),
            memory_mib: 10.0,
        }
    }

    #[test]
    fn requirements_are_judged_by_ratios_of_the_same_rotation() {
        let outcome = |xdp: BypassRun, sources: BypassRun| BypassOutcome {
            row: ROWS[0],
            rotations: vec![BypassRotation::from([
                (BypassGenerator::Wrk, run(10.0, 1000.0)),
                (BypassGenerator::Xdp, xdp),
                (BypassGenerator::ManySources, sources),
            ])],
        };
        let outcomes_with = |xdp, sources| BypassOutcomes {
            versions: "prony 1".to_owned(),
            outcomes: vec![outcome(xdp, sources)],
        };
        let outcomes = |xdp| outcomes_with(xdp, xdp);
        let good = outcomes(run(3.0, 3000.0));
        assert!(good.all_met());
        let text = good.render();
        assert!(text.contains("| 3.00 (3.00–3.00) | yes |"), "{text}");
        assert!(
            text.contains("| cost ≤ 0.4 × wrk | 0.30 (0.30–0.30) | yes |"),
            "{text}"
        );
        assert!(!outcomes(run(3.0, 2000.0)).all_met());
        assert!(!outcomes(run(5.0, 3000.0)).all_met());
        assert!(!outcomes_with(run(3.0, 3000.0), run(4.0, 3000.0)).all_met());
        assert!(outcomes_with(run(3.0, 3000.0), run(2.0, 3000.0)).all_met());
        let missing = BypassOutcome {
            rotations: vec![BypassRotation::new()],
            ..outcome(run(3.0, 3000.0), run(3.0, 3000.0))
        };
        assert_eq!(missing.judged(Requirement::LateP99(50.0)), None);
    }
}
