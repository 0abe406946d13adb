//! CPU quotas of control groups, versions 1 and 2, and how often they throttled a process. A quota
//! applies to a group and all groups below it, so the ancestors of a process's group count as well.

use std::path::{Path, PathBuf};

use prony_record::finding::CpuQuota;
use prony_record::{Finding, Severity, Throttling};

use crate::socket::system;

/// Files of a control group that hold its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupVersion {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    One,
    /// `cpu.max`.
    Two,
}

/// A control group with a CPU quota.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaGroup {
    /// Path of the group within its hierarchy, such as `/docker/1234`.
    pub name: String,
    /// CPU time that the group may use, in cores.
    pub cores: f64,
    folder: PathBuf,
}

impl QuotaGroup {
    fn read(mounted: &MountedGroup, path: &str) -> Option<QuotaGroup> {
        let folder = mounted.mount.join(path.trim_start_matches('/'));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let cores = match mounted.version {
            GroupVersion::Two => quota_cores(&read("cpu.max")?),
            GroupVersion::One => {
                let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
                quota_cores(&format!("{} {}", quota.trim(), period.trim()))
            }
        };
        let name = match path {
            "" => "/",
            path => path,
        };
        Some(QuotaGroup {
            name: name.to_owned(),
            cores: cores?,
            folder,
        })
    }

    /// Returns how often the group was throttled since it exists.
    pub fn throttling(&self) -> Option<Throttling> {
        let stat = std::fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let throttling = parse_stat(&stat)?;
        Some(Throttling {
            quota_cores: self.cores,
            ..throttling
        })
    }
}

/// The quotas that apply to a process, with their counters at a point in time.
#[derive(Debug, Clone, Default)]
pub struct CpuQuotas(Vec<QuotaGroup>);

/// Counters of all quotas of a process: totals since the groups exist.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaCounters(Vec<Throttling>);

impl CpuQuotas {
    /// Returns the quotas of a process, given by its ID or `self`: those of its group and of the
    /// group's ancestors, as far as this process can see them.
    pub fn of_process(process: &str) -> CpuQuotas {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let groups = read(format!("/proc/{process}/cgroup"));
        let mounted = mounted_groups(&groups, &read("/proc/self/mountinfo".to_owned()));
        let quotas = mounted.iter().flat_map(|mounted| {
            let paths = ancestors(&mounted.path);
            paths.filter_map(|path| QuotaGroup::read(mounted, path))
        });
        CpuQuotas(quotas.collect())
    }

    /// The groups with a quota, the innermost first.
    pub fn groups(&self) -> &[QuotaGroup] {
        &self.0
    }

    /// Returns the group that allows the least CPU time.
    pub fn tightest(&self) -> Option<&QuotaGroup> {
        self.0.iter().min_by(|a, b| a.cores.total_cmp(&b.cores))
    }

    /// Reads the counters of all groups.
    pub fn counters(&self) -> QuotaCounters {
        let counters = self.0.iter();
        QuotaCounters(
            counters
                .map(|it| it.throttling().unwrap_or_default())
                .collect(),
        )
    }
}

/// Returns the finding before a load if the quotas of this process allow less CPU time than the
/// cores that it may run on.
pub fn cpu_quota_finding() -> Option<Finding> {
    let cores = system::usable_cores();
    let quotas = CpuQuotas::of_process("self");
    let group = quotas
        .tightest()
        .filter(|group| group.cores < cores as f64)?;
    let quota = CpuQuota {
        quota_cores: group.cores,
        cores: cores as u64,
        group: group.name.clone(),
    };
    Some(Finding::of(Severity::Note, &quota))
}

impl QuotaCounters {
    /// Returns the increase since `earlier`, for the group that was throttled most. `None` if there
    /// is no quota.
    pub fn since(&self, earlier: &QuotaCounters) -> Option<Throttling> {
        let pairs = self.0.iter().zip(&earlier.0);
        let increases = pairs.map(|(now, before)| now.since(before));
        increases.reduce(Throttling::worse)
    }
}

/// A process's group in one hierarchy, and the folder where the hierarchy is mounted.
#[derive(Debug, PartialEq, Eq)]
struct MountedGroup {
    version: GroupVersion,
    mount: PathBuf,
    /// Path of the group below the mount, which is empty or begins with a slash.
    path: String,
}

/// Finds the folders of the groups in `/proc/PID/cgroup`, given `/proc/self/mountinfo`.
fn mounted_groups(groups: &str, mountinfo: &str) -> Vec<MountedGroup> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = match controllers {
            "" => GroupVersion::Two,
            _ if has_word(controllers, "cpu") => GroupVersion::One,
            _ => continue,
        };
        let mut mounts = mountinfo.lines().filter_map(|line| mount_of(line, version));
        if let Some((root, mount)) = mounts.next() {
            // Without a namespace of its own, a container sees only a part of the hierarchy.
            let below = path.strip_prefix(root.trim_end_matches('/'));
            let below = below.filter(|below| below.is_empty() || below.starts_with('/'));
            found.push(MountedGroup {
                version,
                mount: mount.to_owned(),
                path: below.unwrap_or_default().trim_end_matches('/').to_owned(),
            });
        }
    }
    found
}

