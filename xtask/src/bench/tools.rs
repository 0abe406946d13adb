//! Command lines of the tools. The module `rotation` runs them.

use super::rows::{ConnectionUse, Content, Http, Row, Security};
use super::tool::Tool;

#[derive(Debug, Clone, Copy)]
pub(super) struct RunParameters<'a> {
    /// URL of the requests.
    pub(super) url: &'a str,
    /// Address of the server, without the port.
    pub(super) address: &'a str,
    pub(super) port: u16,
    pub(super) seconds: u32,
    /// Path of the record that prony writes.
    pub(super) record: &'a str,
    /// Paths of siege's configuration files, with and without keepalive.
    pub(super) siege_keeps: &'a str,
    pub(super) siege_closes: &'a str,
    /// Path of the script that k6 runs.
    pub(super) k6_script: &'a str,
    /// Path of the target list that vegeta reads.
    pub(super) vegeta_targets: &'a str,
}

impl Tool {
    /// Returns the arguments that print the version, or `None` if the tool can't print it.
    pub(super) fn version_arguments(self) -> Option<&'static [&'static str]> {
        Some(match self {
            Tool::Floor | Tool::Hey | Tool::Vegeta | Tool::Shb => return None,
            Tool::Prony | Tool::OldProny | Tool::H2load | Tool::Oha | Tool::Siege | Tool::Zrk => {
                &["--version"]
            }
            Tool::Wrk | Tool::Wrk2 => &["-v"],
            Tool::Ab => &["-V"],
            Tool::Fortio | Tool::K6 => &["version"],
        })
    }

    /// Reason why this tool is omitted from a row, if there is one.
    pub(super) fn unfit(self, row: &Row) -> Option<&'static str> {
        let paced = matches!(row.shape, ConnectionUse::Paced(_));
        let has_values = row.content == Content::Differs;
        match self {
            Tool::Wrk
            | Tool::Ab
            | Tool::H2load
            | Tool::Fortio
            | Tool::Oha
            | Tool::Hey
            | Tool::Siege
            | Tool::Wrk2
            | Tool::Vegeta
            | Tool::K6
            | Tool::Zrk
            | Tool::Shb
                if has_values =>
            {
                Some("can't vary its requests")
            }
            Tool::Floor if row.security != Security::Clear => Some("doesn't support TLS"),
            Tool::Floor | Tool::Wrk | Tool::Ab | Tool::Siege | Tool::Wrk2
                if row.http != Http::One =>
            {
                Some("doesn't support HTTP/2")
            }
            Tool::Hey if row.http != Http::One && row.security == Security::Clear => {
                Some("supports HTTP/2 over TLS only")
            }
            Tool::Wrk | Tool::Ab | Tool::Siege | Tool::Shb if paced => {
                Some("doesn't support a fixed rate")
            }
            Tool::Wrk2 | Tool::Vegeta | Tool::K6 | Tool::Zrk if !paced => {
                Some("measured only at a fixed rate")
            }
            Tool::Siege if row.connections > 1000 => Some("needs a thread per connection"),
            _ => None,
        }
    }

    /// Returns true if the tool ends on its own after its duration.
    pub(super) fn ends(self, row: &Row) -> bool {
        // h2load keeps reopening connections that the server closes.
        !(self == Tool::H2load && row.shape == ConnectionUse::Close)
    }

    /// Arguments for a row, with one thread and without certificate verification.
    pub(super) fn arguments(self, row: &Row, run: &RunParameters) -> Vec<String> {
        let RunParameters { url, seconds, .. } = *run;
        let connections = row.connections;
        let closes = row.shape == ConnectionUse::Close;
        let secure = row.security != Security::Clear;
        let rate = match row.shape {
            ConnectionUse::Paced(rate) => Some(rate),
            ConnectionUse::KeepAlive | ConnectionUse::Close => None,
        };
        let each = rate.map(|r| f64::from(r) / f64::from(connections));
        let close_header = if closes { "-H 'Connection: close'" } else { "" };
        let if_closes = |flag| if closes { flag } else { "" };
        let if_secure = |flag| if secure { flag } else { "" };
        let streams = match row.http {
            Http::One => None,
            Http::Two { streams } => Some(streams),
        };
        let line = match self {
            Tool::Floor => {
                let RunParameters { address, port, .. } = *run;
                let path = row.path;
                let close = if_closes("--close");
                let pace = rate.map(|r| format!("--rate {r}")).unwrap_or_default();
                format!(
                    "{address} {port} --connections {connections} --seconds {seconds} --path \
                     {path} {close} {pace}"
                )
            }
            Tool::Prony | Tool::OldProny => prony(row, run, rate),
            Tool::Wrk => format!("-t1 -c{connections} -d{seconds}s {close_header} {url}"),
            Tool::Wrk2 | Tool::Vegeta | Tool::K6 | Tool::Zrk => paced(self, row, run, rate),
            Tool::Ab => {
                // The flag -t implies a limit of 50,000 requests, so -n must come after -t.
                let keep = if closes { "" } else { "-k" };
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
            Tool::Oha => oha(row, run, rate),
            Tool::Shb => shb(row, run),
            Tool::Hey => {
                let pace = each.map(|e| format!("-q {e}")).unwrap_or_default();
                let close = if_closes("-disable-keepalive");
                // Go's HTTP/2 client chooses the number of connections.
                let version = streams.map_or("", |_| "-h2");
                let workers = row.at_once();
                format!("-cpus 1 {version} -c {workers} -z {seconds}s {pace} {close} {url}")
            }
            Tool::Siege => {
                let settings = if closes {
                    run.siege_closes
                } else {
                    run.siege_keeps
                };
                format!("-q -b -R {settings} -c {connections} -t {seconds}S {url}")
            }
        };
        words(&line)
    }
}

