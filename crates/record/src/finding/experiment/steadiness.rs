//! Findings about steadiness: what kept the services from using their cores, and what changed
//! during the trials.

use serde::{Deserialize, Serialize};

use super::BASE;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};
use crate::number;

/// A share of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantShare {
    /// Name of the variant.
    pub variant: String,
    /// The share; 0.1 is 10%.
    pub share: f64,
}

pub(in crate::finding) const SERVER_IDLE: FindingInfo = FindingInfo {
    seen: "In a closed loop, the services used less than 70% of their cores.",
    severities: &[(Warning, "")],
    meaning: "Something other than CPU limits the rate. What it is was not observed, unless another \
        finding names it; usual causes are a lock, a disk, a backend, and too few connections or \
        workers. The comparison reflects that bottleneck. The CPU share shown is that of the median trial. Without `cores` in the plan, it is relative to one core. Variants with a \
        known limit, trials that lost 20% of a core to other processes, and loads shorter than \
        0.1 s are ignored.",
    action: "Find the bottleneck, or increase the number of connections.",
    ..BASE
};

figures! {
    /// Services that used only a part of their cores.
    ServerIdle {
        /// Share of their cores that each variant's services used.
        used: Vec<VariantShare> = same,
        /// True if the services wrote to a disk.
        writes_to_disk: bool = same,
    }
    |it, _subject| {
        let used = it.used.iter();
        let used = used.map(|of| format!("{} {:.0}%", of.variant, of.share * 100.0));
        let disk = if it.writes_to_disk { "a disk, " } else { "" };
        format!(
            "The services used only part of their cores ({}), although the load waits only for \
             them. Something other than their CPU limits the rate; prony has not observed what \
             (possibly a lock, {disk}a backend, too few connections or workers, or the generator). \
             The comparison reflects that bottleneck. Find the bottleneck, or use more connections.",
            used.collect::<Vec<_>>().join("; ")
        )
    }
}

pub(in crate::finding) const NOT_STATIONARY: FindingInfo = FindingInfo {
    seen: "In a closed loop, the last third of the median trial is more than 20% faster or slower \
        than the first third.",
    severities: &[(Warning, "")],
    meaning: "The rate was not steady when the measurement began. The cause is not observed; often, \
        the server has not warmed up.",
    action: "Use a longer warm-up to measure only the settled state.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// Rates that were not steady.
    NotStationary {
        /// Change of each variant's rate from the first to the last third of the median trial.
        changes: Vec<VariantShare> = same,
    }
    |it, _subject| {
        let changes = it.changes.iter().map(|of| {
            let direction = if of.share > 0.0 { "faster" } else { "slower" };
            format!("{} {:.0}% {direction}", of.variant, of.share.abs() * 100.0)
        });
        format!(
            "The last third of a trial differs from the first third: {}. The rate was not steady. \
             Use a longer warm-up to measure only the settled state.",
            changes.collect::<Vec<_>>().join("; ")
        )
    }
}

pub(in crate::finding) const NOISY_MACHINE: FindingInfo = FindingInfo {
    seen: "Other processes, or other guests of the hypervisor, took more than 5% of a core in a trial, \
           or in a probe of `prony capacity`.",
    severities: &[
        (Note, "in at most half of the trials or probes"),
        (
            Warning,
            "in more than half of the trials or probes, or they used 10% of the cores in the median trial",
        ),
        (Error, "the noise may have caused a verdict"),
    ],
    withholds: WithheldVerdicts::Selected,
    meaning: "The random order of trials spreads noise over all variants, and the intervals \
              account for it. Verdicts on rate and response times are withheld if the noise \
              differs between the two variants, or if the machine is crowded and there are fewer \
              than 5 blocks.",
    action: "Use a quieter machine, pin the services and the load to cores that nothing else uses, \
             or run more blocks (`--blocks`).",
    ..BASE
};

/// Meaning of noise for the verdicts of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseMeaning {
    /// The intervals account for it.
    Covered,
    /// The machine is crowded, so differences may have another size on a quiet machine.
    Crowded {
        /// Share of the cores that was exceeded in the median trial.
        over_share: f64,
    },
    /// The machine is crowded, and there are too few blocks.
    TooFewBlocks {
        /// Share of the cores that was exceeded in the median trial.
        over_share: f64,
        /// Number of blocks that can show how much of a difference is noise.
        blocks_min: u32,
    },
    /// The noise alone would change the rate by this share.
    Explains(f64),
}

/// Parts of a measurement that noise disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoisyParts {
    /// Trials of an experiment.
    Trials(NoiseMeaning),
    /// Probes of a capacity search.
    Probes {
        /// Name of the server's process.
        server: String,
        /// ID of the server's process.
        pid: i32,
    },
}

