//! Registry rows of the findings about loads by several agents, and their figures.

use super::Severity::{Error, Note, Warning};
use super::figures::figures;
use super::{FindingInfo, FindingScope, TrialFolding, WithheldVerdicts};
use crate::stalls::Stalls;

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::FleetLoad,
    ..FindingInfo::BASE
};

pub(super) const AGENT_LOST: FindingInfo = FindingInfo {
    seen: "An agent was lost before its share of the load, or its service, ended.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The agent was silent for 13 s, exited (it was restarted, killed or stopped with \
        SIGTERM), did not finish, or received nothing from the coordinator until its lease \
        expired. The figures include its measurements up to that time.",
    action: "Repeat the load. `prony fleet collect` fetches the measurements from the agent's own \
        file.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

pub(super) const PARTIAL: FindingInfo = FindingInfo {
    seen: "Not all agents completed their parts of the load.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "An agent's part arrived incomplete, ended early, contained no requests, or accounts \
              for less than its share of the schedule or of `--requests`; or a message from the \
              agent could not be counted. The load was lighter than configured.",
    action: "See which agents are affected and why, and repeat the load.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

pub(super) const AGENT_STALLED: FindingInfo = FindingInfo {
    seen: "An agent stalled for 500 ms or longer within the measured part.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::Speed,
    meaning: "This is the finding `generator-stalled` for one agent. The cause is not observed; \
              usually its process was stopped, or its machine was paused or suspended.",
    action: "Repeat the load.",
    folding: TrialFolding::Worst,
    ..BASE
};

figures! {
    /// Stalls of an agent.
    AgentStalled {
        /// The stalls.
        stalls: Stalls = longest_stalls,
    }
    |it, subject| super::load::stalled(&subject.generator(), &it.stalls)
}

pub(super) const AGENT_FAILED: FindingInfo = FindingInfo {
    seen: "An agent could not generate its share of the load.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "Its share is missing from the figures.",
    action: "Read the reason, fix its cause on the agent's machine, and repeat the load.",
    ..BASE
};

pub(super) const ACCOUNTING_MISMATCH: FindingInfo = FindingInfo {
    seen: "An agent's messages do not add up to its own totals.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "This is a bug in prony. The record contains what the agent sent.",
    action: "Report the bug, and attach the file that the agent wrote for the run.",
    ..BASE
};

pub(super) const SPOOL_FAILED: FindingInfo = FindingInfo {
    seen: "An agent could not write its own copy of its measurements.",
    severities: &[(Warning, "")],
    meaning: "Data that the NATS server loses can't be collected from the agent later.",
    action: "Check the free space and the permissions of the agent's state folder.",
    ..BASE
};

pub(super) const TARGET_UNREACHABLE: FindingInfo = FindingInfo {
    seen: "An agent can't reach the target. This is reported before the load starts.",
    severities: &[(Warning, "")],
    meaning: "The requests of this agent will probably fail.",
    action: "Check that the target runs and that the agent's machine can reach it.",
    ..BASE
};

pub(super) const LATE_START: FindingInfo = FindingInfo {
    seen: "An agent's first request started more than `--clock-bound` after it was due.",
    severities: &[
        (Note, "the agent started before the warm-up ended"),
        (
            Warning,
            "the agent started after the warm-up, so the measured part began without it",
        ),
    ],
    meaning: "The cause is not observed; the start order may have arrived late, the agent's machine \
        may have been busy, or connecting may have taken too long.",
    action: "Use a warm-up that is longer than the delay.",
    ..BASE
};

pub(super) const CLOCK_DOUBTFUL: FindingInfo = FindingInfo {
    seen: "An agent's clock changed during the load.",
    severities: &[(Warning, "")],
    meaning: "The clock's offset after the load differs from its offset before the load by more \
        than the errors of both measurements plus a drift of 100 ppm. The cause is not observed; usually, the clock was set, \
        or the machine was suspended. The start time of that agent's part is uncertain.",
    action: "Check the time synchronization of the agent's machine.",
    ..BASE
};

pub(super) const CLOCK_UNCHECKED: FindingInfo = FindingInfo {
    seen: "An agent's clock could not be compared with the coordinator's again after the load.",
    severities: &[(Note, "")],
    meaning: "A change of the clock during the load would go unnoticed.",
    action: "Nothing, unless the agents' start times matter.",
    ..BASE
};
