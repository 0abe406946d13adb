//! The loads that tools support, their command lines, and the files that they read and write.

use std::path::Path;

use super::rows::{Http, Row, Security};
use super::server::Endpoint;
use super::server::link::SOURCES;
use super::tool::Tool;

/// Name of the record that prony writes.
pub(super) const RECORD: &str = "record.json";

/// Names of the files that siege, k6 and vegeta read.
const SIEGE_KEEPS: &str = "keep-alive";
const SIEGE_CLOSES: &str = "close";
const K6_SCRIPT: &str = "k6.js";
const VEGETA_TARGETS: &str = "targets";

/// One run of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunParameters<'a> {
    pub(super) row: &'a Row,
    pub(super) endpoint: &'a Endpoint,
    pub(super) seconds: u32,
    /// Folder of the files that tools read and write.
    pub(super) folder: &'a Path,
}

impl RunParameters<'_> {
    fn url(&self) -> String {
        let scheme = if self.row.is_secure() {
            "https"
        } else {
            "http"
        };
        let Endpoint { host, port, path } = self.endpoint;
        format!("{scheme}://{host}:{port}{path}")
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Writes the files that tools read: siege and k6 have settings without a flag, and vegeta has
    /// no flag for the URL.
    pub(super) fn write_tool_files(&self) -> std::io::Result<()> {
        for kind in [SIEGE_KEEPS, SIEGE_CLOSES] {
            let text = format!(
                "verbose = false\nquiet = true\njson_output = false\nshow-logfile = false\n\
                 logging = false\nprotocol = HTTP/1.1\nconnection = {kind}\nlimit = 1000\n\
                 benchmark = true\nparser = false\ncache = false\n"
            );
            std::fs::write(self.folder.join(kind), text)?;
        }
        let targets = format!("GET {}\n", self.url());
        std::fs::write(self.folder.join(VEGETA_TARGETS), targets)?;
        let script = "import http from 'k6/http';\n\
                      export const options = { discardResponseBodies: true, scenarios: { open: {\n\
                      executor: 'constant-arrival-rate', timeUnit: '1s', gracefulStop: '0s',\n\
                      rate: Number(__ENV.RATE), duration: `${__ENV.SECONDS}s`,\n\
                      preAllocatedVUs: Number(__ENV.CONNECTIONS) } } };\n\
                      export default function () { http.get(__ENV.URL); }\n";
        std::fs::write(self.folder.join(K6_SCRIPT), script)
    }
}

impl Tool {
    /// Returns true if the tool can produce the load of a row.
    pub(super) fn supports(self, row: &Row) -> bool {
        let (paced, secure) = (row.rate().is_some(), row.is_secure());
        if row.values && self.is_peer() {
            return false;
        }
        match self {
            Tool::Floor => {
                matches!(row.http, Http::Three { .. }) || !secure && row.http == Http::One
            }
            Tool::Wrk | Tool::Ab => row.http == Http::One && !paced,
            // It needs a thread per connection.
            Tool::Siege => row.http == Http::One && !paced && row.connections <= 1000,
            Tool::Hey => row.http == Http::One || secure,
            Tool::Shb => !paced,
            // These are measured only at a fixed rate.
            Tool::Wrk2 => row.http == Http::One && paced,
            Tool::Vegeta | Tool::K6 | Tool::Zrk => paced,
            _ => true,
        }
    }

    /// Returns true if the tool ends on its own after its duration.
    pub(super) fn ends(self, row: &Row) -> bool {
        // h2load keeps reopening connections that the server closes.
        !(self == Tool::H2load && row.closes())
    }

