//! The flags of `cargo xtask bench`.

use std::path::{Path, PathBuf};

use super::bypass::{self, BypassRow};
use super::ceiling;
use super::fleet::{self, FleetRow};
use super::quic::{self, QuicRow};
use super::rows::{ROWS, Row};
use super::tool::{PEERS, Tool};

/// Rows and tools to measure, and the number and duration of the runs.
#[derive(Debug, PartialEq)]
pub(super) struct BenchOptions {
    pub(super) rows: Vec<&'static Row>,
    pub(super) fleet: Vec<FleetRow>,
    /// True to measure the row with the highest sustained rates (`open-max`).
    pub(super) ceiling: bool,
    /// HTTP/3 rows to measure.
    pub(super) quic: Vec<QuicRow>,
    /// AF_XDP rows to measure.
    pub(super) bypass: Vec<BypassRow>,
    pub(super) peers: Vec<Tool>,
    /// True to run only the best peer of each row.
    pub(super) best_only: bool,
    /// Number of rotations (at least 1).
    pub(super) rotations: usize,
    /// Duration of a run in seconds (at least 1).
    pub(super) seconds: u32,
    pub(super) seed: u64,
    /// Path of a prony binary that is already built.
    /// Binaries of prony instead of a new build: one, or an earlier and a later one.
    pub(super) prony: Vec<PathBuf>,
    /// Cores of the server and of the generator.
    pub(super) cores: (usize, usize),
    /// True to install missing programs.
    pub(super) install: bool,
    /// True to write the tables into docs/performance.md.
    pub(super) write: bool,
    /// True to fail if a target is missed.
    pub(super) check: bool,
}

