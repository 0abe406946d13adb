//! Rows `h3-…`: HTTP/3 against the origin and Caddy.
//!
//! Debian 12's nginx doesn't support QUIC, so these rows use other servers, and each generator
//! counts its own complete requests. The reference is prony over HTTP/2 and TLS on the same server
//! in the same rotation.

mod generators;
mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::{self, End};
use super::programs;
use super::ratios::{RandomNumbers, Spread, shuffle};
use super::server::BenchFolder;
use super::tool::Tool;
use generators::Generator;
use servers::{RunningServer, ServerKind};

/// Time after the planned end of a run at which the generator is killed.
const OVERTIME_MAX: Duration = Duration::from_secs(60);

/// Maximum cost of prony over HTTP/3: first as a ratio to prony over HTTP/2, then as a ratio to
/// oha.
const TARGET_OF_H2: f64 = 1.5;
const TARGET_OF_OHA: f64 = 0.5;

/// A row of the table, with its numbers of connections and streams and the body that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuicRow {
    /// Name of the row on the command line.
    pub(super) id: &'static str,
    /// Name of the row in lists and tables.
    pub(super) title: &'static str,
    connections: u32,
    streams: u32,
    /// Length of a response body.
    bytes: usize,
}

/// Every row, in the table's order.
pub(super) const ROWS: &[QuicRow] = &[
    QuicRow {
        id: "h3-16x32",
        title: "HTTP/3, 16 × 32, 13 bytes",
        connections: 16,
        streams: 32,
        bytes: 13,
    },
    QuicRow {
        id: "h3-16x128",
        title: "HTTP/3, 16 × 128, 13 bytes",
        connections: 16,
        streams: 128,
        bytes: 13,
    },
    QuicRow {
        id: "h3-1x100",
        title: "HTTP/3, 1 × 100, 13 bytes",
        connections: 1,
        streams: 100,
        bytes: 13,
    },
    QuicRow {
        id: "h3-16x8-100k",
        title: "HTTP/3, 16 × 8, 100 KB",
        connections: 16,
        streams: 8,
        bytes: 100_000,
    },
];

/// Rows to measure, number and duration of the runs, and cores to use.
pub(super) struct QuicSettings<'a> {
    pub(super) rows: &'a [QuicRow],
    /// Tools to compare with. Only oha and shb support HTTP/3.
    pub(super) peers: &'a [Tool],
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

/// Cost and rate of a run.
#[derive(Debug, Clone, Copy)]
struct QuicRun {
    cost_us: f64,
    rate_per_s: f64,
}

/// Run of each generator in one rotation. Failed runs are omitted.
type QuicRotation = BTreeMap<Generator, QuicRun>;

/// Results of a row on a server.
struct QuicOutcome {
    row: QuicRow,
    server: ServerKind,
    rotations: Vec<QuicRotation>,
}

/// Results of all rows.
pub(super) struct QuicOutcomes {
    versions: String,
    outcomes: Vec<QuicOutcome>,
}

/// Runs all generators against both servers, in random order within each rotation.
pub(super) fn measure(settings: &QuicSettings, own: &Path) -> Result<QuicOutcomes, String> {
    let here = |e: std::io::Error| format!("{}: {e}", own.display());
    let prony = match settings.prony {
        Some(path) => std::path::absolute(path).map_err(|e| e.to_string())?,
        None => programs::build("prony")?,
    };
    let peer = |tool, find: fn(&Path, bool) -> Option<PathBuf>| match settings.peers.contains(&tool)
    {
        true => find(own, settings.install),
        false => None,
    };
    let oha = peer(Tool::Oha, generators::oha);
    let shb = peer(Tool::Shb, generators::shb);
    let versions = versions(&prony, oha.as_deref(), shb.is_some());
    println!("{versions}");
    let mut generators = BTreeMap::from([
        (Generator::Floor, programs::build("prony-quic-floor")?),
        (Generator::Prony, prony.clone()),
        (Generator::PronyHttp2, prony.clone()),
    ]);
    generators.extend(oha.map(|path| (Generator::Oha, path)));
    generators.extend(shb.map(|path| (Generator::Shb, path)));
    let folder = BenchFolder::new(own).map_err(here)?;
    let mut numbers = RandomNumbers(settings.seed);
    let mut outcomes = Vec::new();
    for &row in settings.rows {
        for server in [ServerKind::Origin, ServerKind::Caddy] {
            let course = QuicRowContext {
                settings,
                row,
                server,
                prony: &prony,
                generators: &generators,
                folder: folder.path(),
            };
            outcomes.extend(course.run(&mut numbers)?);
        }
    }
    Ok(QuicOutcomes { versions, outcomes })
}

