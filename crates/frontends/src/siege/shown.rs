//! Formats the output of `-h`, `-V` and `-C`.

use super::arguments::Repetitions;
use super::rc::RcFile;
use super::settings::{SiegeLogin, SiegeSettings, VERSION};

/// Returns the version line, with siege's version and prony's name.
pub(super) fn version() -> String {
    format!("SIEGE {VERSION} (prony {})", env!("CARGO_PKG_VERSION"))
}

/// Returns the usage text.
pub(super) fn usage() -> &'static str {
    "\
Usage: siege [options]
       siege [options] URL
       siege -g URL
Options:
  -V, --version             VERSION, print the version.
  -h, --help                HELP, print this text.
  -C, --config              CONFIGURATION, print the settings.
  -v, --verbose             VERBOSE, print a line for each transaction.
  -q, --quiet               QUIET, print neither lines nor a report.
  -g, --get                 GET, send one request; print both sides' headers.
  -p, --print               PRINT, like GET, but print the page.
  -c, --concurrent=NUM      CONCURRENT users; there is no maximum.
  -r, --reps=NUM            REPS, number of pages that each user requests,
                            or \"once\" for each URL of the list once.
  -t, --time=NUMm           TIME limit; m is S, M or H, as in --time=30S.
  -d, --delay=NUM           DELAY after each page: random, up to NUM seconds.
  -b, --benchmark           BENCHMARK, don't delay requests.
  -i, --internet            INTERNET, request URLs in random order.
  -f, --file=FILE           FILE with URLs, one per line.
  -R, --rc=FILE             RC, use another configuration file.
  -l, --log[=FILE]          LOG, append the results to FILE as a line.
  -m, --mark=\"text\"         MARK, write this text to the log before the results.
  -H, --header=\"text\"       HEADER to add to every request; repeatable.
  -A, --user-agent=\"text\"   AGENT, the User-Agent of every request.
  -T, --content-type=\"text\" TYPE, the Content-Type of bodies.
  -j, --json-output         JSON, print the report to standard output.
      --no-parser           NO PARSER, don't fetch the resources of pages.
      --no-follow           NO FOLLOW, don't follow redirects.

siege-compatible options and output, powered by prony;
docs/front-ends.md lists the differences.
"
}

/// Formats the current configuration with one line per setting.
pub(super) fn configuration(rc: &RcFile) -> String {
    let settings = &rc.settings;
    let mut text = format!(
        "CURRENT  SIEGE  CONFIGURATION\n{}\nEdit the resource file to change the settings.\n\
         ----------------------------------------------\n",
        settings.user_agent
    );
    for (label, value) in setting_rows(rc) {
        text.push_str(&format!("{:<32}{value}\n", format!("{label}:")));
    }
    if settings.parser && !settings.left_alone.is_empty() {
        text.push_str("no-follow:\n");
        for host in &settings.left_alone {
            text.push_str(&format!(" - {host}\n"));
        }
    }
    for (label, logins) in [
        ("proxy auth:", &settings.proxy_logins),
        ("www auth:", &settings.logins),
    ] {
        let shown: Vec<String> = logins.iter().map(login).collect();
        text.push_str(&format!("{label:<32}{}\n", shown.join(", ")));
    }
    text
}

fn login(login: &SiegeLogin) -> String {
    let realm = login.realm.as_deref().unwrap_or("any");
    // Passwords are hidden.
    format!("{}:***:{realm}", login.name)
}

