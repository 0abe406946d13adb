//! Sentences about the resource that limited a variant's speed.

use prony_record::Throttling;
use prony_stats::CoreParties;

/// A resource that limited a variant's speed, with the values that show it.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// The load generator was at its limit.
    Generator {
        /// Number of trials in which it was.
        limited: usize,
        /// Number of all trials.
        trials: usize,
        /// Reason why the generator was at its limit.
        cause: GeneratorLimit,
    },
    /// The schedule of an open loop was met.
    Schedule {
        /// Fraction of the schedule that succeeded.
        kept_share: f64,
        /// Requests per second in the schedule.
        offered_per_s: f64,
    },
    /// The CPU quota of a service stopped it.
    Quota {
        /// Name of the service.
        service: String,
        /// Stops of the service, summed over all trials.
        throttling: Throttling,
    },
    /// A link was full.
    Link {
        /// Fraction of the link's rate that was used.
        used_share: f64,
    },
    /// prony did not start the server, so there is no telemetry.
    NoTelemetry,
    /// A set of cores was full.
    FullCores {
        /// The cores.
        cores: UsedCores,
        /// True for all cores of the machine, false for those of pinned services.
        is_machine: bool,
    },
    /// No cores were full, but other processes used some of them.
    CrowdedCores {
        /// The sets of cores.
        groups: Vec<UsedCores>,
        /// Index of the set that other processes used.
        crowded: usize,
    },
    /// No measured resource was at its limit.
    Waiting {
        /// The sets of cores.
        groups: Vec<UsedCores>,
        /// What requests waited for.
        waits: Waits,
    },
}

/// What a load generator at its limit lacked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GeneratorLimit {
    /// Its CPU quota stopped it.
    Throttled(Throttling),
    /// Its busiest worker was busy for this fraction of the time.
    Busy {
        /// Median over the trials.
        share: f64,
    },
}

/// What requests waited for although no resource was at its limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Waits {
    /// Delayed acknowledgments.
    DelayedAcks,
    /// Perhaps for other processes of the machine, which is used like this.
    Neighbors(CoreParties),
    /// Something that isn't observed.
    Unknown {
        /// True if the services wrote to a disk.
        has_disk: bool,
    },
}

/// A set of cores, with the services that may use them.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedCores {
    /// Names of the services, or `services` for all of them.
    pub services: String,
    /// Usage by party.
    pub parties: CoreParties,
}

impl UsedCores {
    /// All cores of a machine.
    pub fn of_all(parties: CoreParties) -> UsedCores {
        UsedCores {
            services: "services".to_owned(),
            parties,
        }
    }

    fn used(&self) -> String {
        used_by(&self.services, &self.parties)
    }
}

/// Returns the limit of a variant as a sentence.
pub fn sentence(name: &str, limit: &Limit) -> String {
    format!("{name}: {}", clause(limit))
}

fn clause(limit: &Limit) -> String {
    match limit {
        Limit::Generator {
            limited,
            trials,
            cause,
        } => {
            let cause = match cause {
                GeneratorLimit::Throttled(worst) => {
                    format!("in one of them, it was {}", worst.text())
                }
                GeneratorLimit::Busy { share } => format!(
                    "its busiest worker was busy for {:.0}% of the time",
                    share * 100.0
                ),
            };
            format!(
                "the load generator was at its limit in {limited} of {trials} trials ({cause})."
            )
        }
        Limit::Schedule {
            kept_share,
            offered_per_s,
        } => format!(
            "the schedule set the rate: {:.1}% of {offered_per_s:.0} requests per second succeeded.",
            kept_share * 100.0
        ),
        Limit::Quota {
            service,
            throttling,
        } => format!("service {service} was {}.", throttling.text()),
        Limit::Link { used_share } => {
            format!("a link was full ({:.0}% of its rate).", used_share * 100.0)
        }
        Limit::NoTelemetry => {
            "prony did not start the server, so it has no telemetry of the server.".to_owned()
        }
        Limit::FullCores {
            cores: of,
            is_machine,
        } => {
            let were = match of.parties.cores {
                1 if !is_machine => "was",
                _ => "were",
            };
            format!("{} {were} full: {}.", cores(&of.parties), of.used())
        }
        Limit::CrowdedCores { groups, crowded } => format!(
            "{} on the same cores ({}), so the services may have waited for a core. No other \
             measured resource was at its limit; a run on a quiet machine would tell more.",
            groups
                .get(*crowded)
                .map_or(String::new(), |it| neighbors_used(&it.parties)),
            used(groups),
        ),
        Limit::Waiting { groups, waits } => {
            let nothing = format!("no measured resource was at its limit ({})", used(groups));
            match waits {
                Waits::DelayedAcks => format!(
                    "{nothing}. Responses waited for delayed acknowledgments (delayed-acks)."
                ),
                Waits::Neighbors(machine) => format!(
                    "{nothing}, but {} of this machine. All processes share its memory and caches; \
                     a run on a quiet machine would tell more.",
                    neighbors_used(machine)
                ),
                Waits::Unknown { has_disk } => {
                    let disk = if *has_disk { "a disk, " } else { "" };
                    format!(
                        "{nothing}. Requests waited for something else (a lock, {disk}a backend, a \
                         single busy thread), or there were too few connections."
                    )
                }
            }
        }
    }
}