fn prony(row: &Row, run: &RunParameters, rate: Option<u32>) -> String {
    let mut line = format!(
        "load --progress none -t 1 -c {} -d {}s --json {}",
        row.connections, run.seconds, run.record
    );
    if let Some(rate) = rate {
        line.push_str(&format!(" -r {rate}"));
    }
    if let Http::Two { streams } = row.http {
        line.push_str(&format!(" --http 2 --streams {streams}"));
    }
    if row.shape == ConnectionUse::Close {
        line.push_str(" --no-keepalive");
    }
    if row.security != Security::Clear {
        line.push_str(" --insecure");
    }
    if row.security == Security::Full {
        line.push_str(" --no-resumption");
    }
    let query = match row.content {
        Content::Same => "",
        Content::Differs => {
            line.push_str(" -H X-Id:{{uuid}}");
            "?n={{seq}}&m={{random(1,1000000)}}"
        }
    };
    line.push(' ');
    line.push_str(run.url);
    line.push_str(query);
    line
}

/// Arguments of a tool that runs only at a fixed rate.
fn paced(tool: Tool, row: &Row, run: &RunParameters, rate: Option<u32>) -> String {
    let RunParameters { url, seconds, .. } = *run;
    let connections = row.connections;
    let rate = rate.unwrap_or_default();
    match tool {
        Tool::Vegeta => {
            let targets = run.vegeta_targets;
            format!(
                "attack -rate {rate} -duration {seconds}s -connections {connections} -workers \
                 {connections} -max-workers {connections} -targets {targets} -output /dev/null"
            )
        }
        // Without the flag, k6 sends usage statistics to its developers.
        Tool::K6 => format!(
            "run --quiet --no-usage-report --env URL={url} --env RATE={rate} --env \
             SECONDS={seconds} --env CONNECTIONS={connections} {}",
            run.k6_script
        ),
        Tool::Zrk => format!("-t1 -c{connections} -d{seconds}s -R{rate} --plain {url}"),
        _ => format!("-t1 -c{connections} -d{seconds}s -R{rate} --latency {url}"),
    }
}

fn oha(row: &Row, run: &RunParameters, rate: Option<u32>) -> String {
    let mut line = format!(
        "--no-tui --worker-threads 1 -c {} -z {}s",
        row.connections, run.seconds
    );
    if let Some(rate) = rate {
        line.push_str(&format!(" -q {rate} --latency-correction"));
    }
    if let Http::Two { streams } = row.http {
        line.push_str(&format!(" --http2 -p {streams}"));
    }
    if row.shape == ConnectionUse::Close {
        line.push_str(" --disable-keepalive");
    }
    if row.security != Security::Clear {
        line.push_str(" --insecure");
    }
    line.push(' ');
    line.push_str(run.url);
    line
}

