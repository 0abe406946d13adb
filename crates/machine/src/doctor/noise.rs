//! Checks of what disturbed this machine during a measurement (`prony noise`).

use std::time::Instant;

use prony_record::number;

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::{DoctorSubject, SubjectKind};
use crate::environment::MachineFacts;
use crate::system::linux::read_small_file;
use crate::system::{proc_files, this_machine};

const STEAL: CheckTopic = CheckTopic {
    id: "noise-steal",
    expected: "below 0.5% of a core",
    why: "the hypervisor runs other virtual machines on these cores, so the same work takes longer at times",
    change: "use dedicated cores or a machine of its own; compare in interleaved blocks",
    source: "proc(5), steal in /proc/stat",
};

const INTERRUPTS: CheckTopic = CheckTopic {
    id: "noise-interrupts",
    expected: "interrupts of devices on cores that neither the server nor the load uses",
    why: "interrupts and soft interrupts take time from whatever runs on their core, unevenly",
    change: "move them with /proc/irq/N/smp_affinity, stop irqbalance, or use other cores (cores, --cores)",
    source: "the kernel's core-api/irq/irq-affinity",
};

const THROTTLING: CheckTopic = CheckTopic {
    id: "noise-throttling",
    expected: "none",
    why: "a core that becomes too hot runs slower until it has cooled down",
    change: "improve the cooling, or limit the frequency (cpupower frequency-set -u)",
    source: "the kernel's admin-guide/thermal, core_throttle_count",
};

const FREQUENCY: CheckTopic = CheckTopic {
    id: "noise-frequency",
    expected: "the same at the start and the end, within 3%",
    why: "requests take longer at a lower frequency, which follows load, heat and the neighbors",
    change: "cpupower frequency-set -g performance, and turn turbo off",
    source: "the kernel's admin-guide/pm/cpufreq",
};

const TURBO: CheckTopic = CheckTopic {
    id: "noise-turbo",
    expected: "off",
    why: "the highest frequency depends on the number of busy cores and on heat, so it changes while programs run",
    change: "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    source: "the kernel's admin-guide/pm/intel_pstate",
};

const HUGE_PAGES: CheckTopic = CheckTopic {
    id: "noise-huge-pages",
    expected: "madvise or never",
    why: "the kernel merges pages in the background, and starts of the same server get different memory",
    change: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    source: "the kernel's admin-guide/mm/transhuge",
};

const QUEUES: CheckTopic = CheckTopic {
    id: "noise-nic-queues",
    expected: "a queue per core that serves the load, for loads over this card",
    why: "with few queues, the packets of all connections are processed on few cores",
    change: "ethtool -L IFACE combined N",
    source: "the kernel's networking/scaling",
};

/// Share of a core's time above which a disturbance is reported.
const SHARE_MAX: f64 = 0.005;
/// Interrupts of a core per second above which they are reported.
const INTERRUPTS_PER_S_MAX: f64 = 2_000.0;
/// Relative change of a core's frequency above which it is reported.
const FREQUENCY_CHANGE_MAX: f64 = 0.03;

/// State of the machine at the start of a measurement.
#[derive(Debug)]
pub struct NoiseWatch {
    at: Instant,
    before: Disturbances,
}

/// Counters since boot, and frequencies.
#[derive(Debug, Default)]
struct Disturbances {
    steal_s: f64,
    softirq_s: f64,
    /// Interrupts of devices by core.
    interrupts: Vec<u64>,
    throttled: Option<u64>,
    /// Frequencies of the cores in kHz.
    frequencies: Vec<f64>,
}

impl Disturbances {
    fn now(cores: usize) -> Disturbances {
        let cpu = proc_files::machine(&read_small_file("/proc/stat").unwrap_or_default());
        let of_core = |core: usize, file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/{file}");
            read_small_file(path).and_then(|text| text.parse::<u64>().ok())
        };
        let throttled =
            (0..cores).filter_map(|core| of_core(core, "thermal_throttle/core_throttle_count"));
        let throttled: Vec<u64> = throttled.collect();
        let frequencies = (0..cores).filter_map(|core| of_core(core, "cpufreq/scaling_cur_freq"));
        Disturbances {
            steal_s: cpu.cpu_steal_s,
            softirq_s: cpu.cpu_softirq_s,
            interrupts: device_interrupts(&read_small_file("/proc/interrupts").unwrap_or_default()),
            throttled: (!throttled.is_empty()).then(|| throttled.iter().sum()),
            frequencies: frequencies.map(|khz| khz as f64).collect(),
        }
    }
}

/// Sums the interrupts of devices by core. Lines of devices begin with a number; others, such as
/// timers, belong to the kernel.
fn device_interrupts(text: &str) -> Vec<u64> {
    let mut lines = text.lines();
    let cores = lines.next().unwrap_or_default().split_whitespace().count();
    let mut sums = vec![0_u64; cores];
    for line in lines {
        let Some((number, counts)) = line.split_once(':') else {
            continue;
        };
        if number.trim().parse::<u32>().is_ok() {
            let counts = counts
                .split_whitespace()
                .map_while(|count| count.parse::<u64>().ok());
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(count);
            }
        }
    }
    sums
}

impl NoiseWatch {
    /// Begins to watch this machine.
    pub fn begin() -> NoiseWatch {
        NoiseWatch {
            at: Instant::now(),
            before: Disturbances::now(this_machine().cores),
        }
    }

