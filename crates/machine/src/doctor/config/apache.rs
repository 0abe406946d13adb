//! Checks of Apache httpd: number of concurrent requests, and keep-alive.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use prony_record::number;

use super::super::check::{CheckResults, CheckStatus, CheckTopic};
use super::super::process::ServerProcess;
use super::files::{ConfigFiles, ServerConfigFiles, first_of, option, within};

/// Minimum recommended number of workers. With fewer workers, the requests of a typical load test
/// wait for a free one.
const WORKERS_MIN: u64 = 400;

const WORKERS: CheckTopic = CheckTopic {
    id: "apache-max-request-workers",
    expected: "at least the number of requests that the load has in flight",
    why: "each request in flight uses a thread (event and worker) or a process (prefork); \
        additional connections wait in the listen queue",
    change: "raise MaxRequestWorkers, and ServerLimit × ThreadsPerChild to at least the same \
        value",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#maxrequestworkers",
};

const CAPPED: CheckTopic = CheckTopic {
    id: "apache-server-limit",
    expected: "ServerLimit × ThreadsPerChild at least MaxRequestWorkers, and ThreadsPerChild at \
        most ThreadLimit",
    why: "httpd lowers the value to the limit when it starts, and reports this only in its error \
        log",
    change: "raise ServerLimit or ThreadLimit, then stop and start the server",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#serverlimit",
};

const KEEP_ALIVE: CheckTopic = CheckTopic {
    id: "apache-keep-alive",
    expected: "KeepAlive On with 1,000 or more requests per connection, or 0 for no limit",
    why: "the server closes a connection after the configured number of requests, and each new \
        connection needs a handshake",
    change: "KeepAlive On, MaxKeepAliveRequests 0",
    source: "httpd.apache.org/docs/2.4/mod/core.html#maxkeepaliverequests",
};

const TURNOVER: CheckTopic = CheckTopic {
    id: "apache-connections-per-child",
    expected: "0: children are not replaced",
    why: "children exit after the configured number of connections, and new children start during \
        a load",
    change: "MaxConnectionsPerChild 0",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#maxconnectionsperchild",
};

/// Directives that apply to the whole server.
#[derive(Debug, Default)]
struct ApacheSettings {
    /// Last value of each directive, by its lowercase name.
    values: HashMap<String, String>,
    /// Multi-processing module that the configuration loads, such as `event`; `None` if the module
    /// is built into httpd.
    mpm: Option<String>,
}

pub(super) fn check_apache(server: &ServerProcess) -> CheckResults {
    let mut results = CheckResults::default();
    let Some((root, main)) = main_file(server) else {
        results.add_undetermined("Apache's settings", "the configuration file was not found");
        return results;
    };
    let mut files = ServerConfigFiles::new(server);
    let mut lines = Vec::new();
    read_directives(&mut files, &main, &mut root.clone(), &mut lines);
    files.report(&mut results);
    if !lines.is_empty() {
        check_settings(&settings(&lines), &mut results);
    }
    results
}

/// Returns the root folder and the main configuration file of the server: the values of `-d` and
/// `-f`, or the defaults of a distribution.
fn main_file(server: &ServerProcess) -> Option<(PathBuf, PathBuf)> {
    const DEFAULT_PATHS: [&str; 5] = [
        "/etc/apache2/apache2.conf",
        "/etc/httpd/conf/httpd.conf",
        "/etc/apache2/httpd.conf",
        "/usr/local/etc/apache24/httpd.conf",
        "/usr/local/apache2/conf/httpd.conf",
    ];
    let default = first_of(server, &DEFAULT_PATHS);
    let folder = default.as_deref().and_then(Path::parent);
    let root = option(&server.arguments, "-d").map(PathBuf::from);
    let root = root.or_else(|| Some(folder?.to_owned()));
    match option(&server.arguments, "-f") {
        Some(text) => {
            let root = root.unwrap_or_else(|| PathBuf::from("/"));
            let main = within(&root, &text);
            Some((root, main))
        }
        None => Some((root?, default?)),
    }
}