impl BenchOptions {
    /// Parses the flags. Returns a message for the user on error.
    pub(super) fn parse(args: &[&str]) -> Result<BenchOptions, String> {
        let quick = args.contains(&"--quick");
        let is_part = args.iter().any(|a| matches!(*a, "--rows" | "--peers"));
        let mut options = BenchOptions {
            rows: ROWS
                .iter()
                .filter(|r| !quick || r.quick.is_some())
                .collect(),
            fleet: match quick {
                true => Vec::new(),
                false => fleet::ROWS.to_vec(),
            },
            ceiling: !quick,
            quic: match quick {
                true => Vec::new(),
                false => quic::ROWS.to_vec(),
            },
            bypass: match quick {
                true => Vec::new(),
                false => bypass::ROWS.to_vec(),
            },
            peers: PEERS.to_vec(),
            best_only: quick,
            rotations: if quick { 3 } else { 5 },
            seconds: if quick { 3 } else { 6 },
            seed: 1,
            prony: Vec::new(),
            cores: (0, 1),
            install: true,
            write: !quick && !is_part,
            check: false,
        };
        let mut args = args.iter();
        while let Some(&flag) = args.next() {
            let mut value = || {
                let value = args.next().copied();
                value.ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag {
                "--quick" => {}
                "--no-install" => options.install = false,
                "--write" => options.write = true,
                "--check" => options.check = true,
                "--rotations" => options.rotations = at_least_one(flag, value()?)?,
                "--seconds" => options.seconds = at_least_one(flag, value()?)? as u32,
                "--seed" => options.seed = number(flag, value()?)?,
                "--prony" => options.prony.push(PathBuf::from(value()?)),
                "--rows" => {
                    let chosen = rows(value()?)?;
                    options.rows = chosen.rows;
                    options.fleet = chosen.fleet;
                    options.ceiling = chosen.ceiling;
                    options.quic = chosen.quic;
                    options.bypass = chosen.bypass;
                }
                "--peers" => {
                    options.peers = peers(value()?)?;
                    options.best_only = false;
                }
                "--cores" => options.cores = cores(value()?)?,
                other => return Err(format!("unknown argument {other} of cargo xtask bench")),
            }
        }
        if options.prony.len() > 2 {
            return Err("--prony is given at most twice, the earlier build first".to_string());
        }
        if options.write && options.prony.len() > 1 {
            return Err("the document has no column for an earlier build of prony".to_string());
        }
        Ok(options)
    }

    /// The binary of prony to measure; `None` to build it.
    pub(super) fn prony(&self) -> Option<&Path> {
        self.prony.last().map(PathBuf::as_path)
    }
}

fn number(flag: &str, text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{flag} needs a number, not {text}"))
}

fn at_least_one(flag: &str, text: &str) -> Result<usize, String> {
    match number(flag, text)? {
        number @ 1..=3600 => Ok(number as usize),
        _ => Err(format!("{flag} must be between 1 and 3600")),
    }
}

/// Selected rows of all kinds.
#[derive(Default)]
struct ChosenRows {
    rows: Vec<&'static Row>,
    fleet: Vec<FleetRow>,
    ceiling: bool,
    quic: Vec<QuicRow>,
    bypass: Vec<BypassRow>,
}

fn rows(list: &str) -> Result<ChosenRows, String> {
    let mut chosen = ChosenRows::default();
    for id in list.split(',') {
        let row = ROWS.iter().find(|row| row.id == id);
        let of_fleet = fleet::ROWS.iter().find(|row| row.id() == id);
        let of_quic = quic::ROWS.iter().find(|row| row.id == id);
        let of_bypass = bypass::ROWS.iter().find(|row| row.id == id);
        let is_ceiling = id == ceiling::ID;
        let is_other = of_fleet.is_some() || of_quic.is_some() || of_bypass.is_some();
        if row.is_none() && !is_other && !is_ceiling {
            let ids = ROWS.iter().map(|row| row.id);
            let ids = ids.chain(fleet::ROWS.iter().map(|row| row.id()));
            let ids = ids.chain([ceiling::ID]);
            let ids = ids.chain(quic::ROWS.iter().map(|row| row.id));
            let ids: Vec<&str> = ids.chain(bypass::ROWS.iter().map(|row| row.id)).collect();
            return Err(format!("unknown row {id} (available: {})", ids.join(", ")));
        }
        chosen.rows.extend(row);
        chosen.fleet.extend(of_fleet.copied());
        chosen.quic.extend(of_quic);
        chosen.bypass.extend(of_bypass);
        chosen.ceiling |= is_ceiling;
    }
    Ok(chosen)
}

fn peers(list: &str) -> Result<Vec<Tool>, String> {
    if list == "none" {
        return Ok(Vec::new());
    }
    let find = |name: &str| {
        PEERS
            .iter()
            .copied()
            .find(|t| t.name() == name)
            .ok_or_else(|| {
                let names: Vec<&str> = PEERS.iter().map(|t| t.name()).collect();
                format!(
                    "unknown peer {name} (available: {}; \"none\" selects no peer)",
                    names.join(", ")
                )
            })
    };
    list.split(',').map(find).collect()
}

fn cores(list: &str) -> Result<(usize, usize), String> {
    let parsed = list
        .split_once(',')
        .and_then(|(server, generator)| Some((server.parse().ok()?, generator.parse().ok()?)));
    match parsed {
        Some((server, generator)) if server != generator => Ok((server, generator)),
        _ => Err(format!(
            "--cores needs two different cores, one for the server and one for the generator, not {list}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_written_and_a_part_is_not() {
        let whole = BenchOptions::parse(&[]).unwrap();
        assert_eq!(
            (whole.rows.len(), whole.rotations, whole.seconds),
            (ROWS.len(), 5, 6)
        );
        assert!(whole.write && !whole.best_only);
        assert_eq!(whole.fleet, fleet::ROWS);
        let quick = BenchOptions::parse(&["--quick"]).unwrap();
        assert_eq!(
            (quick.rows.len(), quick.rotations, quick.seconds),
            (5, 3, 3)
        );
        assert!(!quick.write && quick.best_only && quick.fleet.is_empty());
        assert!(BenchOptions::parse(&["--quick", "--write"]).unwrap().write);
        assert!(!BenchOptions::parse(&["--rows", "ka-1k"]).unwrap().write);
    }

    #[test]
    fn rows_peers_and_cores_are_chosen() {
        let args = [
            "--rows",
            "ka-1k,close-1k",
            "--peers",
            "ab",
            "--cores",
            "2,3",
        ];
        let options = BenchOptions::parse(&args).unwrap();
        let ids: Vec<&str> = options.rows.iter().map(|r| r.id).collect();
        assert_eq!(ids, ["ka-1k", "close-1k"]);
        assert_eq!(options.peers, [Tool::Ab]);
        assert_eq!(options.cores, (2, 3));
        assert!(
            BenchOptions::parse(&["--peers", "none"])
                .unwrap()
                .peers
                .is_empty()
        );
    }

    #[test]
    fn rows_of_a_fleet_are_chosen_by_the_same_flag() {
        let options = BenchOptions::parse(&["--rows", "fleet-500,ka-1k"]).unwrap();
        assert_eq!(options.fleet, [FleetRow::Many]);
        assert_eq!(options.rows.len(), 1);
        let options = BenchOptions::parse(&["--rows", "ka-1k"]).unwrap();
        assert!(options.fleet.is_empty() && !options.ceiling);
        let options = BenchOptions::parse(&["--rows", "open-max"]).unwrap();
        assert!(options.ceiling && options.rows.is_empty() && !options.write);
        let options = BenchOptions::parse(&["--rows", "h3-16x32"]).unwrap();
        assert_eq!(options.quic, quic::ROWS[..1]);
        assert!(options.rows.is_empty() && !options.ceiling);
        let options = BenchOptions::parse(&["--rows", "xdp-ka-13"]).unwrap();
        assert_eq!(options.bypass.len(), 1);
        assert!(options.quic.is_empty() && !options.write);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for args in [
            &["--rows"][..],
            &["--rows", "ka-2k"],
            &["--peers", "curl"],
            &["--rotations", "0"],
            &["--seconds", "x"],
            &["--cores", "1,1"],
            &["--fast"],
        ] {
            assert!(BenchOptions::parse(args).is_err(), "{args:?}");
        }
    }
}
