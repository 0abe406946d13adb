//! The flags of `cargo xtask bench`.

use std::path::PathBuf;

use super::rows::{self, ROWS, Row};
use super::tool::{PEERS, Tool};

/// Rows and tools to measure, and the number and duration of the runs.
#[derive(Debug, PartialEq)]
pub(super) struct BenchOptions {
    pub(super) rows: Vec<&'static Row>,
    pub(super) peers: Vec<Tool>,
    /// True to run only the best peer of each row.
    pub(super) best_only: bool,
    /// Number of rotations (at least 1).
    pub(super) rotations: usize,
    /// Duration of a run in seconds (at least 1).
    pub(super) seconds: u32,
    pub(super) seed: u64,
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
                "--rows" => options.rows = rows(value()?)?,
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
        if options.write && options.compares_builds() {
            return Err("the document has no column for an earlier build of prony".to_string());
        }
        Ok(options)
    }

    /// True if an earlier build of prony is compared with a later one.
    pub(super) fn compares_builds(&self) -> bool {
        self.prony.len() > 1
    }

    /// Tools of a row: the floor, prony, its reference, and the requested peers that support it.
    pub(super) fn tools_of(&self, row: &Row) -> Vec<Tool> {
        let wanted = |peer: &Tool| match peer {
            _ if row.references.first() == Some(peer) => true,
            _ if self.best_only => row.quick == Some(*peer),
            _ => self.peers.contains(peer),
        };
        let old = [Tool::OldProny].iter().filter(|_| self.compares_builds());
        let peers = row.peers.iter().filter(|peer| wanted(peer));
        let tools = row.tools.iter().chain(old).chain(peers).copied();
        tools.filter(|tool| tool.supports(row)).collect()
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

fn rows(list: &str) -> Result<Vec<&'static Row>, String> {
    let find = |id| {
        rows::find(id).ok_or_else(|| {
            let ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
            format!("unknown row {id} (available: {})", ids.join(", "))
        })
    };
    list.split(',').map(find).collect()
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
        let quick = BenchOptions::parse(&["--quick"]).unwrap();
        assert_eq!(
            (quick.rows.len(), quick.rotations, quick.seconds),
            (5, 3, 3)
        );
        assert!(!quick.write && quick.best_only);
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
    fn rows_of_all_sections_are_chosen_by_the_same_flag() {
        let list = "fleet-500,ka-1k,open-max,h3-16x32,xdp-ka-13";
        let options = BenchOptions::parse(&["--rows", list]).unwrap();
        let ids: Vec<&str> = options.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids.join(","), list);
        assert!(!options.write);
    }

    fn tools(options: &BenchOptions, id: &str) -> Vec<Tool> {
        options.tools_of(rows::find(id).unwrap())
    }

    #[test]
    fn a_row_always_has_its_reference_and_prony() {
        let options = BenchOptions::parse(&["--peers", "none"]).unwrap();
        for (id, expected) in [
            ("ka-1k", &[Tool::Floor, Tool::Prony][..]),
            ("tls-1k", &[Tool::Prony, Tool::Wrk]),
            ("h2-clear-16x32", &[Tool::Prony, Tool::H2load]),
            ("h3-16x32", &[Tool::Floor, Tool::Prony, Tool::PronyHttp2]),
            ("xdp-ka-13", &[Tool::PronyUring, Tool::Prony, Tool::Wrk]),
            ("open-max", &[Tool::Prony]),
            ("fleet-cost", &[Tool::Prony]),
        ] {
            assert_eq!(tools(&options, id), expected, "{id}");
        }
    }

    #[test]
    fn two_builds_run_in_every_row() {
        let words = ["--peers", "none", "--prony", "old", "--prony", "new"];
        let options = BenchOptions::parse(&words).unwrap();
        for row in ROWS {
            let tools = tools(&options, row.id);
            assert!(tools.contains(&Tool::Prony) && tools.contains(&Tool::OldProny));
        }
        let three = [&words[..], &["--prony", "c"]].concat();
        assert!(BenchOptions::parse(&three).is_err());
        assert!(BenchOptions::parse(&[&words[..], &["--write"]].concat()).is_err());
    }

    #[test]
    fn the_quick_benchmark_has_only_the_best_peer() {
        let options = BenchOptions::parse(&["--quick"]).unwrap();
        assert_eq!(
            tools(&options, "ka-1k"),
            [Tool::Floor, Tool::Prony, Tool::Ab]
        );
        for row in &options.rows {
            assert!((2..=3).contains(&tools(&options, row.id).len()));
        }
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