/// Reads every line of a configuration file and of the files that it includes. Continued lines are
/// joined.
fn read_directives(
    files: &mut dyn ConfigFiles,
    path: &Path,
    root: &mut PathBuf,
    into: &mut Vec<Vec<String>>,
) {
    let Some(text) = files.read(path) else {
        return;
    };
    for line in text.replace("\\\n", " ").lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| word.trim_matches('"').to_owned())
            .collect();
        match words.as_slice() {
            [name, value, ..] if name.eq_ignore_ascii_case("ServerRoot") => *root = value.into(),
            [name, pattern, ..]
                if name.eq_ignore_ascii_case("Include")
                    || name.eq_ignore_ascii_case("IncludeOptional") =>
            {
                let pattern = within(root, pattern);
                for path in files.matching(&pattern.to_string_lossy()) {
                    read_directives(files, &path, root, into);
                }
            }
            _ => into.push(words),
        }
    }
}

/// Collects the directives that apply to the whole server. Directives in `<VirtualHost>`,
/// `<Directory>` and similar sections apply only to part of the server. Directives in an `<IfModule
/// mpm_…>` section don't apply if the module isn't loaded.
fn settings(lines: &[Vec<String>]) -> ApacheSettings {
    let loaded = lines.iter().find_map(|words| match words.as_slice() {
        [name, module, ..] if name.eq_ignore_ascii_case("LoadModule") => {
            module.strip_prefix("mpm_")?.strip_suffix("_module")
        }
        _ => None,
    });
    let mut settings = ApacheSettings {
        mpm: loaded.map(str::to_owned),
        ..ApacheSettings::default()
    };
    let mut open: Vec<bool> = Vec::new();
    for words in lines {
        let first = words[0].as_str();
        if first.starts_with("</") {
            open.pop();
        } else if first.starts_with('<') {
            let argument = words.get(1).map(|word| word.trim_end_matches('>'));
            open.push(applies_globally(
                first,
                argument.unwrap_or_default(),
                loaded,
            ));
        } else if open.iter().all(|applies| *applies)
            && let Some(value) = words.get(1)
        {
            settings
                .values
                .insert(first.to_ascii_lowercase(), value.clone());
        }
    }
    settings
}

/// Returns true if the directives of a section apply to the whole server.
fn applies_globally(section: &str, argument: &str, mpm: Option<&str>) -> bool {
    let section = section.to_ascii_lowercase();
    if section != "<ifmodule" {
        return matches!(section.as_str(), "<ifdefine" | "<ifversion" | "<if");
    }
    let (negated, module) = match argument.strip_prefix('!') {
        Some(module) => (true, module),
        None => (false, argument),
    };
    let stem = module
        .trim_end_matches(".c")
        .trim_end_matches("_module")
        .trim_start_matches("mpm_");
    let is_mpm = module.starts_with("mpm_") || matches!(stem, "event" | "worker" | "prefork");
    match mpm {
        Some(mpm) if is_mpm => (mpm == stem) != negated,
        // Modules other than the multi-processing module don't limit the server, so assume that
        // they are loaded.
        _ => !negated,
    }
}

fn check_settings(settings: &ApacheSettings, results: &mut CheckResults) {
    let number = |name: &str| settings.values.get(name)?.parse::<u64>().ok();
    let mpm = settings.mpm.as_deref().unwrap_or("event");
    let threaded = mpm != "prefork";
    // Defaults of mpm_common in httpd 2.4.
    let threads = if threaded {
        number("threadsperchild").unwrap_or(25)
    } else {
        1
    };
    let limit = number("serverlimit").unwrap_or(if threaded { 16 } else { 256 });
    let configured = number("maxrequestworkers").or_else(|| number("maxclients"));
    let ceiling = limit.saturating_mul(threads);
    let workers = configured.unwrap_or(ceiling).min(ceiling);
    let text = format!(
        "{} requests at the same time ({mpm}: MaxRequestWorkers {}, ServerLimit {limit}, \
         ThreadsPerChild {threads})",
        number::count(workers),
        configured.map_or("not set".to_owned(), |n| n.to_string()),
    );
    let status = CheckStatus::warning_if(workers < WORKERS_MIN);
    results.add(WORKERS.check(status, text));
    let mut capped = Vec::new();
    if let Some(configured) = configured.filter(|workers| *workers > ceiling) {
        capped.push(format!(
            "MaxRequestWorkers {configured} above ServerLimit × ThreadsPerChild = {ceiling}"
        ));
    }
    let thread_limit = number("threadlimit").unwrap_or(64);
    if threaded && threads > thread_limit {
        capped.push(format!(
            "ThreadsPerChild {threads} above ThreadLimit {thread_limit}"
        ));
    }
    results.add(if capped.is_empty() {
        CAPPED.check(CheckStatus::Ok, "no value is lowered")
    } else {
        CAPPED.check(CheckStatus::Warning, capped.join("; "))
    });
    check_keep_alive(settings, results);
    if let Some(n) = number("maxconnectionsperchild")
        .or_else(|| number("maxrequestsperchild"))
        .filter(|n| *n > 0)
    {
        let text = format!("{} connections", number::count(n));
        results.add(TURNOVER.check(CheckStatus::Note, text));
    }
}

