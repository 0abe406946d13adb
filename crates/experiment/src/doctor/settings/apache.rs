//! Apache httpd: how many requests its children answer at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::line::{Level, Seen, Topic, thousands};
use super::super::process::Server;
use super::{Files, OfServer, first_of, option, within};

/// Requests at once that a usual load test needs.
const FEW_WORKERS: u64 = 400;

const WORKERS: Topic = Topic {
    id: "apache-max-request-workers",
    expected: "as many as the load's requests under way",
    why: "each request under way holds a thread (event and worker) or a process (prefork); more \
        connections wait in the listen queue",
    change: "MaxRequestWorkers, with ServerLimit × ThreadsPerChild no lower",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#maxrequestworkers",
};

const CAPPED: Topic = Topic {
    id: "apache-server-limit",
    expected: "ServerLimit × ThreadsPerChild no lower than MaxRequestWorkers, ThreadsPerChild no \
        higher than ThreadLimit",
    why: "httpd lowers the one to the other when it starts, and says so in its error log only",
    change: "raise ServerLimit or ThreadLimit; both need a stop and a start",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#serverlimit",
};

const KEEP_ALIVE: Topic = Topic {
    id: "apache-keep-alive",
    expected: "KeepAlive On with 1,000 or more requests a connection, or 0 for any number",
    why: "the server closes each connection after so many requests, and a new one costs a handshake",
    change: "KeepAlive On, MaxKeepAliveRequests 0",
    source: "httpd.apache.org/docs/2.4/mod/core.html#maxkeepaliverequests",
};

const TURNOVER: Topic = Topic {
    id: "apache-connections-per-child",
    expected: "0: children live on",
    why: "children end after so many connections, and new ones start in the middle of a load",
    change: "MaxConnectionsPerChild 0",
    source: "httpd.apache.org/docs/2.4/mod/mpm_common.html#maxconnectionsperchild",
};

/// What was read, directives by their name in lower case; the last one counts.
#[derive(Debug, Default)]
struct Settings {
    values: HashMap<String, String>,
    /// The multi-processing module that is loaded, such as `event`; `None` if it is built in.
    mpm: Option<String>,
}

pub(super) fn look(server: &Server) -> Seen {
    let mut seen = Seen::default();
    let Some((root, main)) = main_file(server) else {
        seen.unknown("Apache's settings", "its configuration file was not found");
        return seen;
    };
    let mut files = OfServer::new(server);
    let mut lines = Vec::new();
    read(&mut files, &main, &mut root.clone(), &mut lines);
    files.report(&mut seen);
    if !lines.is_empty() {
        judge(&settings(&lines), &mut seen);
    }
    seen
}

/// The server's root and its main file, from `-d` and `-f` or where distributions put them.
fn main_file(server: &Server) -> Option<(PathBuf, PathBuf)> {
    const USUAL: [&str; 5] = [
        "/etc/apache2/apache2.conf",
        "/etc/httpd/conf/httpd.conf",
        "/etc/apache2/httpd.conf",
        "/usr/local/etc/apache24/httpd.conf",
        "/usr/local/apache2/conf/httpd.conf",
    ];
    let usual = first_of(server, &USUAL);
    let folder = usual.as_deref().and_then(Path::parent);
    let root = option(&server.arguments, "-d").map(PathBuf::from);
    let root = root.or_else(|| Some(folder?.to_owned()));
    match option(&server.arguments, "-f") {
        Some(typed) => {
            let root = root.unwrap_or_else(|| PathBuf::from("/"));
            let main = within(&root, &typed);
            Some((root, main))
        }
        None => Some((root?, usual?)),
    }
}

/// Every line of the files, includes in their place, continued lines joined.
fn read(files: &mut dyn Files, path: &Path, root: &mut PathBuf, into: &mut Vec<Vec<String>>) {
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
                    read(files, &path, root, into);
                }
            }
            _ => into.push(words),
        }
    }
}

/// The directives that hold: those within `<IfModule mpm_…>` of a module that isn't loaded don't,
/// nor do those of a `<VirtualHost>`, `<Directory>` and the like, which cap nothing here.
fn settings(lines: &[Vec<String>]) -> Settings {
    let loaded = lines.iter().find_map(|words| match words.as_slice() {
        [name, module, ..] if name.eq_ignore_ascii_case("LoadModule") => {
            module.strip_prefix("mpm_")?.strip_suffix("_module")
        }
        _ => None,
    });
    let mut settings = Settings {
        mpm: loaded.map(str::to_owned),
        ..Settings::default()
    };
    let mut open: Vec<bool> = Vec::new();
    for words in lines {
        let first = words[0].as_str();
        if first.starts_with("</") {
            open.pop();
        } else if first.starts_with('<') {
            let argument = words.get(1).map(|word| word.trim_end_matches('>'));
            open.push(holds(first, argument.unwrap_or_default(), loaded));
        } else if open.iter().all(|holds| *holds)
            && let Some(value) = words.get(1)
        {
            settings
                .values
                .insert(first.to_ascii_lowercase(), value.clone());
        }
    }
    settings
}