fn versions(prony: &Path, oha: Option<&Path>, has_shb: bool) -> String {
    let mut parts = Vec::new();
    for (name, path, argument) in [
        ("prony", Some(prony), "--version"),
        ("oha", oha, "--version"),
        ("Caddy", Some(Path::new("caddy")), "version"),
    ] {
        if let Some(path) = path {
            parts.push(format!("{name} {}", programs::version(path, &[argument])));
        }
    }
    if has_shb {
        parts.push(format!("shb {}", programs::SHB));
    }
    parts.join(", ")
}

/// Settings that all runs of one row on one server share.
struct QuicRowContext<'a> {
    settings: &'a QuicSettings<'a>,
    row: QuicRow,
    server: ServerKind,
    prony: &'a Path,
    generators: &'a BTreeMap<Generator, PathBuf>,
    folder: &'a Path,
}

impl QuicRowContext<'_> {
    /// Runs the row against the server. Returns `None` if the server is not installed.
    fn run(&self, numbers: &mut RandomNumbers) -> Result<Option<QuicOutcome>, String> {
        let (core, _) = self.settings.cores;
        let Some(server) = RunningServer::start(self.server, self.prony, self.folder, core)? else {
            println!(
                "{} is not installed; its rows are omitted",
                self.server.name()
            );
            return Ok(None);
        };
        let mut order: Vec<Generator> = self.generators.keys().copied().collect();
        let mut rotations = Vec::new();
        for number in 1..=self.settings.rotations {
            shuffle(&mut order, numbers);
            let mut rotation = QuicRotation::new();
            for &generator in &order {
                let text = match self.run_generator(generator, &server) {
                    Ok(run) => {
                        rotation.insert(generator, run);
                        format!("{:.2} us {:.0}/s", run.cost_us, run.rate_per_s)
                    }
                    Err(problem) => problem,
                };
                println!(
                    "{:<14} {:<7} {number}/{} {:<10} {text}",
                    self.row.id,
                    self.server.name(),
                    self.settings.rotations,
                    generator.name()
                );
            }
            rotations.push(rotation);
        }
        Ok(Some(QuicOutcome {
            row: self.row,
            server: self.server,
            rotations,
        }))
    }

    /// Runs a generator, and counts its complete requests.
    fn run_generator(
        &self,
        generator: Generator,
        server: &RunningServer,
    ) -> Result<QuicRun, String> {
        let text = |e: std::io::Error| e.to_string();
        let program = self.generators.get(&generator).ok_or("not installed")?;
        let output = self.folder.join("generator.out");
        let record = self.folder.join("record.json");
        let run = generators::GeneratorRun {
            port: server.port,
            path: server.path(self.row.bytes),
            connections: self.row.connections,
            streams: self.row.streams,
            seconds: self.settings.seconds,
            record: &record,
        };
        let mut command = Command::new(program);
        command.args(generator.arguments(&run));
        command.env("HOME", self.folder);
        process::log_into(&mut command, &output).map_err(text)?;
        let time = Duration::from_secs(self.settings.seconds.into());
        let (_, core) = self.settings.cores;
        let end = End::ByItself(time + OVERTIME_MAX);
        let usage = process::run_on(core, end, &mut command).map_err(text)?;
        if !usage.status.success() {
            return Err(format!("{}: {}", generator.name(), usage.status));
        }
        let file = match generator {
            Generator::Prony | Generator::PronyHttp2 => &record,
            Generator::Floor | Generator::Oha | Generator::Shb => &output,
        };
        let written = std::fs::read_to_string(file).map_err(text)?;
        match generator.requests(&written) {
            Some(requests) if requests > 0 => Ok(QuicRun {
                cost_us: usage.cpu.as_secs_f64() * 1e6 / requests as f64,
                rate_per_s: requests as f64 / usage.wall.as_secs_f64(),
            }),
            _ => Err("no complete request".to_owned()),
        }
    }
}