    /// Arguments of a run with one thread and without certificate verification.
    pub(super) fn arguments(self, run: &RunParameters) -> Vec<String> {
        let RunParameters { row, seconds, .. } = *run;
        let url = run.url();
        let connections = row.connections;
        let rate = run.row.rate();
        let each = rate.map(|r| f64::from(r) / f64::from(connections));
        let streams = row.http.streams();
        let if_closes = |flag| if run.row.closes() { flag } else { "" };
        let if_secure = |flag| if run.row.is_secure() { flag } else { "" };
        let close_header = if_closes("-H 'Connection: close'");
        let line = match self {
            Tool::Floor => floor(run),
            Tool::Wrk => format!("-t1 -c{connections} -d{seconds}s {close_header} {url}"),
            Tool::Wrk2 | Tool::Vegeta | Tool::K6 | Tool::Zrk => {
                paced(self, run, rate.unwrap_or_default())
            }
            Tool::Ab => {
                // The flag -t implies a limit of 50,000 requests, so -n must come after -t.
                let keep = if run.row.closes() { "" } else { "-k" };
                format!("-q -r {keep} -c {connections} -t {seconds} -n 20000000 {url}")
            }
            Tool::H2load => {
                let pace = each.map(|e| format!("--rps {e}")).unwrap_or_default();
                let version = streams.map_or("--h1".to_string(), |n| format!("-m{n}"));
                format!("{version} -t1 -c{connections} -D{seconds} {pace} {close_header} {url}")
            }
            Tool::Fortio => {
                let rate = rate.unwrap_or(0);
                let close = if_closes("-keepalive=false");
                let insecure = if_secure("-k");
                let version = streams.map_or("", |_| "-h2");
                format!(
                    "load -quiet -loglevel Critical -allow-initial-errors -qps {rate} -c \
                     {connections} -t {seconds}s {version} {close} {insecure} {url}"
                )
            }
            Tool::Oha => {
                let version = match row.http {
                    Http::One => String::new(),
                    Http::Two { streams } => format!("--http2 -p {streams}"),
                    Http::Three { streams } => {
                        format!("--output-format json --http-version 3 -p {streams}")
                    }
                };
                let pace = rate.map(|r| format!("-q {r} --latency-correction"));
                let pace = pace.unwrap_or_default();
                let close = if_closes("--disable-keepalive");
                let insecure = if_secure("--insecure");
                format!(
                    "--no-tui --worker-threads 1 -c {connections} -z {seconds}s {pace} {version} \
                     {close} {insecure} {url}"
                )
            }
            Tool::Shb => {
                let version = match row.http {
                    Http::One => String::new(),
                    Http::Two { streams } => format!("--http2 -p {streams}"),
                    Http::Three { streams } => format!("--json --http3 -p {streams}"),
                };
                let close = if_closes("--disable-keepalive");
                format!("-t 1 -c {connections} -z {seconds}s {version} {close} {url}")
            }
            Tool::Hey => {
                let pace = each.map(|e| format!("-q {e}")).unwrap_or_default();
                let close = if_closes("-disable-keepalive");
                // Go's HTTP/2 client chooses the number of connections.
                let version = streams.map_or("", |_| "-h2");
                let workers = row.at_once();
                format!("-cpus 1 {version} -c {workers} -z {seconds}s {pace} {close} {url}")
            }
            Tool::Siege => {
                let settings = run.file(if run.row.closes() {
                    SIEGE_CLOSES
                } else {
                    SIEGE_KEEPS
                });
                format!("-q -b -R {settings} -c {connections} -t {seconds}S {url}")
            }
            _ => prony(self, run),
        };
        words(&line)
    }

    /// Returns the number of complete requests that a tool reports, for servers that don't count
    /// them. `report` is prony's record, or another tool's output.
    pub(super) fn requests(self, report: &str) -> Option<u64> {
        let json = || serde_json::from_str::<serde_json::Value>(report).ok();
        match self {
            Tool::Floor => report.trim().parse().ok(),
            Tool::Oha => json()?.pointer("/statusCodeDistribution/200")?.as_u64(),
            Tool::Shb => json()?.pointer("/statusCodes/200")?.as_u64(),
            _ => json()?.pointer("/totals/ok")?.as_u64(),
        }
    }
}

