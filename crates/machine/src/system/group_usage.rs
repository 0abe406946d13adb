//! Usage of control groups: their processes, CPU time and memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use prony_load::{GroupVersion, MountedGroup};
use prony_record::MemoryEvents;

use super::proc_files;

/// Maximum depth of nested control groups.
const GROUP_DEPTH_MAX: usize = 16;

/// Smallest number that means no limit in version 1, where the kernel reports the largest multiple
/// of the page size instead of a word.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Returns the IDs of the processes in a group and in the groups below it.
pub(crate) fn members(folder: &Path) -> Vec<i32> {
    let mut pids = HashSet::new();
    add_members(folder, GROUP_DEPTH_MAX, &mut pids);
    pids.into_iter().collect()
}

fn add_members(folder: &Path, deeper: usize, pids: &mut HashSet<i32>) {
    let members = file_text(&folder.join("cgroup.procs")).unwrap_or_default();
    pids.extend(
        members
            .lines()
            .filter_map(|line| line.trim().parse::<i32>().ok()),
    );
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if deeper > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_members(&entry.path(), deeper - 1, pids);
        }
    }
}

/// Returns the total, user and kernel CPU seconds of a group, including ended processes; `None` if
/// it doesn't count them.
pub(crate) fn cpu_s(folder: &Path) -> Option<(f64, f64, f64)> {
    let two = file_text(&folder.join("cpu.stat")).and_then(|it| proc_files::cgroup_cpu_s(&it));
    let one = || {
        let seconds = |name: &str| {
            let ns: u64 = file_text(&folder.join(name))?.trim().parse().ok()?;
            Some(ns as f64 / 1e9)
        };
        let all = seconds("cpuacct.usage")?;
        Some((
            all,
            seconds("cpuacct.usage_user")?,
            seconds("cpuacct.usage_sys")?,
        ))
    };
    two.or_else(one)
}

/// A control group with a memory limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryGroup {
    version: GroupVersion,
    folder: PathBuf,
}

impl MemoryGroup {
    /// Returns the group in `folder`, if it has a limit.
    pub(crate) fn at(version: GroupVersion, folder: &Path) -> Option<Self> {
        let group = Self {
            version,
            folder: folder.to_owned(),
        };
        group.limit_bytes().is_some().then_some(group)
    }

    /// Returns the innermost group with a limit that a process belongs to.
    pub(crate) fn of_process(pid: i32) -> Option<Self> {
        let hierarchies = MountedGroup::of_process(&pid.to_string(), "memory");
        hierarchies.iter().find_map(|it| {
            let mut folders = it.with_ancestors();
            folders.find_map(|(_, folder)| Self::at(it.version, &folder))
        })
    }

    fn limit_bytes(&self) -> Option<u64> {
        let file = match self.version {
            GroupVersion::One => "memory.limit_in_bytes",
            GroupVersion::Two => "memory.max",
        };
        let bytes = file_text(&self.folder.join(file))?.trim().parse().ok();
        bytes.filter(|bytes| *bytes < UNLIMITED_BYTES)
    }

    /// Reads the limit, and the events since the group exists.
    pub(crate) fn events(&self) -> Option<MemoryEvents> {
        let text = |name: &str| file_text(&self.folder.join(name));
        let (limit_hits, oom_kills) = match self.version {
            // With a limit on memory and swap space together, only that counter may rise.
            GroupVersion::One => (
                count(&text("memory.failcnt")?)
                    + text("memory.memsw.failcnt").as_deref().map_or(0, count),
                named_count(&text("memory.oom_control")?, "oom_kill"),
            ),
            GroupVersion::Two => {
                let events = text("memory.events")?;
                (
                    named_count(&events, "max"),
                    named_count(&events, "oom_kill"),
                )
            }
        };
        Some(MemoryEvents {
            limit_bytes: self.limit_bytes()?,
            limit_hits,
            oom_kills,
        })
    }
}

fn count(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

/// Returns the number after a name at the start of a line; 0 if the kernel doesn't report it.
fn named_count(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(key, _)| *key == name);
    found.map_or(0, |(_, value)| count(value))
}

fn file_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn events_of_both_versions_are_read() {
        let one = folder_with(&[
            ("memory.limit_in_bytes", "67108864\n"),
            ("memory.failcnt", "2\n"),
            ("memory.memsw.failcnt", "10\n"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
        ]);
        let two = folder_with(&[
            ("memory.max", "67108864\n"),
            (
                "memory.events",
                "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\n",
            ),
        ]);
        let expected = MemoryEvents {
            limit_bytes: 64 << 20,
            limit_hits: 12,
            oom_kills: 3,
        };
        for (version, folder) in [(GroupVersion::One, one), (GroupVersion::Two, two)] {
            let group = MemoryGroup::at(version, folder.path()).unwrap();
            assert_eq!(group.events(), Some(expected));
        }
    }

    #[test]
    fn a_group_without_a_limit_has_no_events() {
        let one = folder_with(&[("memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(MemoryGroup::at(GroupVersion::One, one.path()), None);
        let two = folder_with(&[("memory.max", "max\n")]);
        assert_eq!(MemoryGroup::at(GroupVersion::Two, two.path()), None);
    }

    #[test]
    fn cpu_time_of_both_versions_is_read() {
        let two = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n";
        let two = folder_with(&[("cpu.stat", two)]);
        let one = folder_with(&[
            (
                "cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            ),
            ("cpuacct.usage", "2500000000\n"),
            ("cpuacct.usage_user", "2000000000\n"),
            ("cpuacct.usage_sys", "500000000\n"),
        ]);
        for folder in [one, two] {
            assert_eq!(cpu_s(folder.path()), Some((2.5, 2.0, 0.5)));
        }
    }
}
