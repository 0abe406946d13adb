//! CPU quotas of control groups, versions 1 and 2, and how often they throttled a process. A quota
//! applies to a group and all groups below it, so the ancestors of a process's group count as well.

use std::path::PathBuf;

use prony_record::finding::CpuQuota;
use prony_record::{Finding, Severity, Throttling};

use crate::limits::control_group::{GroupVersion, MountedGroup};
use crate::socket::system;

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
    fn read(version: GroupVersion, folder: PathBuf, path: &str) -> Option<QuotaGroup> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let cores = match version {
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
        let mounted = MountedGroup::of_process(process, "cpu");
        let quotas = mounted.iter().flat_map(|mounted| {
            let folders = mounted.with_ancestors();
            folders.filter_map(|(path, folder)| QuotaGroup::read(mounted.version, folder, path))
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