fn floor(run: &RunParameters) -> String {
    let RunParameters { row, seconds, .. } = *run;
    let Endpoint { host, port, path } = run.endpoint;
    let connections = row.connections;
    let load = format!("--connections {connections} --seconds {seconds} --path {path}");
    if let Http::Three { streams } = row.http {
        return format!("{host}:{port} {load} --streams {streams}");
    }
    let close = if run.row.closes() { "--close" } else { "" };
    let pace = row
        .rate()
        .map(|r| format!("--rate {r}"))
        .unwrap_or_default();
    format!("{host} {port} {load} {close} {pace}")
}

fn prony(tool: Tool, run: &RunParameters) -> String {
    let RunParameters { row, seconds, .. } = *run;
    let connections = match tool {
        Tool::PronyOneConnection => 1,
        _ => row.connections,
    };
    let mut line = format!(
        "load --progress none -t 1 -c {connections} -d {seconds}s --json {}",
        run.file(RECORD)
    );
    if let Some(rate) = run.row.rate() {
        line.push_str(&format!(" -r {rate}"));
    }
    let version = match row.http {
        Http::Three { .. } if tool != Tool::PronyHttp2 => 3,
        _ => 2,
    };
    if let Some(streams) = row.http.streams() {
        line.push_str(&format!(" --http {version} --streams {streams}"));
    }
    if run.row.closes() {
        line.push_str(" --no-keepalive");
    }
    if run.row.is_secure() {
        // Most of the other tools don't offer hybrid groups.
        line.push_str(" --insecure --groups X25519,P-256,P-384");
    }
    if row.security == Security::Full {
        line.push_str(" --no-resumption");
    }
    if row.is_far() {
        line.push_str(match tool {
            Tool::PronyUring => " --io uring",
            Tool::PronyBusyPoll => " --io xdp --interface near --busy-poll",
            _ => " --io xdp --interface near",
        });
    }
    if tool == Tool::PronySources {
        line.push_str(&format!(" --source {SOURCES}"));
    }
    let mut url = run.url();
    if row.values {
        line.push_str(" -H X-Id:{{uuid}}");
        url.push_str("?n={{seq}}&m={{random(1,1000000)}}");
    }
    format!("{line} {url}")
}

/// Arguments of a tool that runs only at a fixed rate.
fn paced(tool: Tool, run: &RunParameters, rate: u32) -> String {
    let seconds = run.seconds;
    let url = run.url();
    let connections = run.row.connections;
    match tool {
        Tool::Vegeta => {
            let targets = run.file(VEGETA_TARGETS);
            format!(
                "attack -rate {rate} -duration {seconds}s -connections {connections} -workers \
                 {connections} -max-workers {connections} -targets {targets} -output /dev/null"
            )
        }
        // Without the flag, k6 sends usage statistics to its developers.
        Tool::K6 => format!(
            "run --quiet --no-usage-report --env URL={url} --env RATE={rate} --env \
             SECONDS={seconds} --env CONNECTIONS={connections} {}",
            run.file(K6_SCRIPT)
        ),
        Tool::Zrk => format!("-t1 -c{connections} -d{seconds}s -R{rate} --plain {url}"),
        _ => format!("-t1 -c{connections} -d{seconds}s -R{rate} --latency {url}"),
    }
}

