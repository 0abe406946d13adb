//! Processes of a service that don't descend from its keeper: the members of a control group, and
//! the process in a pid file with its descendants.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use prony_plan::service::FollowSpec;

use crate::system::process::{Process, ProcessTable};
use crate::system::{group_usage, proc_files};

/// Mount points of control groups: version 2, and hierarchies of version 1 and of hybrid systems,
/// those that count CPU time first.
const CGROUP_ROOTS: [&str; 6] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/cpuacct",
    "/sys/fs/cgroup/cpu,cpuacct",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/pids",
];

/// Tolerance, in seconds, for comparing the start time of a process with the modification time of a
/// file.
const CLOCK_SLACK_S: f64 = 2.0;

/// Processes of a service that are outside of its process tree.
#[derive(Debug, Default)]
pub(super) struct FollowedProcesses<'a> {
    /// Processes that the service's `follow` setting describes.
    pub(super) processes: Vec<&'a Process>,
    /// Total, user and kernel CPU seconds of the control groups, including ended processes; `None`
    /// if no group reports them.
    pub(super) group_cpu_s: Option<(f64, f64, f64)>,
    /// True if the service's own control group counts the CPU time of the whole process tree.
    pub(super) counts_tree: bool,
    /// Processes whose CPU time `group_cpu_s` includes.
    counted: HashSet<i32>,
}

impl<'a> FollowedProcesses<'a> {
    /// Finds the processes that `follow` describes, and those of the service's own control group.
    pub(super) fn find(
        follow: &FollowSpec,
        own_group: Option<&Path>,
        table: &'a ProcessTable,
    ) -> Self {
        let mut found = Self::default();
        let mut in_groups = HashSet::new();
        let followed = follow.cgroup.as_ref().and_then(|path| group_folder(path));
        for folder in followed.as_deref().into_iter().chain(own_group) {
            let members = group_usage::members(folder);
            if let Some(cpu_s) = group_usage::cpu_s(folder) {
                let sum = found.group_cpu_s.unwrap_or_default();
                found.group_cpu_s = Some((sum.0 + cpu_s.0, sum.1 + cpu_s.1, sum.2 + cpu_s.2));
                found.counts_tree |= Some(folder) == own_group;
                found.counted.extend(&members);
            }
            in_groups.extend(members);
        }
        found
            .processes
            .extend(in_groups.iter().filter_map(|pid| table.get(*pid)));
        let root = follow
            .pid_file
            .as_ref()
            .and_then(|path| named_process(path, table));
        if let Some(root) = root {
            let below = table.descendants(root.pid);
            for process in std::iter::once(root).chain(below) {
                if !in_groups.contains(&process.pid) {
                    found.processes.push(process);
                }
            }
        }
        found
    }

    /// Iterates over the IDs of the followed processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.processes.iter().map(|process| process.pid)
    }

    /// Returns true if the control groups' CPU total includes the process.
    pub(super) fn is_counted(&self, pid: i32) -> bool {
        self.counted.contains(&pid)
    }

    /// Iterates over the followed processes that are not in `tree`.
    pub(super) fn outside(&self, tree: &[&Process]) -> impl Iterator<Item = &'a Process> {
        let own: HashSet<i32> = tree.iter().map(|process| process.pid).collect();
        let outside = move |process: &&Process| !own.contains(&process.pid);
        self.processes.clone().into_iter().filter(outside)
    }
}

/// Returns the folder of a control group: `path` itself, or `path` below one of the mount points.
fn group_folder(path: &str) -> Option<PathBuf> {
    let is_group = |folder: &PathBuf| folder.join("cgroup.procs").is_file();
    let whole = Path::new(path);
    if whole.starts_with("/sys/fs/cgroup") {
        return Some(whole.to_owned()).filter(is_group);
    }
    let below = path.trim_start_matches('/');
    CGROUP_ROOTS
        .iter()
        .map(|root| Path::new(root).join(below))
        .find(is_group)
}

/// Returns the process that a pid file names. If the file is stale, its ID may now belong to
/// another process, which is younger than the file and is not returned.
fn named_process<'a>(path: &Path, table: &'a ProcessTable) -> Option<&'a Process> {
    let pid = file_text(path)?.lines().next()?.trim().parse().ok()?;
    let process = table.get(pid)?;
    let written = path.metadata().ok()?.modified().ok()?;
    let stat = file_text(Path::new("/proc/stat"))?;
    let started_s =
        proc_files::boot_time_s(&stat)? as f64 + process.start as f64 / proc_files::TICKS_PER_S;
    (started_s <= seconds(written) + CLOCK_SLACK_S).then_some(process)
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

fn file_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(path: &Path) -> FollowSpec {
        FollowSpec {
            pid_file: Some(path.to_owned()),
            ..FollowSpec::default()
        }
    }

    #[test]
    fn a_pid_file_names_a_process_unless_it_is_older_than_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        std::fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        let table = super::super::processes();
        let pids: Vec<i32> = FollowedProcesses::find(&follow(&path), None, &table)
            .pids()
            .collect();
        assert_eq!(pids.first(), Some(&std::process::id().cast_signed()));
        let old = UNIX_EPOCH + std::time::Duration::from_secs(1);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(
            FollowedProcesses::find(&follow(&path), None, &table)
                .pids()
                .count(),
            0
        );
        for rubbish in ["", "x\n", "-1", "99999999999"] {
            std::fs::write(&path, rubbish).unwrap();
            assert_eq!(
                FollowedProcesses::find(&follow(&path), None, &table)
                    .pids()
                    .count(),
                0,
                "{rubbish:?}"
            );
        }
        assert_eq!(
            FollowedProcesses::find(&follow(Path::new("/nonexistent")), None, &table)
                .pids()
                .count(),
            0
        );
    }

    #[test]
    fn a_missing_group_has_no_processes() {
        let table = super::super::processes();
        let wanted = FollowSpec {
            cgroup: Some("no-such-group/at-all".to_owned()),
            ..FollowSpec::default()
        };
        let found = FollowedProcesses::find(&wanted, None, &table);
        assert_eq!((found.pids().count(), found.group_cpu_s), (0, None));
    }
}
