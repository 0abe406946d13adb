//! Processes of a service that don't descend from its keeper: the members of a control group, and
//! the process in a pid file with its descendants.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use prony_plan::service::FollowSpec;

use crate::system::proc_files;
use crate::system::process::{Process, ProcessTable};

/// Mount points of control groups: version 2, version 2 in hybrid mode, and version 1.
const CGROUP_ROOTS: [&str; 5] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/cpuacct",
    "/sys/fs/cgroup/pids",
];

/// Maximum depth of nested control groups.
const GROUP_DEPTH_MAX: usize = 16;

/// Tolerance, in seconds, for comparing the start time of a process with the modification time of a
/// file.
const CLOCK_SLACK_S: f64 = 2.0;

/// Processes of a service that are outside of its process tree.
#[derive(Debug, Default)]
pub(super) struct FollowedProcesses<'a> {
    /// Processes that the service's `follow` setting describes.
    pub(super) processes: Vec<&'a Process>,
    /// Total, user and kernel CPU seconds of the control group, including ended processes; `None`
    /// if the group doesn't report them or no group is followed.
    pub(super) group_cpu_s: Option<(f64, f64, f64)>,
    in_group: HashSet<i32>,
}

impl<'a> FollowedProcesses<'a> {
    /// Finds the processes that `follow` describes.
    pub(super) fn find(follow: &FollowSpec, table: &'a ProcessTable) -> Self {
        let mut found = Self::default();
        if let Some(folder) = follow.cgroup.as_ref().and_then(|path| group_folder(path)) {
            read_group(&folder, GROUP_DEPTH_MAX, &mut found.in_group);
            found.group_cpu_s =
                file_text(&folder.join("cpu.stat")).and_then(|t| proc_files::cgroup_cpu_s(&t));
            found
                .processes
                .extend(found.in_group.iter().filter_map(|pid| table.get(*pid)));
        }
        let root = follow
            .pid_file
            .as_ref()
            .and_then(|path| named_process(path, table));
        if let Some(root) = root {
            let below = table.descendants(root.pid);
            for process in std::iter::once(root).chain(below) {
                if !found.in_group.contains(&process.pid) {
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

    /// Returns true if the control group's CPU total includes the process.
    pub(super) fn is_in_group(&self, pid: i32) -> bool {
        self.group_cpu_s.is_some() && self.in_group.contains(&pid)
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

fn read_group(folder: &Path, deeper: usize, pids: &mut HashSet<i32>) {
    let members = file_text(&folder.join("cgroup.procs")).unwrap_or_default();
    pids.extend(
        members
            .lines()
            .filter_map(|line| line.trim().parse::<i32>().ok()),
    );
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if deeper > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            read_group(&entry.path(), deeper - 1, pids);
        }
    }
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
        let pids: Vec<i32> = FollowedProcesses::find(&follow(&path), &table)
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
            FollowedProcesses::find(&follow(&path), &table)
                .pids()
                .count(),
            0
        );
        for rubbish in ["", "x\n", "-1", "99999999999"] {
            std::fs::write(&path, rubbish).unwrap();
            assert_eq!(
                FollowedProcesses::find(&follow(&path), &table)
                    .pids()
                    .count(),
                0,
                "{rubbish:?}"
            );
        }
        assert_eq!(
            FollowedProcesses::find(&follow(Path::new("/nonexistent")), &table)
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
        let found = FollowedProcesses::find(&wanted, &table);
        assert_eq!((found.pids().count(), found.group_cpu_s), (0, None));
    }
}
