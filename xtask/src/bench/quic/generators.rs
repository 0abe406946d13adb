//! The HTTP/3 generators and their command lines.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::super::programs;
use super::super::tool::Tool;
use crate::cargo::cargo;

/// A generator in the HTTP/3 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generator {
    Floor,
    Prony,
    /// prony over HTTP/2 and TLS.
    PronyHttp2,
    Oha,
    Shb,
}

/// Parameters of a run.
pub(super) struct GeneratorRun<'a> {
    pub(super) port: u16,
    pub(super) path: String,
    pub(super) connections: u32,
    pub(super) streams: u32,
    pub(super) seconds: u32,
    /// Path of prony's record.
    pub(super) record: &'a Path,
}

impl Generator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Generator::Floor => "floor",
            Generator::Prony => "prony",
            Generator::PronyHttp2 => "prony h2",
            Generator::Oha => "oha",
            Generator::Shb => "shb",
        }
    }

    /// Returns the arguments of a run with one thread and without certificate verification.
    pub(super) fn arguments(self, run: &GeneratorRun) -> Vec<String> {
        let GeneratorRun {
            port,
            path,
            connections,
            streams,
            seconds,
            record,
        } = run;
        let url = format!("https://127.0.0.1:{port}{path}");
        let prony = |version: u32| {
            format!(
                "load --progress none -t 1 -c {connections} --streams {streams} -d {seconds}s \
                 --http {version} --insecure --json {} {url}",
                record.display()
            )
        };
        let line = match self {
            Generator::Floor => format!(
                "127.0.0.1:{port} --connections {connections} --streams {streams} --seconds \
                 {seconds} --path {path}"
            ),
            Generator::Prony => prony(3),
            Generator::PronyHttp2 => prony(2),
            Generator::Oha => format!(
                "--no-tui --output-format json --worker-threads 1 -c {connections} -p {streams} \
                 -z {seconds}s --http-version 3 --insecure {url}"
            ),
            Generator::Shb => {
                format!("--json -t 1 -c {connections} -p {streams} -z {seconds}s --http3 {url}")
            }
        };
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the number of complete requests, read from the generator's output.
    pub(super) fn requests(self, output: &str) -> Option<u64> {
        let json = || serde_json::from_str::<serde_json::Value>(output).ok();
        match self {
            Generator::Floor => output.trim().parse().ok(),
            Generator::Prony | Generator::PronyHttp2 => json()?.pointer("/totals/ok")?.as_u64(),
            Generator::Oha => {
                let json = json()?;
                let statuses = json.get("statusCodeDistribution")?.as_object()?;
                statuses.get("200")?.as_u64()
            }
            Generator::Shb => json()?.pointer("/statusCodes/200")?.as_u64(),
        }
    }
}

/// Returns the path of shb, which is first installed if it is missing and `install` is true.
pub(super) fn shb(folder: &Path, install: bool) -> Option<PathBuf> {
    if install && programs::find(Tool::Shb, folder).is_none() {
        programs::install_from_source(Tool::Shb, folder);
    }
    let found = programs::find(Tool::Shb, folder);
    if found.is_none() {
        println!("shb is not installed; its columns are omitted");
    }
    found
}

/// Returns the path of an oha with HTTP/3 in the benchmark's own folder. Builds oha first if it is
/// missing and `install` is true.
pub(super) fn oha(folder: &Path, install: bool) -> Option<PathBuf> {
    let root = folder.join("oha-http3");
    let program = root.join("bin/oha");
    if !program.is_file() && install {
        println!("building oha with HTTP/3 (takes minutes)");
        let mut command = cargo(&[
            "install",
            "--locked",
            "oha",
            "--features",
            "http3",
            "--root",
        ]);
        command.arg(&root);
        command.env("CARGO_TARGET_DIR", folder.join("build-oha-http3"));
        match command.stdin(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => println!("oha can't be built: {status}"),
            Err(error) => println!("oha can't be built: {error}"),
        }
    }
    let is_there = program.is_file();
    if !is_there {
        println!("oha with HTTP/3 is not installed; its column is omitted");
    }
    is_there.then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generator_gets_the_same_load() {
        let run = GeneratorRun {
            port: 9,
            path: "/13".to_owned(),
            connections: 16,
            streams: 32,
            seconds: 6,
            record: Path::new("r.json"),
        };
        for (generator, part) in [
            (
                Generator::Floor,
                "127.0.0.1:9 --connections 16 --streams 32",
            ),
            (Generator::Prony, "-c 16 --streams 32 -d 6s --http 3"),
            (Generator::PronyHttp2, "-c 16 --streams 32 -d 6s --http 2"),
            (Generator::Oha, "-c 16 -p 32 -z 6s --http-version 3"),
            (Generator::Shb, "-t 1 -c 16 -p 32 -z 6s --http3"),
        ] {
            let line = generator.arguments(&run).join(" ");
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn only_complete_requests_count() {
        assert_eq!(Generator::Floor.requests("12\n"), Some(12));
        let record = r#"{"totals": {"ok": 5, "failed": 2}}"#;
        assert_eq!(Generator::Prony.requests(record), Some(5));
        let summary = r#"{"statusCodeDistribution": {"200": 7, "500": 1}}"#;
        assert_eq!(Generator::Oha.requests(summary), Some(7));
        assert_eq!(Generator::Oha.requests("{}"), None);
        let report = r#"{"requests": {"ok": 8}, "statusCodes": {"200": 7, "500": 1}}"#;
        assert_eq!(Generator::Shb.requests(report), Some(7));
    }
}
