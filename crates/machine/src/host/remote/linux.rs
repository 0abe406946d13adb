//! A remote Linux machine: parsers for the files in /proc that the remote shell prints.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use prony_plan::watch_spec::RemoteService;

use super::shell::{Sections, quoted, section};
use crate::system::proc_files::{self, NetFiles, REMOTE_PAGE_BYTES};
use crate::system::process::{Process, ProcessTable};
use crate::telemetry::{HostSample, MemoryKind, ServiceSample};

/// Interval at which memory is read. For each reading, the kernel walks the page tables of every
/// process.
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the definition of the remote shell's function `followed`, which prints the processes in
/// the control groups and pid files of the services.
pub(super) fn followed(services: &BTreeMap<String, RemoteService>) -> String {
    let mut script = "followed() {\n:\n".to_owned();
    for (name, service) in services {
        if let Some(path) = &service.follow.pid_file {
            let path = quoted(&path.to_string_lossy());
            script.push_str(&format!("at pid:{name}; cat -- {path}\n"));
        }
        if let Some(group) = &service.follow.cgroup {
            let group = quoted(
                group
                    .trim_start_matches("/sys/fs/cgroup")
                    .trim_start_matches('/'),
            );
            script.push_str(&format!("\"${{system}}_group\" {name} {group}\n"));
        }
    }
    script.push_str("}\n");
    script
}

/// Parses the data of the machine and its list of processes.
pub(super) fn machine(sections: &Sections) -> (HostSample, ProcessTable) {
    let text = |name: &str| section(sections, name);
    let network = NetFiles {
        snmp: text("snmp"),
        snmp6: text("snmp6"),
        netstat: text("netstat"),
        sockstat: text("sockstat"),
    };
    let host = HostSample {
        memory_used_bytes: proc_files::memory_used_bytes(text("meminfo")),
        open_files: proc_files::open_files(text("file-nr")),
        load_average: proc_files::load_average(text("loadavg")),
        interfaces: proc_files::interfaces(text("dev")),
        tcp: proc_files::tcp_counters(&network),
        udp: proc_files::udp_counters(&network),
        ..proc_files::machine(text("stat"))
    };
    let table = text("processes")
        .lines()
        .filter_map(|stat| proc_files::process(stat, REMOTE_PAGE_BYTES))
        .collect();
    (host, table)
}

/// Returns the processes that listen on a port.
pub(super) fn holders(sections: &Sections, port: u16) -> Vec<i32> {
    let inodes = proc_files::listeners(section(sections, "tcp"), port);
    proc_files::holders(section(sections, "files"), &inodes)
}

/// Returns the processes of a service: those in its control group, and the process in its pid file
/// with its descendants. If the service has neither, returns the processes that listen on its port,
/// with their descendants.
pub(super) fn members<'a>(
    name: &str,
    wanted: &RemoteService,
    holders: &[i32],
    sections: &Sections,
    table: &'a ProcessTable,
) -> Vec<&'a Process> {
    let mut roots: Vec<i32> = Vec::new();
    if wanted.follow.is_empty() {
        roots.extend(holders);
    }
    let numbers = |name: String| {
        let lines = section(sections, &name).lines();
        lines
            .filter_map(|line| line.trim().parse::<i32>().ok())
            .collect::<Vec<_>>()
    };
    roots.extend(numbers(format!("pid:{name}")).first());
    let mut pids: BTreeSet<i32> = numbers(format!("group:{name}")).into_iter().collect();
    for root in roots {
        if pids.insert(root) {
            pids.extend(table.descendants(root).iter().map(|process| process.pid));
        }
    }
    let there = pids.into_iter().filter_map(|pid| table.get(pid));
    there.filter(|process| !process.zombie).collect()
}

/// Returns the CPU seconds of a service's control group: total, user mode and kernel mode. `None`
/// if the service can also have processes outside the group.
pub(super) fn group_cpu(name: &str, sections: &Sections) -> Option<(f64, f64, f64)> {
    if sections.contains_key(&format!("pid:{name}")) {
        return None;
    }
    proc_files::cgroup_cpu_s(section(sections, &format!("cpu:{name}")))
}

/// Resource usage of a remote service, accumulated over all samples.
#[derive(Debug, Default)]
pub(super) struct RemoteServiceHistory {
    threads: HashMap<i32, (u64, u64)>,
    voluntary: u64,
    involuntary: u64,
    cpu_s: f64,
    memory: Option<(u64, Instant)>,
}

