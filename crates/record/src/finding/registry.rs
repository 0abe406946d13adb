//! Registry of findings: the ID and the fixed properties of each finding.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::figures::{Figures, FiguresInfo};
use super::{FindingInfo, experiment, fleet, load, trial};

/// Defines [`FindingId`]. Each line contains a variant, its ID, any IDs that earlier versions used,
/// its row in the registry, and the type of its figures.
macro_rules! registry {
    ($($variant:ident $id:literal $([$($old:literal),+])? => $row:path, $figures:ty;)+) => {
        /// Every finding that this version of prony can create. JSON contains its ID
        /// ([`FindingId::as_str`]), which never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FindingId {
            $(#[doc = concat!("`", $id, "`")] $variant,)+
        }

        impl FindingId {
            /// All findings, in the order of the documentation.
            pub const ALL: &[FindingId] = &[$(FindingId::$variant,)+];

            /// Returns the stable ID, such as `generator-saturated`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(FindingId::$variant => $id,)+
                }
            }

            /// Returns the finding's row.
            pub const fn info(self) -> &'static FindingInfo {
                match self {
                    $(FindingId::$variant => &$row,)+
                }
            }

            /// Returns the functions of the finding's figures.
            pub fn figures(self) -> FiguresInfo {
                match self {
                    $(FindingId::$variant => FiguresInfo::of::<$figures>(),)+
                }
            }

            /// Returns the IDs that earlier versions used for this finding.
            pub const fn former_ids(self) -> &'static [&'static str] {
                match self {
                    $(FindingId::$variant => &[$($($old),+)?],)+
                }
            }
        }

        $(impl FindingKind for $figures {
            const ID: FindingId = FindingId::$variant;
        })+
    };
}

/// The figures of a kind of finding.
pub trait FindingKind: Figures {
    /// The kind.
    const ID: FindingId;
}