impl QuicOutcome {
    /// Returns prony's cost divided by another generator's, over all rotations in which both
    /// succeeded.
    fn cost_ratio(&self, other: Generator) -> Option<Spread> {
        self.ratio(other, |run| run.cost_us)
    }

    fn ratio(&self, other: Generator, of: impl Fn(&QuicRun) -> f64) -> Option<Spread> {
        Spread::of(self.rotations.iter().filter_map(|rotation| {
            let prony = rotation.get(&Generator::Prony)?;
            Some(of(prony) / of(rotation.get(&other)?))
        }))
    }

    fn is_met(&self) -> bool {
        let at_most = |other, target| self.cost_ratio(other).is_none_or(|it| it.median <= target);
        self.cost_ratio(Generator::PronyHttp2).is_some()
            && at_most(Generator::PronyHttp2, TARGET_OF_H2)
            && at_most(Generator::Oha, TARGET_OF_OHA)
    }
}

impl QuicOutcomes {
    /// Returns true if all targets are met.
    pub(super) fn all_met(&self) -> bool {
        self.outcomes.iter().all(QuicOutcome::is_met)
    }

    /// Renders versions and results as Markdown.
    pub(super) fn render(&self) -> String {
        let mut table =
            "| row | server | prony ÷ floor | prony ÷ oha | prony ÷ shb | rate: prony ÷ \
                         shb | prony ÷ its own HTTP/2 | targets met |\n\
                         |---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for outcome in &self.outcomes {
            let text = |ratio| match ratio {
                None => "–".to_owned(),
                Some(Spread { median, min, max }) => format!("{median:.2} ({min:.2}–{max:.2})"),
            };
            let cell = |other| text(outcome.cost_ratio(other));
            table.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
                outcome.row.title,
                outcome.server.name(),
                cell(Generator::Floor),
                cell(Generator::Oha),
                cell(Generator::Shb),
                text(outcome.ratio(Generator::Shb, |run| run.rate_per_s)),
                cell(Generator::PronyHttp2),
                if outcome.is_met() { "yes" } else { "no" }
            ));
        }
        let rotations = self.outcomes.iter().map(|it| it.rotations.len()).max();
        let rotations = rotations.unwrap_or(0);
        format!("{rotations} rotations; {}.\n\n{table}", self.versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cost_us: f64) -> QuicRun {
        QuicRun {
            cost_us,
            rate_per_s: 1e6 / cost_us,
        }
    }

    fn outcomes(costs: &[(Generator, f64)]) -> QuicOutcomes {
        QuicOutcomes {
            versions: "prony 1".to_owned(),
            outcomes: vec![QuicOutcome {
                row: ROWS[0],
                server: ServerKind::Caddy,
                rotations: vec![costs.iter().map(|&(it, cost)| (it, run(cost))).collect()],
            }],
        }
    }

    #[test]
    fn costs_are_compared_with_each_reference() {
        let found = outcomes(&[
            (Generator::Prony, 6.0),
            (Generator::PronyHttp2, 5.0),
            (Generator::Oha, 15.0),
            (Generator::Shb, 12.0),
        ]);
        let text = found.render();
        assert!(
            text.contains(
                "| – | 0.40 (0.40–0.40) | 0.50 (0.50–0.50) | 2.00 (2.00–2.00) | 1.20 (1.20–1.20) \
                 | yes |"
            ),
            "{text}"
        );
        assert!(found.all_met());
    }

    #[test]
    fn a_missing_reference_or_a_high_cost_misses_the_target() {
        assert!(!outcomes(&[(Generator::Prony, 6.0)]).all_met());
        let high = [(Generator::Prony, 8.0), (Generator::PronyHttp2, 5.0)];
        assert!(!outcomes(&high).all_met());
        let beside_oha = [
            (Generator::Prony, 5.0),
            (Generator::PronyHttp2, 5.0),
            (Generator::Oha, 9.0),
        ];
        assert!(!outcomes(&beside_oha).all_met());
    }
}
