//! Checks of a server's listening sockets: the backlog, waiting connections, and dropped
//! connections.

mod diag;

use std::collections::HashSet;

use procfs::process::{FDTarget, Process};

use diag::{Listener, in_network_of, listeners_of};

use prony_record::number;

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::process::ServerProcess;
use crate::system::proc_files::paired;

/// Minimum recommended backlog. A burst of new connections in a typical load overflows a shorter
/// queue.
const BACKLOG_MIN: u32 = 1024;

const BACKLOG: CheckTopic = CheckTopic {
    id: "listen-backlog",
    expected: "a backlog of at least 1,024, and at least the number of connections that a load \
        opens at the same time",
    why: "connections wait in this queue until the server accepts them; when the queue is full, \
        the kernel drops new connections and clients retry after a second, which causes response \
        times of 1 s that don't appear in any server log",
    change: "raise the backlog of the server, and net.core.somaxconn, which limits the backlog",
    source: "listen(2); net.core.somaxconn in the kernel's admin-guide/sysctl/net",
};

const QUEUE: CheckTopic = CheckTopic {
    id: "accept-queue",
    expected: "almost no connections waiting",
    why: "connections arrive faster than the server accepts them",
    change: "add workers, use reuseport, or raise the backlog if bursts are the cause",
    source: "ss(8), Recv-Q of listening sockets; listen(2)",
};

const OVERFLOWS: CheckTopic = CheckTopic {
    id: "listen-overflows",
    expected: "none",
    why: "the kernel dropped each of these connections because a queue was full; the client \
        retries after a second, or gives up",
    change: "raise the listener's backlog and net.core.somaxconn, or add workers; watch the \
        counters with nstat -az TcpExtListenOverflows",
    source: "listen(2); TcpExt ListenOverflows and ListenDrops in the kernel's networking/snmp_counter",
};

/// Number of connections that the kernel has dropped in a network namespace since the namespace was
/// created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListenDrops {
    overflows: u64,
    drops: u64,
}

impl ListenDrops {
    /// Reads the drop counters of a process's network namespace; `None` if they can't be read.
    pub(super) fn of(pid: i32) -> Option<ListenDrops> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/netstat")).ok()?;
        ListenDrops::parse(&text)
    }

    fn parse(netstat: &str) -> Option<ListenDrops> {
        let value = |name: &str| paired(netstat, "TcpExt:", name);
        Some(ListenDrops {
            overflows: value("ListenOverflows")?,
            drops: value("ListenDrops")?,
        })
    }
}

/// Checks a server's listening sockets. `before` holds the drop counters that were read `seconds`
/// ago.
pub(super) fn check_listening(
    server: &ServerProcess,
    before: Option<ListenDrops>,
    seconds: f64,
) -> CheckResults {
    let mut results = CheckResults::default();
    match (before, ListenDrops::of(server.pid)) {
        (Some(before), Some(now)) => check_drops(before, now, seconds, &mut results),
        _ => results.add_undetermined(
            "dropped connections",
            "the server's netstat counters can't be read",
        ),
    }
    let Some(inodes) = sockets(server) else {
        results.add_undetermined(
            "the server's listening sockets",
            "the server's open files can't be read; run prony as root or as the server's user",
        );
        return results;
    };
    let listed = match listeners_of(server.pid) {
        Ok(listed) => listed,
        Err(error) => {
            let why = format!("the kernel's list of sockets can't be read: {error}");
            results.add_undetermined("the server's listening sockets", why);
            return results;
        }
    };
    if let Some(error) = listed.without_unix {
        results.add_undetermined("the server's listening UNIX sockets", error.to_string());
    }
    let own: Vec<Listener> = listed
        .listeners
        .into_iter()
        .filter(|listener| inodes.contains(&u64::from(listener.inode)))
        .collect();
    check_listeners(&own, somaxconn(server.pid), &mut results);
    results
}

fn check_drops(before: ListenDrops, now: ListenDrops, seconds: f64, results: &mut CheckResults) {
    let grown =
        now.overflows.saturating_sub(before.overflows) + now.drops.saturating_sub(before.drops);
    let text = format!(
        "{} overflows and {} drops since the server's network namespace was created, {} of them in \
         the last {seconds:.0} s",
        number::count(now.overflows),
        number::count(now.drops),
        number::count(grown)
    );
    let status = match (grown, now.overflows.max(now.drops)) {
        (0, 0) => CheckStatus::Ok,
        (0, _) => CheckStatus::Note,
        _ => CheckStatus::Error,
    };
    results.add(OVERFLOWS.check(status, text));
}