registry! {
    GeneratorSaturated "generator-saturated" => load::GENERATOR_SATURATED, load::GeneratorSaturated;
    GeneratorStalled "generator-stalled" => load::GENERATOR_STALLED, load::GeneratorStalled;
    GeneratorThrottled "generator-throttled" => load::GENERATOR_THROTTLED, load::GeneratorThrottled;
    CpuQuota "cpu-quota" => load::CPU_QUOTA, load::CpuQuota;
    ResolveUnused "resolve-unused" => load::RESOLVE_UNUSED, load::ResolveUnused;
    GeneratorStarved "generator-starved" => load::GENERATOR_STARVED, load::GeneratorStarved;
    ScheduleMissed "schedule-missed" => load::SCHEDULE_MISSED, load::ScheduleMissed;
    Errors "errors" => load::ERRORS, load::Errors;
    SocketsFailed "sockets-failed" => load::SOCKETS_FAILED, load::SocketsFailed;
    NothingListens "nothing-listens" => load::NOTHING_LISTENS, load::NothingListens;
    TlsFailed "tls-failed" => load::TLS_FAILED, load::TlsFailed;
    SynRetransmitted "syn-retransmitted" => load::SYN_RETRANSMITTED, load::SynRetransmitted;
    PortExhaustion "port-exhaustion" => load::PORT_EXHAUSTION, load::PortExhaustion;
    PortsScarce "ports-scarce" => load::PORTS_SCARCE, load::PortsScarce;
    ConnectionsLate "connections-late" => load::CONNECTIONS_LATE, load::ConnectionsLate;
    ConnectionsNotReused "connections-not-reused" => load::CONNECTIONS_NOT_REUSED, load::ConnectionsNotReused;
    DelayedAcks "delayed-acks" => load::DELAYED_ACKS, load::DelayedAcks;
    EventsTogether "events-together" => load::EVENTS_TOGETHER, load::EventsTogether;
    RequestsRetried "requests-retried" => load::REQUESTS_RETRIED, load::RequestsRetried;
    StreamsLimited "streams-limited" => load::STREAMS_LIMITED, load::StreamsLimited;
    PacketsLost "packets-lost" => load::PACKETS_LOST, load::PacketsLost;
    UdpBufferSmall "udp-buffer-small" => load::UDP_BUFFER_SMALL, load::UdpBufferSmall;
    FramesDropped "frames-dropped" => load::FRAMES_DROPPED, load::FramesDropped;
    UnaskedBytes "unasked-bytes" => load::UNASKED_BYTES, load::UnaskedBytes;
    LinesSkipped "lines-skipped" => load::LINES_SKIPPED, load::LinesSkipped;
    LogUnreadable "log-unreadable" => load::LOG_UNREADABLE, load::LogUnreadable;
    IoFallback "io-fallback" => load::IO_FALLBACK, load::IoFallback;
    LoadAborted "load-aborted" => load::LOAD_ABORTED, load::LoadAborted;

    AgentLost "agent-lost" => fleet::AGENT_LOST, fleet::AgentLost;
    Partial "partial" => fleet::PARTIAL, fleet::Partial;
    AgentStalled "agent-stalled" => fleet::AGENT_STALLED, fleet::AgentStalled;
    AgentFailed "agent-failed" => fleet::AGENT_FAILED, fleet::AgentFailed;
    AccountingMismatch "accounting-mismatch" ["books-differ"] => fleet::ACCOUNTING_MISMATCH, fleet::AccountingMismatch;
    SpoolFailed "spool-failed" => fleet::SPOOL_FAILED, fleet::SpoolFailed;
    TargetUnreachable "target-unreachable" => fleet::TARGET_UNREACHABLE, fleet::TargetUnreachable;
    LateStart "late-start" => fleet::LATE_START, fleet::LateStart;
    ClockDoubtful "clock-doubtful" => fleet::CLOCK_DOUBTFUL, fleet::ClockDoubtful;
    ClockUnchecked "clock-unchecked" => fleet::CLOCK_UNCHECKED, fleet::ClockUnchecked;

    ServiceEnded "service-ended" => trial::SERVICE_ENDED, trial::ServiceEnded;
    ServiceKilled "service-killed" => trial::SERVICE_KILLED, trial::ServiceKilled;
    ServiceLimit "service-limit" => trial::SERVICE_LIMIT, trial::ServiceLimit;
    ServiceThrottled "service-throttled" => trial::SERVICE_THROTTLED, trial::ServiceThrottled;
    ServiceOutOfMemory "service-out-of-memory" => trial::SERVICE_OUT_OF_MEMORY, trial::ServiceOutOfMemory;
    ServiceMemoryLimited "service-memory-limited" => trial::SERVICE_MEMORY_LIMITED, trial::ServiceMemoryLimited;
    ServiceLogCut "service-log-cut" => trial::SERVICE_LOG_CUT, trial::ServiceLogCut;
    ConnectionsLimited "connections-limited" => trial::CONNECTIONS_LIMITED, trial::ConnectionsLimited;
    CapacityUnknown "capacity-unknown" => trial::CAPACITY_UNKNOWN, trial::CapacityUnknown;
    TelemetryLost "telemetry-lost" => trial::TELEMETRY_LOST, trial::TelemetryLost;
    ProfileLimited "profile-limited" => trial::PROFILE_LIMITED, trial::ProfileLimited;
    CryptoUnaccelerated "crypto-unaccelerated" => trial::CRYPTO_UNACCELERATED, trial::CryptoUnaccelerated;
    RoundTripDeviates "round-trip-deviates" => trial::ROUND_TRIP_DEVIATES, trial::RoundTripDeviates;
    LinkOverloaded "link-overloaded" => trial::LINK_OVERLOADED, trial::LinkOverloaded;
    NotIdle "not-idle" => trial::NOT_IDLE, trial::NotIdle;

    UnexpectedStatus "unexpected-status" => experiment::UNEXPECTED_STATUS, experiment::UnexpectedStatus;
    BytesDiffer "bytes-differ" => experiment::BYTES_DIFFER, experiment::BytesDiffer;
    BodiesDecoded "bodies-decoded" => experiment::BODIES_DECODED, experiment::BodiesDecoded;
    BodiesMayDiffer "bodies-may-differ" => experiment::BODIES_MAY_DIFFER, experiment::BodiesMayDiffer;
    EffectsWithheld "effects-withheld" => experiment::EFFECTS_WITHHELD, experiment::EffectsWithheld;
    NegotiationDiffers "negotiation-differs" => experiment::NEGOTIATION_DIFFERS, experiment::NegotiationDiffers;
    ServerIdle "server-idle" => experiment::SERVER_IDLE, experiment::ServerIdle;
    NotStationary "not-stationary" => experiment::NOT_STATIONARY, experiment::NotStationary;
    NoisyMachine "noisy-machine" => experiment::NOISY_MACHINE, experiment::NoisyMachine;
    OrderEffect "order-effect" => experiment::ORDER_EFFECT, experiment::OrderEffect;
    FewBlocks "few-blocks" => experiment::FEW_BLOCKS, experiment::FewBlocks;
    MachineChanged "machine-changed" => experiment::MACHINE_CHANGED, experiment::MachineChanged;
    AgentsChanged "agents-changed" => experiment::AGENTS_CHANGED, experiment::AgentsChanged;
    PlanChanged "plan-changed" => experiment::PLAN_CHANGED, experiment::PlanChanged;
}

