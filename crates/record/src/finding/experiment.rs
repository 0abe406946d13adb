//! Registry rows of the findings that concern an experiment as a whole.

use super::Severity::{Error, Note, Warning};
use super::{FindingInfo, FindingScope, WithheldVerdicts};

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::Experiment,
    ..FindingInfo::BASE
};

pub(super) const UNEXPECTED_STATUS: FindingInfo = FindingInfo {
    seen: "A request that was checked before the load returns a status that counts as a failure.",
    severities: &[
        (Warning, "up to 5% of the checked requests"),
        (Error, "more than 5% of the checked requests"),
    ],
    withholds: WithheldVerdicts::All,
    meaning: "The variant probably serves error pages instead of the intended responses.",
    action: "Check the load's path and host, and the server's log. If the status is intended, set \
        `expect_status` (`--expect-status`).",
    ..BASE
};

pub(super) const BYTES_DIFFER: FindingInfo = FindingInfo {
    seen: "Variants return different responses to the same request.",
    severities: &[
        (
            Note,
            "a body changes from one request to the next in every variant, so only the status is \
             compared",
        ),
        (
            Error,
            "a status or a body differs from the baseline's under the `bodies` rule, or a body changes from one request to the next in only one of the two variants",
        ),
    ],
    withholds: WithheldVerdicts::All,
    meaning: "Variants that do different work can't be compared.",
    action: "Make the responses equal. If the bodies differ on purpose, set `bodies = \"may-differ\"` \
             in `[load]` (`--bodies may-differ`).",
    ..BASE
};

pub(super) const BODIES_DECODED: FindingInfo = FindingInfo {
    seen: "Bodies differ as sent but are equal after decoding.",
    severities: &[(Note, "")],
    meaning: "Variants encode the same content differently, for example with and without gzip, \
              which `bodies = \"same-decoded\"` allows. The comparison includes the cost of the \
              encoding.",
    action: "Nothing, unless the encoding should be the same.",
    ..BASE
};

pub(super) const BODIES_MAY_DIFFER: FindingInfo = FindingInfo {
    seen: "Bodies, their sizes or their content types differ where `bodies = \"may-differ\"` allows \
           that.",
    severities: &[(Note, "")],
    meaning: "The comparison includes the cost of this difference.",
    action: "Check that the difference is the intended one.",
    ..BASE
};

pub(super) const EFFECTS_WITHHELD: FindingInfo = FindingInfo {
    seen: "The effect of a factor is omitted because its levels return different responses.",
    severities: &[(Note, "")],
    meaning: "These levels are not compared with one another directly, so no verdict is affected.",
    action: "Make the responses equal, or allow the difference with `bodies`.",
    ..BASE
};

pub(super) const NEGOTIATION_DIFFERS: FindingInfo = FindingInfo {
    seen: "Variants, or the agents of one load, negotiated different protocols with the server.",
    severities: &[
        (
            Warning,
            "the agents of one load differ, or `bodies = \"may-differ\"` allows the difference",
        ),
        (Error, "a variant differs from its baseline"),
    ],
    withholds: WithheldVerdicts::All,
    meaning: "They were configured alike but agreed on different HTTP versions, TLS versions or \
              ciphers. The comparison includes the effect of this difference.",
    action: "Set the protocol with `--http`, `--tls-min`, `--tls-max` or `--ciphers`. If the \
             protocols differ on purpose, set `bodies = \"may-differ\"` in `[load]` (`--bodies \
             may-differ`).",
    explains_difference: true,
    ..BASE
};

pub(super) const SERVER_IDLE: FindingInfo = FindingInfo {
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

pub(super) const NOT_STATIONARY: FindingInfo = FindingInfo {
    seen: "In a closed loop, the last third of the median trial is more than 20% faster or slower \
        than the first third.",
    severities: &[(Warning, "")],
    meaning: "The rate was not steady when the measurement began. The cause is not observed; often, \
        the server has not warmed up.",
    action: "Use a longer warm-up to measure only the settled state.",
    explains_difference: true,
    ..BASE
};

pub(super) const NOISY_MACHINE: FindingInfo = FindingInfo {
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

pub(super) const ORDER_EFFECT: FindingInfo = FindingInfo {
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

pub(super) const FEW_BLOCKS: FindingInfo = FindingInfo {
    seen: "The experiment has fewer than 5 complete blocks.",
    severities: &[
        (Note, "3 or 4 blocks: the intervals are wide"),
        (Warning, "fewer than 3 blocks: there is no interval"),
    ],
    meaning: "More blocks make the intervals narrower, so smaller differences can be detected.",
    action: "Run 5 blocks or more (`--blocks`).",
    ..BASE
};

pub(super) const MACHINE_CHANGED: FindingInfo = FindingInfo {
    seen: "A variant's service ran on different machines in different trials.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "Usually, another agent now has the label. The trials measured different setups.",
    action: "Repeat the experiment with the agent's name instead of its label.",
    ..BASE
};

pub(super) const AGENTS_CHANGED: FindingInfo = FindingInfo {
    seen: "A variant's load was not generated by the same agents in all trials.",
    severities: &[(Warning, "")],
    meaning: "The figures include the differences between the agents' machines.",
    action: "Repeat the experiment, and keep the same agents available throughout.",
    ..BASE
};

pub(super) const PLAN_CHANGED: FindingInfo = FindingInfo {
    seen: "The plan, or a file that it names, changed before the experiment was resumed.",
    severities: &[(Warning, "")],
    meaning: "`--accept-plan-changes` allowed the change. Blocks before and after it measured \
              different setups.",
    action: "Repeat the experiment if the change matters.",
    ..BASE
};