/// Adds one check for each listener that needs attention, and one combined check for all others.
fn check_listeners(listeners: &[Listener], somaxconn: Option<u32>, results: &mut CheckResults) {
    let mut fine = Vec::new();
    for listener in listeners {
        let Listener {
            address,
            waiting,
            backlog,
            ..
        } = listener;
        if *waiting > 0 && waiting * 2 >= *backlog {
            let text = format!(
                "{waiting} connections are waiting at {address} (backlog \
                {backlog})"
            );
            let status = if waiting >= backlog {
                CheckStatus::Error
            } else {
                CheckStatus::Warning
            };
            results.add(QUEUE.check(status, text));
        }
        let cap = somaxconn.map_or(String::new(), |cap| format!(" (somaxconn is {cap})"));
        let text = format!("{address}: {backlog}{cap}");
        if *backlog >= BACKLOG_MIN {
            fine.push(text);
            continue;
        }
        let check = BACKLOG.check(CheckStatus::Note, text);
        let is_capped = somaxconn.is_some_and(|cap| *backlog >= cap);
        let change = if is_capped {
            format!(
                "sysctl -w net.core.somaxconn=4096 in the server's network namespace, then raise \
                 the server's backlog and restart it ({BACKLOG_SETTINGS})"
            )
        } else {
            format!("raise the server's backlog: {BACKLOG_SETTINGS}")
        };
        results.add(check.with_change(change));
    }
    if !fine.is_empty() {
        results.add(BACKLOG.check(CheckStatus::Ok, fine.join(", ")));
    }
}

/// Backlog settings of well-known servers.
const BACKLOG_SETTINGS: &str = "nginx: listen … backlog=4096; Apache: ListenBacklog 4096; HAProxy: \
    backlog 4096; php-fpm: listen.backlog = 4096";

/// Returns the backlog limit of the process's network namespace.
fn somaxconn(pid: i32) -> Option<u32> {
    let text = in_network_of(pid, || {
        std::fs::read_to_string("/proc/sys/net/core/somaxconn")
    });
    text.ok()?.trim().parse().ok()
}

/// Inodes of all sockets that the server's processes have open; `None` if their open files can't be
/// read.
fn sockets(server: &ServerProcess) -> Option<HashSet<u64>> {
    let mut inodes = HashSet::new();
    let mut hidden = None;
    for pid in &server.family {
        match Process::new(*pid).and_then(|process| process.fd()) {
            Ok(files) => inodes.extend(files.flatten().filter_map(|file| match file.target {
                FDTarget::Socket(inode) => Some(inode),
                _ => None,
            })),
            Err(error) => hidden = Some(error),
        }
    }
    match hidden {
        Some(_) if inodes.is_empty() => None,
        _ => Some(inodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_with_its_backlog() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let own = i32::try_from(std::process::id()).unwrap();
        let all = listeners_of(own).unwrap().listeners;
        let found = all.iter().find(|l| l.address == address).unwrap();
        // 128 is the backlog that Rust's standard library requests.
        assert_eq!((found.backlog, found.waiting), (128, 0));
        let server = ServerProcess::of(own).unwrap();
        assert!(sockets(&server).unwrap().contains(&u64::from(found.inode)));
    }

    #[test]
    fn a_unix_listener_is_found_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let all = listeners_of(own).unwrap().listeners;
        let address = format!("unix:{}", path.display());
        let found = all.iter().find(|l| l.address == address).unwrap();
        assert!(found.backlog >= 128, "{found:?}");
    }

    fn listener(waiting: u32, backlog: u32) -> Listener {
        Listener {
            address: "127.0.0.1:80".to_owned(),
            waiting,
            backlog,
            inode: 1,
        }
    }

    #[test]
    fn short_backlogs_differ_from_full_queues() {
        let brief = |listener, cap| {
            let mut results = CheckResults::default();
            check_listeners(&[listener], Some(cap), &mut results);
            let lines = results.checks.iter().map(|line| (line.id, line.status));
            (
                lines.collect::<Vec<_>>(),
                results.checks.last().unwrap().change.clone(),
            )
        };
        let (lines, _) = brief(listener(0, 4096), 4096);
        assert_eq!(lines, [("listen-backlog", CheckStatus::Ok)]);
        let (lines, change) = brief(listener(511, 511), 4096);
        let expected = [
            ("accept-queue", CheckStatus::Error),
            ("listen-backlog", CheckStatus::Note),
        ];
        assert_eq!(lines, expected);
        assert!(!change.contains("somaxconn"), "{change}");
        let (_, change) = brief(listener(0, 128), 128);
        assert!(change.contains("net.core.somaxconn"), "{change}");
    }

    #[test]
    fn ongoing_overflows_are_an_error() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 5 7\n";
        let now = ListenDrops::parse(text).unwrap();
        assert_eq!(
            now,
            ListenDrops {
                overflows: 5,
                drops: 7
            }
        );
        assert_eq!(ListenDrops::parse("IpExt: a\nIpExt: 1\n"), None);
        let status = |before| {
            let mut results = CheckResults::default();
            check_drops(before, now, 1.0, &mut results);
            results.checks[0].status
        };
        assert_eq!(status(now), CheckStatus::Note);
        assert_eq!(status(ListenDrops::default()), CheckStatus::Error);
        let mut results = CheckResults::default();
        check_drops(
            ListenDrops::default(),
            ListenDrops::default(),
            1.0,
            &mut results,
        );
        assert_eq!(results.checks[0].status, CheckStatus::Ok);
    }
}