/// Describes the usage of several sets of cores.
fn used(groups: &[UsedCores]) -> String {
    let used = groups
        .iter()
        .map(|it| format!("{}: {}", cores(&it.parties), it.used()));
    used.collect::<Vec<_>>().join("; ")
}

/// Describes a set of cores: "core 0", "cores 0, 1 (200%)", "all 2 cores (200%)".
fn cores(parties: &CoreParties) -> String {
    let numbers: Vec<String> = parties.numbers.iter().map(usize::to_string).collect();
    let all = parties.cores * 100;
    match (numbers.as_slice(), parties.cores) {
        ([], 1) => "one core".to_owned(),
        ([], cores) => format!("all {cores} cores ({all}%)"),
        ([one], _) => format!("core {one}"),
        (several, _) => format!("cores {} ({all}%)", several.join(", ")),
    }
}

/// Describes the usage by party: "web 40%, the load 17%, other processes 41% (mostly yes, process
/// 123), idle 2%". The numbers are whole percents of one core and add up to 100 per core.
fn used_by(who: &str, parties: &CoreParties) -> String {
    let mostly = match parties.neighbors.first() {
        Some(busiest) => format!(" (mostly {}, process {})", busiest.name, busiest.pid),
        None => String::new(),
    };
    let parts = [
        (who, parties.services, ""),
        ("the load", parties.load, ""),
        ("interrupts", parties.interrupts, ""),
        ("other processes", parties.others, mostly.as_str()),
        ("other guests", parties.stolen, ""),
        ("idle", parties.idle, ""),
    ];
    let whole = whole_percents(parts.map(|(_, percent, _)| percent), parties.cores * 100);
    let shown = parts.iter().zip(whole).enumerate();
    let shown = shown.filter(|(index, (_, percent))| *index == 0 || *percent > 0);
    let texts = shown.map(|(_, ((who, _, more), percent))| format!("{who} {percent}%{more}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Rounds numbers so that they add up to `sum`. All are rounded down first, and then those with the
/// largest remainders are rounded up.
fn whole_percents<const N: usize>(parts: [f64; N], sum: usize) -> [usize; N] {
    let mut whole = parts.map(|part| part.max(0.0).floor() as usize);
    let mut order: Vec<usize> = (0..N).collect();
    order.sort_by(|&a, &b| parts[b].fract().total_cmp(&parts[a].fract()));
    let missing = sum.saturating_sub(whole.iter().sum());
    for &index in order.iter().take(missing) {
        whole[index] += 1;
    }
    whole
}

/// Describes the CPU time of other processes and guests: "other processes used 117% of a core
/// (mostly yes, process 123) and other guests 3%".
fn neighbors_used(parties: &CoreParties) -> String {
    let mostly = match parties.neighbors.first() {
        Some(busiest) => format!(" (mostly {}, process {})", busiest.name, busiest.pid),
        None => String::new(),
    };
    let guests = if parties.stolen >= 0.5 {
        format!(" and other guests {:.0}%", parties.stolen)
    } else {
        String::new()
    };
    format!(
        "other processes used {:.0}% of a core{mostly}{guests}",
        parties.others
    )
}