impl RemoteServiceHistory {
    /// Returns true if it is time to read the memory usage again.
    pub(super) fn wants_memory(&self) -> bool {
        self.memory
            .is_none_or(|(_, read)| read.elapsed() >= MEMORY_INTERVAL)
    }

    /// Returns a sample of the given processes, from the output of the remote shell.
    pub(super) fn sample(
        &mut self,
        members: &[&Process],
        details: &Sections,
        group: Option<(f64, f64, f64)>,
    ) -> ServiceSample {
        let text = |name: &str| section(details, name);
        let mut sample = ServiceSample {
            processes: members.len() as u64,
            threads: members.iter().map(|process| process.threads).sum(),
            open_files: text("open").trim().parse().unwrap_or(0),
            ..ServiceSample::default()
        };
        self.add_switches(text("status"));
        (sample.voluntary_switches, sample.involuntary_switches) =
            (self.voluntary, self.involuntary);
        self.cpu(members, text("run"), group, &mut sample);
        let mut pss = text("memory")
            .lines()
            .filter(|line| line.starts_with("Pss:"))
            .peekable();
        if pss.peek().is_some() {
            let bytes = pss.filter_map(proc_files::proportional_bytes).sum();
            self.memory = Some((bytes, Instant::now()));
        }
        (sample.memory_bytes, sample.memory_kind) = match self.memory {
            Some((bytes, _)) => (bytes, MemoryKind::Proportional),
            None => {
                let resident = members.iter().map(|process| process.resident_bytes);
                (resident.sum(), MemoryKind::Resident)
            }
        };
        sample
    }

    fn cpu(
        &mut self,
        members: &[&Process],
        run: &str,
        group: Option<(f64, f64, f64)>,
        sample: &mut ServiceSample,
    ) {
        let cpu_s;
        if let Some((all_s, user_s, system_s)) = group {
            cpu_s = all_s;
            (sample.cpu_user_s, sample.cpu_system_s) = (user_s, system_s);
        } else {
            let run_ns: u64 = run.lines().filter_map(proc_files::run_ns).sum();
            let own_s: f64 = members
                .iter()
                .map(|process| process.user_s + process.system_s)
                .sum();
            let reaped_s = members.iter().map(|p| p.reaped_user_s + p.reaped_system_s);
            cpu_s = own_s.max(run_ns as f64 / 1e9) + reaped_s.sum::<f64>();
            sample.cpu_user_s = members.iter().map(|p| p.user_s + p.reaped_user_s).sum();
            sample.cpu_system_s = members.iter().map(|p| p.system_s + p.reaped_system_s).sum();
        }
        // The sum lacks the time of threads that ended between two samples. Make sure that the
        // total never decreases.
        self.cpu_s = self.cpu_s.max(cpu_s);
        sample.cpu_s = self.cpu_s;
    }

    /// Adds the context switches of each thread since the last sample, from the `status` files of
    /// the threads.
    fn add_switches(&mut self, statuses: &str) {
        let mut now = HashMap::new();
        let mut thread: Option<(i32, u64)> = None;
        let number = |rest: &str| rest.trim().parse::<u64>().ok();
        for line in statuses.lines() {
            if let Some(rest) = line.strip_prefix("Pid:") {
                thread = rest.trim().parse().ok().map(|id| (id, 0));
            } else if let Some(rest) = line.strip_prefix("voluntary_ctxt_switches:") {
                thread = thread.zip(number(rest)).map(|((id, _), count)| (id, count));
            } else if let Some(rest) = line.strip_prefix("nonvoluntary_ctxt_switches:")
                && let Some(((id, voluntary), involuntary)) = thread.take().zip(number(rest))
            {
                now.insert(id, (voluntary, involuntary));
            }
        }
        for (id, (voluntary, involuntary)) in &now {
            let then = self.threads.get(id).copied();
            // The thread ID may have been reused by another thread.
            let (then_voluntary, then_involuntary) = then
                .filter(|then| then.0 <= *voluntary && then.1 <= *involuntary)
                .unwrap_or_default();
            self.voluntary += voluntary - then_voluntary;
            self.involuntary += involuntary - then_involuntary;
        }
        self.threads = now;
    }
}

#[cfg(test)]
mod tests {
    use prony_plan::service::FollowSpec;