figures! {
    /// CPU time that something else took.
    NoisyMachine {
        /// The disturbed parts.
        parts: NoisyParts = same,
        /// Number of disturbed parts.
        disturbed: u64 = sum,
        /// Number of parts.
        all: u64 = sum,
        /// CPU time of other processes in the worst part, in percent of one core.
        processes_percent: f64 = most,
        /// CPU time of other guests of the hypervisor in the worst part, in percent of one core.
        guests_percent: f64 = most,
        /// Name of what used most, if it is known.
        mostly: Option<String> = same,
    }
    |it, _subject| match &it.parts {
        NoisyParts::Trials(meaning) => it.in_trials(*meaning),
        NoisyParts::Probes { server, pid } => it.in_probes(server, *pid),
    }
}

impl NoisyMachine {
    fn mostly(&self) -> String {
        let name = self.mostly.as_ref();
        name.map_or(String::new(), |name| format!(" (mostly {name})"))
    }

    fn in_probes(&self, server: &str, pid: i32) -> String {
        format!(
            "In {} of {}, something other than prony and the server, {server} (process {pid}), used \
             this machine: up to {:.0}% of a core{}. Unless this belongs to the server, the capacity \
             on a quiet machine may be higher, and repeated runs may differ by more than the \
             interval.",
            number::count(self.disturbed),
            number::plural(self.all, "probe", "probes"),
            self.processes_percent + self.guests_percent,
            self.mostly()
        )
    }

    fn in_trials(&self, meaning: NoiseMeaning) -> String {
        let used = |percent: f64| format!("used up to {percent:.0}% of a core");
        let processes = format!(
            "other processes {}{}",
            used(self.processes_percent),
            self.mostly()
        );
        let guests = format!("other guests {}", used(self.guests_percent));
        let parties = match (self.processes_percent < 0.5, self.guests_percent < 0.5) {
            (true, _) => guests,
            (false, true) => processes,
            (false, false) => format!("{processes}, and {guests}"),
        };
        let crowded = |over_share: f64| {
            let percent = over_share * 100.0;
            format!("That is over {percent:.0}% of the cores in the median trial")
        };
        let meaning = match meaning {
            NoiseMeaning::Explains(share) => format!(
                "Their usage differs between variants: if the rate is proportional to the CPU time \
                 that is left, this alone would change the rate by {}, and without this difference \
                 there would be no verdict. Use a quieter machine, or pin the services and the load \
                 to cores that nothing else uses.",
                number::change(1.0 + share)
            ),
            NoiseMeaning::TooFewBlocks {
                over_share,
                blocks_min,
            } => format!(
                "{}, and fewer than {blocks_min} blocks can't show how much of the difference is \
                 noise. Run more blocks (--blocks 10), or use a quieter machine.",
                crowded(over_share)
            ),
            NoiseMeaning::Crowded { over_share } => format!(
                "{}. The random order of trials spreads this over all variants and the \
                 intervals account for it, but the difference between variants may not be the same \
                 on a quiet machine.",
                crowded(over_share)
            ),
            NoiseMeaning::Covered => "The random order of trials spreads this over all variants \
                and the intervals account for it; on a quieter machine they would be narrower."
                .to_owned(),
        };
        format!(
            "In {} of {} trials something else used the machine: {parties}. {meaning}",
            self.disturbed, self.all
        )
    }
}

pub(in crate::finding) const ORDER_EFFECT: FindingInfo = FindingInfo {
    seen: "The rate depends on the position of a trial within its block, or, in interleaved blocks, of a \
           slice within its round.",
    severities: &[(Warning, "")],
    meaning: "It is concluded that a trial or slice affects the next one (for example, through heat, \
        ports, caches or unfinished work). The random order spreads this effect over all variants. The slope over the \
        position, adjusted for block and variant (or round and trial), is tested at the 1% \
        level, so about one in a hundred experiments has this finding by chance. For slices in \
        open loops, the mean response time is tested instead of the rate. For slices, slopes \
        under 0.5% are not reported.",
    action: "Use a pause between trials or a longer warm-up. With interleaved blocks, use longer \
        slices (`--interleave 1s`).",
    ..BASE
};

/// A quantity that depends on a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderedPart {
    /// The rate of a trial, on its position in a block.
    TrialRate,
    /// The rate of a slice, on its position in a round.
    SliceRate,
    /// The mean response time of a slice, on its position in a round.
    SliceResponseTime,
}

figures! {
    /// A dependence on the position.
    OrderEffect {
        /// The quantity that depends on the position.
        part: OrderedPart = same,
        /// Factor by which each later position changes the quantity.
        ratio: f64 = same,
    }
    |it, _subject| {
        let change = number::change(it.ratio);
        let noun = match it.part {
            OrderedPart::TrialRate => return format!(
                "Each later position in a block changes the rate by {change}; a trial probably \
                 affects the next one (through heat, ports or caches). The random order spreads \
                 this effect over all variants. Use a pause between trials or a longer warm-up to \
                 remove it."
            ),
            OrderedPart::SliceRate => "rate",
            OrderedPart::SliceResponseTime => "mean response time",
        };
        format!(
            "Each later position in a round changes the {noun} by {change}: a slice affects the \
             next one (through caches, unfinished work or heat). The random order spreads this \
             effect over all variants. Use longer slices (--interleave 1s) to reduce it."
        )
    }
}