/// Whether what a section holds counts for the whole server.
fn holds(section: &str, argument: &str, mpm: Option<&str>) -> bool {
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
        // Which other modules are loaded caps nothing.
        _ => !negated,
    }
}

fn judge(settings: &Settings, seen: &mut Seen) {
    let number = |name: &str| settings.values.get(name)?.parse::<u64>().ok();
    let mpm = settings.mpm.as_deref().unwrap_or("event");
    let threaded = mpm != "prefork";
    // Defaults of httpd 2.4's mpm_common.
    let threads = if threaded {
        number("threadsperchild").unwrap_or(25)
    } else {
        1
    };
    let limit = number("serverlimit").unwrap_or(if threaded { 16 } else { 256 });
    let wanted = number("maxrequestworkers").or_else(|| number("maxclients"));
    let ceiling = limit.saturating_mul(threads);
    let workers = wanted.unwrap_or(ceiling).min(ceiling);
    let text = format!(
        "{} requests at once ({mpm}: MaxRequestWorkers {}, ServerLimit {limit}, ThreadsPerChild \
         {threads})",
        thousands(workers),
        wanted.map_or("not set".to_owned(), |n| n.to_string()),
    );
    let level = if workers < FEW_WORKERS {
        Level::Warning
    } else {
        Level::Ok
    };
    seen.line(WORKERS.line(level, text));
    let mut capped = Vec::new();
    if let Some(wanted) = wanted.filter(|wanted| *wanted > ceiling) {
        capped.push(format!(
            "MaxRequestWorkers {wanted} above ServerLimit × ThreadsPerChild = {ceiling}"
        ));
    }
    let thread_limit = number("threadlimit").unwrap_or(64);
    if threaded && threads > thread_limit {
        capped.push(format!(
            "ThreadsPerChild {threads} above ThreadLimit {thread_limit}"
        ));
    }
    match capped.is_empty() {
        true => seen.line(CAPPED.line(Level::Ok, "nothing is lowered")),
        false => seen.line(CAPPED.line(Level::Warning, capped.join("; "))),
    }
    keep_alive(settings, seen);
    if let Some(n) = number("maxconnectionsperchild")
        .or_else(|| number("maxrequestsperchild"))
        .filter(|n| *n > 0)
    {
        let text = format!("{} connections", thousands(n));
        seen.line(TURNOVER.line(Level::Note, text));
    }
}

fn keep_alive(settings: &Settings, seen: &mut Seen) {
    let value = |name: &str| settings.values.get(name).map(String::as_str);
    if value("keepalive").is_some_and(|value| value.eq_ignore_ascii_case("off")) {
        let text = "KeepAlive Off: a new connection for each request";
        return seen.line(KEEP_ALIVE.line(Level::Note, text));
    }
    let most = value("maxkeepaliverequests")
        .and_then(|value| value.parse().ok())
        .unwrap_or(100);
    let level = if (1..1000).contains(&most) {
        Level::Note
    } else {
        Level::Ok
    };
    let text = match most {
        0 => "any number of requests a connection".to_owned(),
        most => format!("{} requests a connection", thousands(most)),
    };
    seen.line(KEEP_ALIVE.line(level, text));
}

#[cfg(test)]
mod tests {
    use super::super::InMemory;
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
    fn the_loaded_module_s_settings_count() {
        let mut files = InMemory(vec![
            ("/etc/apache2/apache2.conf", MAIN),
            ("/etc/apache2/mods-enabled/mpm_event.load", LOAD),
            ("/etc/apache2/mods-enabled/mpm_event.conf", EVENT),
        ]);
        let mut lines = Vec::new();
        let main = Path::new("/etc/apache2/apache2.conf");
        read(&mut files, main, &mut PathBuf::from("/"), &mut lines);
        let mut seen = Seen::default();
        judge(&settings(&lines), &mut seen);
        let brief: Vec<_> = seen
            .lines
            .iter()
            .map(|line| (line.id, line.level))
            .collect();
        let expected = [
            ("apache-max-request-workers", Level::Ok),
            ("apache-server-limit", Level::Warning),
            ("apache-keep-alive", Level::Note),
            ("apache-connections-per-child", Level::Note),
        ];
        assert_eq!(brief, expected);
        assert!(
            seen.lines[0].seen.starts_with("1,600 requests"),
            "{:?}",
            seen.lines[0]
        );
        assert!(
            seen.lines[1]
                .seen
                .contains("ThreadsPerChild 100 above ThreadLimit 64")
        );
    }

    #[test]
    fn what_is_not_set_has_httpd_s_defaults() {
        let mut seen = Seen::default();
        judge(&settings(&[]), &mut seen);
        assert!(
            seen.lines[0].seen.starts_with("400 requests"),
            "{:?}",
            seen.lines[0]
        );
        let lines = [vec![
            "LoadModule".to_owned(),
            "mpm_prefork_module".to_owned(),
        ]];
        let mut seen = Seen::default();
        judge(&settings(&lines), &mut seen);
        assert!(
            seen.lines[0].seen.starts_with("256 requests"),
            "{:?}",
            seen.lines[0]
        );
    }
}
