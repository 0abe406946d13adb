//! A server's listening sockets: how many connections may wait there, how many do, and how many
//! were turned away.

mod diag;

use std::collections::HashSet;

use procfs::process::{FDTarget, Process};

use diag::{Listener, in_network_of, listeners_of};

use super::line::{Level, Seen, Topic, thousands};
use super::process::Server;

/// A load of more connections than this at once is not unusual; a shorter queue overflows in a burst
/// of new connections.
const LEAST_BACKLOG: u32 = 1024;

const BACKLOG: Topic = Topic {
    id: "listen-backlog",
    expected: "room for as many connections as a load opens at once, 1,024 or more",
    why: "finished handshakes wait here until the server accepts them; when it is full the kernel \
        drops them, and the client tries again after a second: a response time of 1 s that no \
        server log shows",
    change: "raise the backlog of the server, and net.core.somaxconn, which caps it",
    source: "listen(2); net.core.somaxconn in the kernel's admin-guide/sysctl/net",
};

const QUEUE: Topic = Topic {
    id: "accept-queue",
    expected: "next to nothing waiting",
    why: "the server does not accept as fast as connections arrive",
    change: "more workers, reuseport, or a longer backlog if bursts are the reason",
    source: "ss(8), Recv-Q of listening sockets; listen(2)",
};

const OVERFLOWS: Topic = Topic {
    id: "listen-overflows",
    expected: "none",
    why: "each was a connection that the kernel turned away because a queue was full; its client \
        waits a second and tries again, or gives up",
    change: "raise the listener's backlog and net.core.somaxconn, or add workers; watch it with \
        nstat -az TcpExtListenOverflows",
    source: "listen(2); TcpExt ListenOverflows and ListenDrops in the kernel's networking/snmp_counter",
};

/// What counts turned-away connections, of one network namespace, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Turned {
    overflows: u64,
    drops: u64,
}

impl Turned {
    /// The counters of a process's network namespace; `None` where they can't be read.
    pub(super) fn of(pid: i32) -> Option<Turned> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/netstat")).ok()?;
        Turned::parse(&text)
    }

    /// From lines that come in pairs: names, then values, both after `TcpExt:`.
    fn parse(netstat: &str) -> Option<Turned> {
        let mut lines = netstat
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |name: &str| {
            let mut pairs = names.split_whitespace().zip(values.split_whitespace());
            pairs
                .find(|(candidate, _)| *candidate == name)?
                .1
                .parse()
                .ok()
        };
        Some(Turned {
            overflows: value("ListenOverflows")?,
            drops: value("ListenDrops")?,
        })
    }
}

/// What is to be said of a server's listening sockets; `before` are the counters of a moment ago,
/// `seconds` how long ago that was.
pub(super) fn look(server: &Server, before: Option<Turned>, seconds: f64) -> Seen {
    let mut seen = Seen::default();
    match (before, Turned::of(server.pid)) {
        (Some(before), Some(now)) => turned_away(before, now, seconds, &mut seen),
        _ => seen.unknown(
            "connections that were turned away",
            "its netstat can't be read",
        ),
    }
    let inodes = match sockets(server) {
        Ok(inodes) => inodes,
        Err(why) => {
            seen.unknown("its listening sockets", why);
            return seen;
        }
    };
    let listed = match listeners_of(server.pid) {
        Ok(listed) => listed,
        Err(error) => {
            let why = format!("the kernel's list of sockets can't be read: {error}");
            seen.unknown("its listening sockets", why);
            return seen;
        }
    };
    if let Some(error) = listed.without_unix {
        seen.unknown("its listening UNIX sockets", error.to_string());
    }
    let own: Vec<Listener> = listed
        .listeners
        .into_iter()
        .filter(|listener| inodes.contains(&u64::from(listener.inode)))
        .collect();
    judge(&own, somaxconn(server.pid), &mut seen);
    seen
}

fn turned_away(before: Turned, now: Turned, seconds: f64, seen: &mut Seen) {
    let grown =
        now.overflows.saturating_sub(before.overflows) + now.drops.saturating_sub(before.drops);
    let text = format!(
        "{} overflows and {} drops in its network namespace since that began, {} of them in the \
         last {seconds:.0} s",
        thousands(now.overflows),
        thousands(now.drops),
        thousands(grown)
    );
    let level = match (grown, now.overflows.max(now.drops)) {
        (0, 0) => Level::Ok,
        (0, _) => Level::Note,
        _ => Level::Error,
    };
    seen.line(OVERFLOWS.line(level, text));
}