impl FindingId {
    /// Returns the finding that has the given ID, or had that ID in an earlier version.
    pub fn parse(id: &str) -> Option<FindingId> {
        let has_id = |known: &FindingId| known.as_str() == id || known.former_ids().contains(&id);
        FindingId::ALL.iter().copied().find(has_id)
    }

    /// Returns true if the finding says that the load generator reached its limit.
    pub fn is_generator_limit(self) -> bool {
        matches!(
            self,
            FindingId::GeneratorSaturated | FindingId::GeneratorThrottled
        )
    }

    /// Returns the anchor of the finding's description in the documentation.
    pub fn reference(self) -> String {
        format!("docs/findings.md#{self}")
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// ID of a finding, as stored. Files and agents of other versions may contain IDs that this version
/// does not define; these are kept and shown unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum FindingName {
    /// A finding of this version.
    Known(FindingId),
    /// An ID that this version does not define.
    Unknown(Box<str>),
}

impl FindingName {
    /// Returns the finding, if this version defines it.
    pub fn known(&self) -> Option<FindingId> {
        match self {
            FindingName::Known(id) => Some(*id),
            FindingName::Unknown(_) => None,
        }
    }

    /// Returns the ID as shown in JSON and reports.
    pub fn as_str(&self) -> &str {
        match self {
            FindingName::Known(id) => id.as_str(),
            FindingName::Unknown(name) => name,
        }
    }

    /// Returns the ID in words, for a sentence that lists findings.
    pub fn words(&self) -> String {
        match self.known() {
            // The ID is the word for the severity, too.
            Some(FindingId::Errors) => "failed requests".to_owned(),
            _ => self.as_str().replace('-', " "),
        }
    }
}

impl From<FindingId> for FindingName {
    fn from(id: FindingId) -> FindingName {
        FindingName::Known(id)
    }
}

impl From<String> for FindingName {
    fn from(name: String) -> FindingName {
        match FindingId::parse(&name) {
            Some(id) => FindingName::Known(id),
            None => FindingName::Unknown(name.into_boxed_str()),
        }
    }
}

impl From<FindingName> for String {
    fn from(name: FindingName) -> String {
        name.as_str().to_owned()
    }
}

impl PartialEq<FindingId> for FindingName {
    fn eq(&self, other: &FindingId) -> bool {
        self.known() == Some(*other)
    }
}

/// The order of IDs is alphabetical, so it doesn't depend on the version that wrote a list of
/// findings.
impl Ord for FindingName {
    fn cmp(&self, other: &FindingName) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for FindingName {
    fn partial_cmp(&self, other: &FindingName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for FindingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{FindingScope, Severity, WithheldVerdicts};
    use super::*;

    #[test]
    fn ids_are_unique_kebab_case() {
        let mut seen = BTreeSet::new();
        for id in FindingId::ALL {
            for name in [&[id.as_str()], id.former_ids()].concat() {
                assert!(seen.insert(name), "{name} is listed twice");
                assert_eq!(FindingId::parse(name), Some(*id));
                let is_kebab = |c: char| c.is_ascii_lowercase() || c == '-';
                assert!(name.chars().all(is_kebab), "{name}");
            }
        }
    }

    #[test]
    fn rows_are_complete() {
        for id in FindingId::ALL {
            let info = id.info();
            for text in [info.seen, info.meaning, info.action] {
                assert!(text.ends_with('.'), "{id}: \"{text}\"");
            }
            assert!(!info.severities.is_empty(), "{id}");
            let is_sorted = info.severities.is_sorted_by(|(a, _), (b, _)| a < b);
            assert!(is_sorted, "{id}: severities are listed mildest first");
            let has_conditions = info.severities.iter().all(|(_, when)| !when.is_empty());
            let is_single = info.severities.len() == 1;
            assert!(is_single || has_conditions, "{id}");
            assert!(FindingScope::ALL.contains(&info.scope));
        }
    }

    #[test]
    fn exactly_the_errors_withhold_verdicts() {
        for id in FindingId::ALL {
            let withholds = id.info().withholds != WithheldVerdicts::Nothing;
            assert_eq!(withholds, id.info().can_have(Severity::Error), "{id}");
        }
    }

    #[test]
    fn former_and_unknown_ids_are_read() {
        let read = |id: &str| {
            let json = format!(r#"{{"id":"{id}","severity":"error","text":"Text."}}"#);
            serde_json::from_str::<super::super::Finding>(&json).unwrap()
        };
        assert_eq!(read("books-differ").id, FindingId::AccountingMismatch);
        let unknown = read("from-another-version");
        assert_eq!((unknown.id.known(), unknown.info()), (None, None));
        let json = serde_json::to_string(&unknown).unwrap();
        assert!(json.contains(r#""id":"from-another-version""#), "{json}");
    }
}
