//! The generators in the AF_XDP rows, and their command lines.

use std::path::Path;

use super::link::SOURCES;
use super::{BypassRow, BypassShape};

/// A generator in the AF_XDP rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BypassGenerator {
    Wrk,
    /// prony over io_uring.
    Uring,
    /// prony over AF_XDP.
    Xdp,
    /// prony over AF_XDP with busy polling.
    Spinning,
    /// prony over AF_XDP with 200,000 source addresses.
    ManySources,
    /// prony over AF_XDP with one connection.
    OneConnection,
}

/// Parameters of a run.
pub(super) struct BypassCommand<'a> {
    pub(super) url: String,
    pub(super) seconds: u32,
    /// Path of prony's record.
    pub(super) record: &'a Path,
}

impl BypassGenerator {
    pub(super) fn name(self) -> &'static str {
        match self {
            BypassGenerator::Wrk => "wrk",
            BypassGenerator::Uring => "io_uring",
            BypassGenerator::Xdp => "xdp",
            BypassGenerator::Spinning => "xdp, spinning",
            BypassGenerator::ManySources => "xdp, sources",
            BypassGenerator::OneConnection => "xdp, 1",
        }
    }

    pub(super) fn is_prony(self) -> bool {
        self != BypassGenerator::Wrk
    }

    /// Arguments of a run with one thread.
    pub(super) fn arguments(self, row: &BypassRow, run: &BypassCommand) -> Vec<String> {
        let BypassCommand {
            url,
            seconds,
            record,
        } = run;
        let connections = match self {
            BypassGenerator::OneConnection => 1,
            _ => row.connections,
        };
        let mut words: Vec<String> = Vec::new();
        let mut add = |line: &str| words.extend(line.split_whitespace().map(str::to_owned));
        if self == BypassGenerator::Wrk {
            add(&format!("-t1 -c{connections} -d{seconds}s"));
            if row.shape == BypassShape::Close {
                words.extend(["-H", "Connection: close"].map(str::to_owned));
            }
            words.push(url.clone());
            return words;
        }
        add(&format!(
            "load --progress none -t 1 -c {connections} -d {seconds}s --json {}",
            record.display()
        ));
        match row.shape {
            BypassShape::KeepAlive => {}
            BypassShape::Close => add("--no-keepalive"),
            BypassShape::Paced(rate) => add(&format!("-r {rate}")),
        }
        match self {
            BypassGenerator::Wrk | BypassGenerator::Uring => add("--io uring"),
            BypassGenerator::Xdp | BypassGenerator::OneConnection => {
                add("--io xdp --interface near")
            }
            BypassGenerator::Spinning => add("--io xdp --interface near --busy-poll"),
            BypassGenerator::ManySources => {
                add(&format!("--io xdp --interface near --source {SOURCES}"))
            }
        }
        words.push(url.clone());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_follow_the_row() {
        let row = |id: &str| *super::super::ROWS.iter().find(|row| row.id == id).unwrap();
        let run = BypassCommand {
            url: "http://10.9.0.2/".to_owned(),
            seconds: 3,
            record: Path::new("r.json"),
        };
        let line =
            |generator: BypassGenerator, id: &str| generator.arguments(&row(id), &run).join(" ");
        assert_eq!(
            line(BypassGenerator::Wrk, "xdp-close-1k"),
            "-t1 -c192 -d3s -H Connection: close http://10.9.0.2/"
        );
        let xdp = line(BypassGenerator::Xdp, "xdp-open-1k");
        assert!(
            xdp.contains("--io xdp --interface near") && xdp.contains("-r 20000"),
            "{xdp}"
        );
        assert!(line(BypassGenerator::OneConnection, "xdp-many-1k").contains("-c 1 "));
        assert!(line(BypassGenerator::Uring, "xdp-ka-13").contains("--io uring"));
    }
}
