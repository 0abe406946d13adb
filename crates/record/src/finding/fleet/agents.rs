//! Findings about single agents.

use super::BASE;
use crate::finding::Severity::{Error, Warning};
use crate::finding::figures::figures;
use crate::finding::load::stalled;
use crate::finding::{FindingInfo, TrialFolding, WithheldVerdicts};
use crate::stalls::Stalls;

pub(in crate::finding) const AGENT_STALLED: FindingInfo = FindingInfo {
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
    |it, subject| stalled(&subject.generator(), &it.stalls)
}

pub(in crate::finding) const AGENT_FAILED: FindingInfo = FindingInfo {
    seen: "An agent could not generate its share of the load.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "Its share is missing from the figures.",
    action: "Read the reason, fix its cause on the agent's machine, and repeat the load.",
    ..BASE
};

figures! {
    /// An agent without a load.
    AgentFailed {
        /// Error of the load.
        reason: String = same,
    }
    |it, subject| format!(
        "{} could not generate its share of the load: {}.",
        subject.generator(),
        it.reason
    )
}

pub(in crate::finding) const ACCOUNTING_MISMATCH: FindingInfo = FindingInfo {
    seen: "An agent's messages do not add up to its own totals.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "This is a bug in prony. The record contains what the agent sent.",
    action: "Report the bug, and attach the file that the agent wrote for the run.",
    ..BASE
};

figures! {
    /// Messages that don't add up.
    AccountingMismatch {
        /// Number of requests in the messages that the agent sent.
        sent: u64 = sum,
        /// Number of requests that the agent measured.
        measured: u64 = sum,
    }
    |_it, subject| format!(
        "The results that agent {} sent differ from those that it measured. This is a bug in prony; \
         the agent's own file contains the results that were sent.",
        subject.name()
    )
}

pub(in crate::finding) const SPOOL_FAILED: FindingInfo = FindingInfo {
    seen: "An agent could not write its own copy of its measurements.",
    severities: &[(Warning, "")],
    meaning: "Data that the NATS server loses can't be collected from the agent later.",
    action: "Check the free space and the permissions of the agent's state folder.",
    ..BASE
};

figures! {
    /// A failed copy of an agent's measurements.
    SpoolFailed {
        /// First error of writing the file or of queueing a message.
        error: String = same,
    }
    |it, subject| format!(
        "{} could not keep its own copy of all results ({}). Results that the server loses can't be \
         sent again.",
        subject.generator(),
        it.error
    )
}

pub(in crate::finding) const TARGET_UNREACHABLE: FindingInfo = FindingInfo {
    seen: "An agent can't reach the target. This is reported before the load starts.",
    severities: &[(Warning, "")],
    meaning: "The requests of this agent will probably fail.",
    action: "Check that the target runs and that the agent's machine can reach it.",
    ..BASE
};

figures! {
    /// A target that an agent did not reach.
    TargetUnreachable {
        /// Error of the attempt.
        error: String = same,
    }
    |it, _subject| format!(
        "The target could not be reached before the load: {}. Check that it is running.",
        it.error
    )
}