type SettingRow = (&'static str, String);

/// Returns the rows for all settings, in siege's order.
fn setting_rows(rc: &RcFile) -> Vec<SettingRow> {
    let mut rows = output_rows(&rc.settings);
    rows.extend(load_rows(&rc.settings));
    rows.extend(file_rows(rc));
    rows
}

fn flag(on: bool) -> String {
    on.to_string()
}

/// Returns the rows about requests.
fn output_rows(settings: &SiegeSettings) -> Vec<SettingRow> {
    let either = |on: bool, one: &str, other: &str| if on { one } else { other }.to_owned();
    let mut rows = vec![
        ("version", VERSION.to_owned()),
        ("verbose", flag(settings.verbose)),
        ("color", flag(settings.color)),
        ("quiet", flag(settings.quiet)),
        ("debug", flag(false)),
        ("protocol", either(settings.http11, "HTTP/1.1", "HTTP/1.0")),
        (
            "HTML parser",
            either(settings.parser, "enabled", "disabled"),
        ),
        ("get method", settings.get_method.name().to_owned()),
    ];
    if let Some(host) = &settings.proxy_host {
        rows.push(("proxy-host", host.clone()));
        rows.push(("proxy-port", settings.proxy_port.to_string()));
    }
    let connection = either(settings.keep_alive, "keep-alive", "close");
    rows.push(("connection", connection));
    rows
}

/// Returns the rows about the load.
fn load_rows(settings: &SiegeSettings) -> Vec<SettingRow> {
    let none = || "n/a".to_owned();
    let time = settings.time_s.map(|time| format!("{time} seconds"));
    let reps = match settings.reps {
        Repetitions::Forever => none(),
        Repetitions::Times(times) => times.to_string(),
        Repetitions::Once => "once".to_owned(),
    };
    let plural = if settings.delay_s > 1.0 { "s" } else { "" };
    vec![
        ("concurrent users", settings.users.to_string()),
        ("time to run", time.unwrap_or_else(none)),
        ("repetitions", reps),
        ("socket timeout", settings.timeout_s.to_string()),
        ("cache enabled", flag(false)),
        ("accept-encoding", settings.encoding.clone()),
        ("delay", format!("{:.3} sec{plural}", settings.delay_s)),
        ("internet simulation", flag(settings.internet)),
        ("benchmark mode", flag(settings.benchmark)),
        ("failures until abort", settings.failures.to_string()),
    ]
}

/// Returns the rows about files.
fn file_rows(rc: &RcFile) -> Vec<SettingRow> {
    let settings = &rc.settings;
    let none = || "none".to_owned();
    let resource = rc.path.as_ref().map(|path| path.display().to_string());
    vec![
        ("named URL", settings.url.clone().unwrap_or_else(none)),
        ("URLs file", settings.file.display().to_string()),
        ("thread limit", settings.limit.to_string()),
        ("logging", flag(settings.logging)),
        ("log file", settings.log.display().to_string()),
        ("resource file", resource.unwrap_or_else(none)),
        ("timestamped output", flag(settings.timestamp)),
        ("comma separated output", flag(settings.csv)),
        ("allow redirects", flag(settings.follow)),
        ("allow zero byte data", flag(settings.zero_ok)),
        ("allow chunked encoding", flag(true)),
        ("upload unique files", flag(false)),
        ("json output", flag(settings.json)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_shows_the_effective_values() {
        let rc = RcFile {
            settings: SiegeSettings {
                logins: vec![SiegeLogin::parse("me:secret:R")],
                time_s: Some(90),
                ..SiegeSettings::template()
            },
            path: Some("/x/rc".into()),
            remarks: Vec::new(),
        };
        let text = configuration(&rc);
        for line in [
            "CURRENT  SIEGE  CONFIGURATION",
            "verbose:                        true",
            "concurrent users:               25",
            "time to run:                    90 seconds",
            "repetitions:                    n/a",
            "delay:                          0.000 sec",
            "resource file:                  /x/rc",
            " - ib.adnxs.com",
            "www auth:                       me:***:R",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("secret"));
    }

    #[test]
    fn every_option_is_in_the_usage() {
        for option in [
            "--version",
            "--help",
            "--config",
            "--verbose",
            "--quiet",
            "--get",
            "--print",
            "--concurrent",
            "--reps",
            "--time",
            "--delay",
            "--benchmark",
            "--internet",
            "--file",
            "--rc",
            "--log",
            "--mark",
            "--header",
            "--user-agent",
            "--content-type",
            "--json-output",
            "--no-parser",
            "--no-follow",
        ] {
            assert!(usage().contains(option), "{option}");
        }
        assert!(version().starts_with("SIEGE 4.0.7"));
    }
}
