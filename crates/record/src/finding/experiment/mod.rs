//! Registry rows of the findings that concern an experiment as a whole, and their figures.

mod setup;
mod steadiness;
#[cfg(test)]
mod tests;

use super::Severity::{Error, Note, Warning};
use super::{FindingInfo, FindingScope, WithheldVerdicts};

pub use setup::*;
pub use steadiness::*;

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