    use super::*;

    fn sections(of: &[(&str, &str)]) -> Sections {
        of.iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn process(pid: i32, parent: i32, user: u32) -> String {
        format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {user} 5 1 2 20 0 2 0 77 1 25 0\n")
    }

    #[test]
    fn processes_are_attributed_to_services() {
        let processes =
            process(1, 0, 0) + &process(10, 1, 100) + &process(11, 10, 50) + &process(12, 1, 7);
        let answer = sections(&[
            (
                "stat",
                "cpu 100 0 100 100 0 0 50 0\ncpu0 1\ncpu1 1\nctxt 9\n",
            ),
            ("processes", &processes),
            ("group:grouped", "12\n13\n\n11\n"),
            ("pid:named", "10\n"),
        ]);
        let (host, table) = machine(&answer);
        assert_eq!((host.cores, host.context_switches), (2, 9));
        let pids = |name: &str, follow: FollowSpec, holders: &[i32]| -> Vec<i32> {
            let wanted = RemoteService {
                port: Some(80),
                follow,
            };
            let members = members(name, &wanted, holders, &answer, &table);
            members.iter().map(|process| process.pid).collect()
        };
        assert_eq!(pids("listening", FollowSpec::default(), &[10]), [10, 11]);
        let named = FollowSpec {
            pid_file: Some("/run/x.pid".into()),
            ..FollowSpec::default()
        };
        assert_eq!(pids("named", named, &[]), [10, 11]);
        let grouped = FollowSpec {
            cgroup: Some("x".into()),
            ..FollowSpec::default()
        };
        assert_eq!(pids("grouped", grouped, &[10]), [11, 12]);
    }

    #[test]
    fn figures_add_up_from_sample_to_sample() {
        let of = |text: &str| proc_files::process(text, REMOTE_PAGE_BYTES).unwrap();
        let (one, two) = (of(&process(10, 1, 100)), of(&process(11, 10, 50)));
        let status = |id: i32, voluntary: u64| {
            format!(
                "Name:\tx\nPid:\t{id}\nPPid:\t1\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t1\n"
            )
        };
        let mut memory = RemoteServiceHistory::default();
        assert!(memory.wants_memory());
        let first = memory.sample(
            &[&one, &two],
            &sections(&[
                ("status", &(status(10, 5) + &status(11, 6))),
                ("run", "1700000000 0 1\n200000000 0 1\n"),
                ("open", "9\n"),
                (
                    "memory",
                    "Rss: 9 kB\nPss: 4 kB\nPss_Anon: 1 kB\nPss:\t6 kB\n",
                ),
            ]),
            None,
        );
        assert_eq!(
            (first.voluntary_switches, first.involuntary_switches),
            (11, 2)
        );
        // 1.6 s in ticks, 1.9 s in nanoseconds, and 0.06 s of ended children.
        assert!((first.cpu_s - 1.96).abs() < 1e-9, "{}", first.cpu_s);
        assert!((first.cpu_user_s - 1.52).abs() < 1e-9);
        assert_eq!(
            (first.memory_bytes, first.memory_kind),
            (10 * 1024, MemoryKind::Proportional)
        );
        assert_eq!((first.open_files, first.threads), (9, 4));
        assert!(!memory.wants_memory());
        let second = memory.sample(&[&one], &sections(&[("status", &status(10, 8))]), None);
        assert_eq!(second.voluntary_switches, 14);
        assert!((second.cpu_s - 1.96).abs() < 1e-9, "a total never falls");
        assert_eq!(second.memory_bytes, 10 * 1024);
        let of_group = memory.sample(&[&one], &sections(&[]), Some((5.0, 4.0, 1.0)));
        assert!((of_group.cpu_s - 5.0).abs() < 1e-9 && (of_group.cpu_user_s - 4.0).abs() < 1e-9);
    }

    #[test]
    fn quoted_paths_are_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("a'; rm x"), r"'a'\''; rm x'");
        let follow = FollowSpec {
            cgroup: Some("/sys/fs/cgroup/a".into()),
            pid_file: Some("/run/it's".into()),
        };
        let services = [("web".to_owned(), RemoteService { port: None, follow })].into();
        let script = followed(&services);
        assert!(script.contains("\"${system}_group\" web 'a'\n"), "{script}");
        assert!(script.contains(r"cat -- '/run/it'\''s'"), "{script}");
    }
}