/// Parses a line of mountinfo (proc_pid_mountinfo(5)): the root of the mount within its file system,
/// and the mount point, if it is the hierarchy with CPU quotas.
fn mount_of(line: &str, version: GroupVersion) -> Option<(&str, &Path)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let kind = system.next()?;
    let is_wanted = match version {
        GroupVersion::Two => kind == "cgroup2",
        GroupVersion::One => kind == "cgroup" && has_word(system.nth(1)?, "cpu"),
    };
    is_wanted.then_some((root, Path::new(point)))
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|listed| listed == word)
}

/// Iterates over a path and its ancestors: `/a/b`, `/a`, and the empty path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind('/').map(|end| &path[..end]))
}

/// Parses a quota as a number of cores: 0.5 for `50000 100000`; `None` without a limit (`max
/// 100000`, or `-1 100000` in version 1).
fn quota_cores(cpu_max: &str) -> Option<f64> {
    let mut words = cpu_max.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Parses `cpu.stat`, whose throttled time is in nanoseconds in version 1 and in microseconds in
/// version 2.
fn parse_stat(stat: &str) -> Option<Throttling> {
    let value = |wanted: &str| -> Option<u64> {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(name, _)| *name == wanted)?;
        value.trim().parse().ok()
    };
    let throttled_s = match (value("throttled_usec"), value("throttled_time")) {
        (Some(us), _) => us as f64 / 1e6,
        (None, Some(ns)) => ns as f64 / 1e9,
        (None, None) => 0.0,
    };
    Some(Throttling {
        quota_cores: 0.0,
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_ONE: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const MOUNTS_TWO: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn groups_of_both_versions_are_found_where_they_are_mounted() {
        let found = |groups: &str, mounts: &str| -> Vec<(String, String)> {
            let found = mounted_groups(groups, mounts).into_iter();
            found
                .map(|group| (group.mount.display().to_string(), group.path))
                .collect()
        };
        let pair = |mount: &str, path: &str| (mount.to_owned(), path.to_owned());
        let one = "3:cpuset:/x\n2:cpu,cpuacct:/a/b\n0::/\n";
        assert_eq!(
            found(one, MOUNTS_ONE),
            [
                pair("/sys/fs/cgroup/cpu,cpuacct", "/a/b"),
                pair("/sys/fs/cgroup/unified", "")
            ]
        );
        let two = "0::/system.slice/web.service\n";
        let expected = pair("/sys/fs/cgroup", "/system.slice/web.service");
        assert_eq!(found(two, MOUNTS_TWO), [expected]);
        // A container that sees only its own part of the hierarchy.
        let part = "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(
            found("0::/docker/1/x\n", part),
            [pair("/sys/fs/cgroup", "/x")]
        );
        assert_eq!(found("0::/docker/12\n", part), [pair("/sys/fs/cgroup", "")]);
        assert_eq!(found("", MOUNTS_TWO), []);
        assert_eq!(found("nonsense", "more\nnonsense - x"), []);
    }

    #[test]
    fn ancestors_end_at_the_mount() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(ancestors("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn quotas_are_in_cores() {
        assert_eq!(quota_cores("50000 100000\n"), Some(0.5));
        assert_eq!(quota_cores("max 100000\n"), None);
        assert_eq!(quota_cores("-1 100000"), None);
        assert_eq!(quota_cores(""), None);
    }

    #[test]
    fn throttling_of_both_versions_is_read() {
        let two = "usage_usec 9\nnr_periods 299\nnr_throttled 196\nthrottled_usec 2500000\n";
        let one = "nr_periods 299\nnr_throttled 196\nthrottled_time 2500000000\n";
        let expected = Throttling {
            quota_cores: 0.0,
            periods: 299,
            throttled_periods: 196,
            throttled_s: 2.5,
        };
        assert_eq!(parse_stat(two), Some(expected));
        assert_eq!(parse_stat(one), Some(expected));
        assert_eq!(parse_stat("usage_usec 9\n"), None);
    }

    #[test]
    fn the_most_throttled_group_counts() {
        let at = |periods, throttled_periods, quota_cores| Throttling {
            quota_cores,
            periods,
            throttled_periods,
            throttled_s: 0.0,
        };
        let before = QuotaCounters(vec![at(100, 50, 1.0), at(100, 0, 2.0)]);
        let now = QuotaCounters(vec![at(150, 51, 1.0), at(140, 30, 2.0)]);
        assert_eq!(now.since(&before), Some(at(40, 30, 2.0)));
        assert_eq!(QuotaCounters::default().since(&before), None);
    }
}