fn check_keep_alive(settings: &ApacheSettings, results: &mut CheckResults) {
    let value = |name: &str| settings.values.get(name).map(String::as_str);
    if value("keepalive").is_some_and(|value| value.eq_ignore_ascii_case("off")) {
        let text = "KeepAlive Off: each request needs a new connection";
        return results.add(KEEP_ALIVE.check(CheckStatus::Note, text));
    }
    let maximum = value("maxkeepaliverequests")
        .and_then(|value| value.parse().ok())
        .unwrap_or(100);
    let status = match maximum {
        1..1000 => CheckStatus::Note,
        _ => CheckStatus::Ok,
    };
    let text = match maximum {
        0 => "no limit on requests per connection".to_owned(),
        maximum => format!("{} requests per connection", number::count(maximum)),
    };
    results.add(KEEP_ALIVE.check(status, text));
}

#[cfg(test)]
mod tests {
    use super::super::files::InMemoryFiles;
    use super::*;

    const MAIN: &str = "\
ServerRoot \"/etc/apache2\"
IncludeOptional mods-enabled/*.load
IncludeOptional mods-enabled/*.conf
KeepAlive Off
<VirtualHost *:80>
KeepAlive On
</VirtualHost>
";
    const LOAD: &str = "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n";
    const EVENT: &str = "\
<IfModule mpm_prefork_module>
MaxRequestWorkers 9
</IfModule>
<IfModule mpm_event_module>
ThreadsPerChild 100
MaxRequestWorkers 2000
MaxConnectionsPerChild 5
</IfModule>
";

    #[test]
    fn settings_of_the_loaded_module_apply() {
        let mut files = InMemoryFiles(vec![
            ("/etc/apache2/apache2.conf", MAIN),
            ("/etc/apache2/mods-enabled/mpm_event.load", LOAD),
            ("/etc/apache2/mods-enabled/mpm_event.conf", EVENT),
        ]);
        let mut lines = Vec::new();
        let main = Path::new("/etc/apache2/apache2.conf");
        read_directives(&mut files, main, &mut PathBuf::from("/"), &mut lines);
        let mut results = CheckResults::default();
        check_settings(&settings(&lines), &mut results);
        let brief: Vec<_> = results
            .checks
            .iter()
            .map(|check| (check.id, check.status))
            .collect();
        let expected = [
            ("apache-max-request-workers", CheckStatus::Ok),
            ("apache-server-limit", CheckStatus::Warning),
            ("apache-keep-alive", CheckStatus::Note),
            ("apache-connections-per-child", CheckStatus::Note),
        ];
        assert_eq!(brief, expected);
        assert!(
            results.checks[0].observed.starts_with("1,600 requests"),
            "{:?}",
            results.checks[0]
        );
        assert!(
            results.checks[1]
                .observed
                .contains("ThreadsPerChild 100 above ThreadLimit 64")
        );
    }

    #[test]
    fn missing_settings_have_the_defaults_of_httpd() {
        let mut results = CheckResults::default();
        check_settings(&settings(&[]), &mut results);
        assert!(
            results.checks[0].observed.starts_with("400 requests"),
            "{:?}",
            results.checks[0]
        );
        let lines = [vec![
            "LoadModule".to_owned(),
            "mpm_prefork_module".to_owned(),
        ]];
        let mut results = CheckResults::default();
        check_settings(&settings(&lines), &mut results);
        assert!(
            results.checks[0].observed.starts_with("256 requests"),
            "{:?}",
            results.checks[0]
        );
    }
}