fn shb(row: &Row, run: &RunParameters) -> String {
    let (connections, seconds) = (row.connections, run.seconds);
    let mut line = format!("-t 1 -c {connections} -z {seconds}s");
    if let Http::Two { streams } = row.http {
        line.push_str(&format!(" --http2 -p {streams}"));
    }
    if row.shape == ConnectionUse::Close {
        line.push_str(" --disable-keepalive");
    }
    line.push(' ');
    line.push_str(run.url);
    line
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
    use super::super::rows::ROWS;
    use super::*;

    const ERRAND: RunParameters = RunParameters {
        url: "http://127.1.0.1:80/1k",
        address: "127.1.0.1",
        port: 80,
        seconds: 6,
        record: "r.json",
        siege_keeps: "keep.rc",
        siege_closes: "close.rc",
        k6_script: "k6.js",
        vegeta_targets: "targets",
    };

    fn row(id: &str) -> &'static Row {
        ROWS.iter().find(|r| r.id == id).unwrap()
    }

    fn line(tool: Tool, id: &str) -> String {
        tool.arguments(row(id), &ERRAND).join(" ")
    }

    #[test]
    fn each_row_sets_the_tools_flags() {
        let url = ERRAND.url;
        assert_eq!(line(Tool::Wrk, "ka-1k"), format!("-t1 -c64 -d6s {url}"));
        assert_eq!(
            Tool::Wrk.arguments(row("close-1k"), &ERRAND)[3..5],
            ["-H", "Connection: close"]
        );
        assert_eq!(
            line(Tool::Floor, "close-1k"),
            "127.1.0.1 80 --connections 192 --seconds 6 --path /1k --close"
        );
        assert_eq!(
            line(Tool::Ab, "close-1k"),
            format!("-q -r -c 192 -t 6 -n 20000000 {url}")
        );
        assert_eq!(
            line(Tool::H2load, "open-1k"),
            format!("--h1 -t1 -c64 -D6 --rps 312.5 {url}")
        );
        assert!(line(Tool::Oha, "tls-resumed").contains("--disable-keepalive --insecure"));
        assert!(line(Tool::Siege, "ka-1k").contains("-R keep.rc"));
    }

    #[test]
    fn tools_that_keep_a_rate_get_the_rate_of_the_row() {
        let url = ERRAND.url;
        let rate = "-t1 -c64 -d6s -R20000";
        assert_eq!(
            line(Tool::Wrk2, "open-1k"),
            format!("{rate} --latency {url}")
        );
        assert_eq!(line(Tool::Zrk, "open-1k"), format!("{rate} --plain {url}"));
        assert!(line(Tool::Vegeta, "open-1k").contains("-rate 20000 -duration 6s"));
        let k6 = line(Tool::K6, "open-1k");
        assert!(k6.contains("--no-usage-report") && k6.ends_with("CONNECTIONS=64 k6.js"));
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
        let url = ERRAND.url;
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
    fn rows_that_a_tool_does_not_support_are_skipped() {
        assert!(Tool::Floor.unfit(row("tls-1k")).is_some());
        assert!(Tool::Wrk.unfit(row("open-1k")).is_some());
        assert!(Tool::Siege.unfit(row("many-1k")).is_some());
        assert!(Tool::Fortio.unfit(row("tls-full")).is_none());
        assert!(Tool::Wrk2.unfit(row("ka-1k")).is_some());
        assert!(Tool::Wrk.unfit(row("h2-tls-16x32")).is_some());
        assert!(Tool::Hey.unfit(row("h2-tls-1x100")).is_none());
        assert!(Tool::Hey.unfit(row("h2-clear-16x32")).is_some());
        assert!(Tool::Floor.unfit(row("h2-clear-16x32")).is_some());
        assert!(Tool::Oha.unfit(row("ka-values")).is_some());
        for row in ROWS {
            assert!(Tool::Prony.unfit(row).is_none(), "{}", row.id);
            assert!(row.references[0].unfit(row).is_none(), "{}", row.id);
            assert!(row.quick.is_none_or(|t| t.unfit(row).is_none()));
        }
    }
}