/// A line for each listener that isn't as it should be, one for all the others.
fn judge(listeners: &[Listener], somaxconn: Option<u32>, seen: &mut Seen) {
    let mut fine = Vec::new();
    for listener in listeners {
        let Listener {
            address,
            waiting,
            backlog,
            ..
        } = listener;
        if *waiting > 0 && waiting * 2 >= *backlog {
            let text = format!("{waiting} of {backlog} connections wait at {address}");
            let level = match waiting >= backlog {
                true => Level::Error,
                false => Level::Warning,
            };
            seen.line(QUEUE.line(level, text));
        }
        let cap = somaxconn.map_or(String::new(), |cap| format!(" (somaxconn is {cap})"));
        let text = format!("{address}: {backlog}{cap}");
        if *backlog >= LEAST_BACKLOG {
            fine.push(text);
            continue;
        }
        let line = BACKLOG.line(Level::Note, text);
        let capped = somaxconn.is_some_and(|cap| *backlog >= cap);
        let change = match capped {
            true => format!(
                "sysctl -w net.core.somaxconn=4096 in its network namespace, then a longer backlog \
                 in the server, which starts again ({BY_SERVER})"
            ),
            false => format!("a longer backlog in the server: {BY_SERVER}"),
        };
        seen.line(line.changed_by(change));
    }
    if !fine.is_empty() {
        seen.line(BACKLOG.line(Level::Ok, fine.join(", ")));
    }
}

/// What each server calls its backlog.
const BY_SERVER: &str = "nginx: listen … backlog=4096; Apache: ListenBacklog 4096; HAProxy: \
    backlog 4096; php-fpm: listen.backlog = 4096";

/// The cap of backlogs, in the process's network namespace.
fn somaxconn(pid: i32) -> Option<u32> {
    let text = in_network_of(pid, || {
        std::fs::read_to_string("/proc/sys/net/core/somaxconn")
    });
    text.ok()?.trim().parse().ok()
}

/// The inodes of all the sockets that the server's processes have open.
fn sockets(server: &Server) -> Result<HashSet<u64>, String> {
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
        Some(_) if inodes.is_empty() => {
            Err("its open files can't be read; run it as root or as the process's user".to_owned())
        }
        _ => Ok(inodes),
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
        // What Rust's library asks for.
        assert_eq!((found.backlog, found.waiting), (128, 0));
        let server = Server::of(own).unwrap();
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
    fn short_backlogs_and_full_queues_are_told_apart() {
        let brief = |listener, cap| {
            let mut seen = Seen::default();
            judge(&[listener], Some(cap), &mut seen);
            let lines = seen.lines.iter().map(|line| (line.id, line.level));
            (
                lines.collect::<Vec<_>>(),
                seen.lines.last().unwrap().change.clone(),
            )
        };
        let (lines, _) = brief(listener(0, 4096), 4096);
        assert_eq!(lines, [("listen-backlog", Level::Ok)]);
        let (lines, change) = brief(listener(511, 511), 4096);
        let expected = [
            ("accept-queue", Level::Error),
            ("listen-backlog", Level::Note),
        ];
        assert_eq!(lines, expected);
        assert!(!change.contains("somaxconn"), "{change}");
        let (_, change) = brief(listener(0, 128), 128);
        assert!(change.contains("net.core.somaxconn"), "{change}");
    }

    #[test]
    fn overflows_that_go_on_are_an_error() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 5 7\n";
        let now = Turned::parse(text).unwrap();
        assert_eq!(
            now,
            Turned {
                overflows: 5,
                drops: 7
            }
        );
        assert_eq!(Turned::parse("IpExt: a\nIpExt: 1\n"), None);
        let level = |before| {
            let mut seen = Seen::default();
            turned_away(before, now, 1.0, &mut seen);
            seen.lines[0].level
        };
        assert_eq!(level(now), Level::Note);
        assert_eq!(level(Turned::default()), Level::Error);
        let mut seen = Seen::default();
        turned_away(Turned::default(), Turned::default(), 1.0, &mut seen);
        assert_eq!(seen.lines[0].level, Level::Ok);
    }
}