    /// Ends the watch, and returns checks of what happened in the meantime and of settings that make
    /// measurements differ.
    pub fn finish(self) -> DoctorSubject {
        let machine = this_machine();
        let after = Disturbances::now(machine.cores);
        let results = checks(
            &self.before,
            &after,
            self.at.elapsed().as_secs_f64(),
            &machine,
        );
        DoctorSubject {
            kind: SubjectKind::Machine,
            name: "this machine during the measurement".to_owned(),
            pid: None,
            checks: results.checks,
            undetermined: results.undetermined,
            crypto: None,
            profile: None,
        }
    }
}

fn checks(
    before: &Disturbances,
    after: &Disturbances,
    seconds: f64,
    machine: &MachineFacts,
) -> CheckResults {
    let mut results = CheckResults::default();
    let seconds = seconds.max(0.001);
    let share = |before: f64, after: f64| (after - before).max(0.0) / seconds;
    let steal = share(before.steal_s, after.steal_s);
    let text = format!("{} of a core", number::share(steal));
    results.add(STEAL.check(CheckStatus::warning_if(steal > SHARE_MAX), text));
    let rates = before.interrupts.iter().zip(&after.interrupts);
    let rates: Vec<f64> = rates
        .map(|(before, after)| after.saturating_sub(*before) as f64 / seconds)
        .collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let softirq = share(before.softirq_s, after.softirq_s);
    let each = rates.iter().map(|rate| number::significant(*rate, 2));
    let text = format!(
        "{} per second on the cores from 0 on; soft interrupts took {} of a core",
        Vec::from_iter(each).join(", "),
        number::share(softirq)
    );
    results.add(INTERRUPTS.check(CheckStatus::warning_if(most > INTERRUPTS_PER_S_MAX), text));
    match before.throttled.zip(after.throttled) {
        Some((before, after)) => {
            let count = after.saturating_sub(before);
            let text = format!("{} throttled", number::plural(count, "time", "times"));
            results.add(THROTTLING.check(CheckStatus::warning_if(count > 0), text));
        }
        None => results.add_undetermined("thermal throttling", "this kernel doesn't count it"),
    }
    let changes = before.frequencies.iter().zip(&after.frequencies);
    match changes
        .map(|(before, after)| (after / before - 1.0).abs())
        .reduce(f64::max)
    {
        Some(change) => {
            let text = format!(
                "changed by up to {} from start to end",
                number::share(change)
            );
            let status = CheckStatus::warning_if(change > FREQUENCY_CHANGE_MAX);
            results.add(FREQUENCY.check(status, text));
        }
        None => results.add_undetermined("frequency of the cores", "this kernel doesn't report it"),
    }
    match machine.turbo {
        Some(turbo) => {
            let text = if turbo { "on" } else { "off" };
            results.add(TURBO.check(CheckStatus::warning_if(turbo), text));
        }
        None => results.add_undetermined("turbo", "this kernel doesn't report it"),
    }
    if let Some(choice) = &machine.transparent_huge_pages {
        let status = CheckStatus::warning_if(choice == "always");
        results.add(HUGE_PAGES.check(status, choice.clone()));
    }
    for (name, card) in &machine.network_cards {
        let queues = number::plural(
            card.receive_queues as u64,
            "receive queue",
            "receive queues",
        );
        let text = format!(
            "{name} ({}): {queues} for {} cores",
            card.driver, machine.cores
        );
        let is_few = card.receive_queues < machine.cores.min(8);
        let status = if is_few {
            CheckStatus::Note
        } else {
            CheckStatus::Ok
        };
        results.add(QUEUES.check(status, text));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_devices_are_summed_by_core() {
        let text = "           CPU0       CPU1\n  8:   5   7  IO-APIC  rtc0\n 24:  10  1  PCI-MSI eth0\n\
                    LOC:  900  900  Local timer interrupts\nERR:  0\n";
        assert_eq!(device_interrupts(text), [15, 8]);
        assert_eq!(device_interrupts(""), Vec::<u64>::new());
    }

    #[test]
    fn disturbances_are_warnings_and_a_quiet_machine_has_none() {
        let before = Disturbances {
            interrupts: vec![0, 0],
            throttled: Some(0),
            frequencies: vec![2e6, 2e6],
            ..Disturbances::default()
        };
        let machine = MachineFacts {
            cores: 2,
            turbo: Some(true),
            transparent_huge_pages: Some("always".to_owned()),
            ..MachineFacts::default()
        };
        let warnings = |after: &Disturbances, machine: &MachineFacts| {
            let results = checks(&before, after, 10.0, machine).checks.into_iter();
            let warned = results.filter(|it| it.status == CheckStatus::Warning);
            Vec::from_iter(warned.map(|it| it.id))
        };
        let after = Disturbances {
            steal_s: 1.0,
            softirq_s: 0.1,
            interrupts: vec![100_000, 0],
            throttled: Some(3),
            frequencies: vec![2e6, 1.5e6],
        };
        let all = [
            "noise-steal",
            "noise-interrupts",
            "noise-throttling",
            "noise-frequency",
            "noise-turbo",
            "noise-huge-pages",
        ];
        assert_eq!(warnings(&after, &machine), all);
        assert_eq!(
            warnings(&before, &MachineFacts::default()),
            Vec::<&str>::new()
        );
    }
}