/// Splits a line into words; text in single quotes may contain spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_string());
        } else {
            words.extend(part.split_whitespace().map(str::to_string));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::rows::{ROWS, find};
    use super::*;

    const URL: &str = "http://127.1.0.1:80/1k";

    fn arguments(tool: Tool, id: &str) -> Vec<String> {
        let row = find(id).unwrap();
        let endpoint = Endpoint {
            host: "127.1.0.1".to_owned(),
            port: 80,
            path: row.path.to_owned(),
        };
        tool.arguments(&RunParameters {
            row,
            endpoint: &endpoint,
            seconds: 6,
            folder: Path::new("/b"),
        })
    }

    fn line(tool: Tool, id: &str) -> String {
        arguments(tool, id).join(" ")
    }

    #[test]
    fn each_row_sets_the_tools_flags() {
        assert_eq!(line(Tool::Wrk, "ka-1k"), format!("-t1 -c64 -d6s {URL}"));
        assert_eq!(
            arguments(Tool::Wrk, "close-1k")[3..5],
            ["-H", "Connection: close"]
        );
        assert_eq!(
            line(Tool::Floor, "close-1k"),
            "127.1.0.1 80 --connections 192 --seconds 6 --path /1k --close"
        );
        assert_eq!(
            line(Tool::Ab, "close-1k"),
            format!("-q -r -c 192 -t 6 -n 20000000 {URL}")
        );
        assert_eq!(
            line(Tool::H2load, "open-1k"),
            format!("--h1 -t1 -c64 -D6 --rps 312.5 {URL}")
        );
        assert!(line(Tool::Oha, "tls-resumed").contains("--disable-keepalive --insecure"));
        assert!(line(Tool::Siege, "ka-1k").contains("-R /b/keep-alive"));
    }

    #[test]
    fn tools_that_keep_a_rate_get_the_rate_of_the_row() {
        let rate = "-t1 -c64 -d6s -R20000";
        assert_eq!(
            line(Tool::Wrk2, "open-1k"),
            format!("{rate} --latency {URL}")
        );
        assert_eq!(line(Tool::Zrk, "open-1k"), format!("{rate} --plain {URL}"));
        assert!(line(Tool::Vegeta, "open-1k").contains("-rate 20000 -duration 6s"));
        let k6 = line(Tool::K6, "open-1k");
        assert!(k6.contains("--no-usage-report") && k6.ends_with("CONNECTIONS=64 /b/k6.js"));
    }

    #[test]
    fn prony_resumes_sessions_only_if_the_row_requests_it() {
        assert!(line(Tool::Prony, "tls-full").contains("--no-resumption"));
        let resumed = line(Tool::Prony, "tls-resumed");
        assert!(resumed.contains("--no-keepalive --insecure") && !resumed.contains("resumption"));
        assert!(line(Tool::Prony, "open-1k").contains("-r 20000"));
        let values = line(Tool::Prony, "ka-values");
        assert!(
            values.ends_with("/1k?n={{seq}}&m={{random(1,1000000)}}"),
            "{values}"
        );
    }

    #[test]
    fn streams_are_asked_for_in_each_tools_own_way() {
        let url = "https://127.1.0.1:80/13";
        let expected = [
            (Tool::H2load, format!("-m32 -t1 -c16 -D6 {url}")),
            (Tool::Hey, format!("-cpus 1 -h2 -c 512 -z 6s {url}")),
        ];
        for (tool, arguments) in expected {
            assert_eq!(line(tool, "h2-tls-16x32"), arguments);
        }
        for (tool, part) in [
            (Tool::Prony, "--http 2 --streams 32 --insecure"),
            (Tool::Oha, "-c 16 -z 6s --http2 -p 32 --insecure"),
            (Tool::Fortio, "-c 16 -t 6s -h2 -k"),
            (Tool::Shb, "-t 1 -c 16 -z 6s --http2 -p 32"),
        ] {
            let line = line(tool, "h2-tls-16x32");
            assert!(line.contains(part), "{line}");
        }
        let clear = line(Tool::Prony, "h2-clear-16x32");
        assert!(clear.contains("--http 2 --streams 32 http://"), "{clear}");
        assert!(!line(Tool::Prony, "tls-1k").contains("--http"));
    }

    #[test]
    fn each_tool_gets_the_same_load_over_http_3() {
        for (tool, part) in [
            (
                Tool::Floor,
                "127.1.0.1:80 --connections 16 --seconds 6 --path /13 --streams 32",
            ),
            (
                Tool::Prony,
                "-c 16 -d 6s --json /b/record.json --http 3 --streams 32 --insecure",
            ),
            (Tool::PronyHttp2, "--http 2 --streams 32 --insecure"),
            (Tool::Oha, "--http-version 3 -p 32 --insecure"),
            (
                Tool::Shb,
                "-t 1 -c 16 -z 6s --json --http3 -p 32 https://127.1.0.1:80/13",
            ),
        ] {
            let line = line(tool, "h3-16x32");
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn prony_bypasses_the_kernel_in_its_rows() {
        for (tool, id, part) in [
            (
                Tool::Prony,
                "xdp-open-1k",
                "-r 20000 --io xdp --interface near http",
            ),
            (
                Tool::OldProny,
                "xdp-ka-13",
                "--io xdp --interface near http",
            ),
            (Tool::PronyUring, "xdp-ka-13", "--io uring http"),
            (
                Tool::PronyBusyPoll,
                "xdp-echo",
                "--interface near --busy-poll http",
            ),
            (
                Tool::PronySources,
                "xdp-close-1k",
                "--no-keepalive --io xdp --interface near --source 10.",
            ),
            (Tool::PronyOneConnection, "xdp-many-1k", "-t 1 -c 1 -d 6s"),
            (
                Tool::Wrk,
                "xdp-close-1k",
                "-t1 -c192 -d6s -H Connection: close http",
            ),
        ] {
            let line = line(tool, id);
            assert!(line.contains(part), "{line}");
        }
        assert!(!line(Tool::Prony, "ka-1k").contains("--io"));
    }

    #[test]
    fn only_complete_requests_count() {
        assert_eq!(Tool::Floor.requests("12\n"), Some(12));
        let record = r#"{"totals": {"ok": 5, "failed": 2}}"#;
        assert_eq!(Tool::PronyHttp2.requests(record), Some(5));
        let summary = r#"{"statusCodeDistribution": {"200": 7, "500": 1}}"#;
        assert_eq!(Tool::Oha.requests(summary), Some(7));
        assert_eq!(Tool::Oha.requests("{}"), None);
        let report = r#"{"requests": {"ok": 8}, "statusCodes": {"200": 7, "500": 1}}"#;
        assert_eq!(Tool::Shb.requests(report), Some(7));
    }

    #[test]
    fn rows_that_a_tool_does_not_support_are_skipped() {
        let supports = |tool: Tool, id: &str| tool.supports(find(id).unwrap());
        for (tool, id) in [
            (Tool::Floor, "tls-1k"),
            (Tool::Floor, "h2-clear-16x32"),
            (Tool::Wrk, "open-1k"),
            (Tool::Wrk, "h2-tls-16x32"),
            (Tool::Wrk2, "ka-1k"),
            (Tool::Siege, "many-1k"),
            (Tool::Hey, "h2-clear-16x32"),
            (Tool::Oha, "ka-values"),
            (Tool::Shb, "open-max"),
        ] {
            assert!(!supports(tool, id), "{tool:?} {id}");
        }
        for (tool, id) in [
            (Tool::Fortio, "tls-full"),
            (Tool::Hey, "h2-tls-1x100"),
            (Tool::Floor, "h3-16x32"),
            (Tool::Floor, "ka-values"),
            (Tool::Zrk, "open-max"),
        ] {
            assert!(supports(tool, id), "{tool:?} {id}");
        }
        for row in ROWS {
            assert!(row.tools.contains(&Tool::Prony));
            assert!(Tool::Prony.supports(row), "{}", row.id);
            assert!(row.references.first().is_none_or(|tool| tool.supports(row)));
            assert!(row.quick.is_none_or(|tool| tool.supports(row)));
        }
    }
}
