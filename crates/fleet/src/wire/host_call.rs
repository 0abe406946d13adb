//! Calls that an experiment's coordinator makes to an agent's machine, and their replies.
//!
//! They are the methods of [`prony_experiment::host::Host`] as messages. The calls of one run are
//! numbered: a call that is sent again because its reply was lost gets the same reply, and is not carried
//! out twice.

use std::collections::BTreeMap;

use prony_experiment::environment::Environment;
use prony_experiment::host::{ReadinessProbe, ServiceExit, ServiceStop};
use prony_experiment::plan::HostObjection;
use prony_experiment::service::{Allocated, Allocation, ServiceSpec};
use prony_experiment::telemetry::{TelemetrySample, WatchSpec};
use prony_record::Finding;
use serde::{Deserialize, Serialize};

use super::file_chunk::FileChunk;

/// Bytes that an agent reads of a service's log, counted from the log's end.
pub(crate) const LOG_READ_BYTES_MAX: u64 = 16 << 20;
/// Bytes that an agent sends of a log: what it read, and a line about what was left out.
pub(crate) const LOG_SENT_BYTES_MAX: u64 = LOG_READ_BYTES_MAX + 256;

/// A call with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedCall {
    /// Number of the call among those of one run to one agent.
    pub number: u64,
    /// The call.
    #[serde(flatten)]
    pub call: HostCall,
}

/// A call to an agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum HostCall {
    /// Check whether this service could be started, without starting it.
    #[serde(rename = "look")]
    CheckService {
        /// The service, with made-up addresses.
        spec: Box<ServiceSpec>,
    },
    /// Reserve the machine for the run, until the run is closed or its lease ends.
    Open(OpenRequest),
    /// Renew the lease.
    Renew,
    /// Allocate places and addresses for a trial's services. Removes what an earlier trial left.
    Allocate {
        /// The services in the order in which they start.
        wanted: Vec<Allocation>,
    },
    /// Store a chunk of a file.
    Put(FileChunk),
    /// Start a service.
    Start {
        /// The service.
        spec: Box<ServiceSpec>,
        /// Names of its files, which were sent before ([`service_file_name`]).
        files: Vec<String>,
        /// Names of the files that only their owner may read.
        secrets: Vec<String>,
    },
    /// Report whether a service still runs.
    Alive {
        /// The service.
        service: String,
    },
    /// Probe a service at one of its own listeners.
    #[serde(rename = "knock")]
    Probe {
        /// The service.
        service: String,
        /// The probe.
        #[serde(rename = "knock")]
        probe: ReadinessProbe,
    },
    /// Return the last lines of a service's log.
    LogTail {
        /// The service.
        service: String,
        /// Number of lines.
        lines: usize,
    },
    /// Return a chunk of a service's log.
    Log {
        /// The service.
        service: String,
        /// Position of the chunk, in bytes.
        offset: u64,
    },
    /// Start watching counters and services.
    Watch {
        /// The things to watch.
        watch: WatchSpec,
    },
    /// Return the current resource use.
    Sample,
    /// Return findings about what could not be watched.
    Unwatched,
    /// Examine the cryptography of a running service.
    Crypto {
        /// The service.
        spec: Box<ServiceSpec>,
    },
    /// Stop a service.
    Stop {
        /// The service.
        service: String,
    },
    /// Stop and remove everything of the trial.
    Release,
    /// Describe the machine and the programs of its services.
    Environment,
    /// End the run: stop and remove everything.
    Close,
}

/// A request to reserve an agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Time without a renewal after which everything is stopped and removed, in milliseconds.
    pub lease_ms: u64,
    /// Description of the experiment and its coordinator, shown to others who request the agent.
    #[serde(default)]
    pub holder: String,
    /// Forecast end of the experiment, UTC, RFC 3339.
    #[serde(default)]
    pub until: Option<String>,
}

/// The reply to a call that was carried out. A call that failed gets another
/// [`Reply`](crate::wire::Reply).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum HostReply {
    /// The call was carried out and returns nothing.
    Done,
    /// The agent doesn't know the run: it was closed, its lease ended, or the agent was restarted.
    Unknown,
    /// Reasons why a service can't be started.
    Objections {
        /// All reasons; empty if the service could be started.
        objections: Vec<HostObjection>,
    },
    /// The machine is reserved for the run.
    Opened {
        /// The kernel's identifier of the machine's boot.
        boot: String,
    },
    /// The allocated endpoints and folders.
    Allocated {
        /// By service.
        services: BTreeMap<String, Allocated>,
    },
    /// A service exited by itself.
    Exited {
        /// Its status and the end of its log.
        exited: ServiceExit,
    },
    /// A service responded to a probe.
    #[serde(rename = "knocked")]
    Responded {
        /// The HTTP status; `None` if the probe only connected.
        status: Option<u16>,
    },
    /// A service did not respond to a probe.
    Silent {
        /// The reason.
        why: String,
    },
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A chunk of a file.
    #[serde(rename = "piece")]
    Chunk(FileChunk),
    /// Resource use.
    Sample {
        /// Serialized as JSON within a string: a tagged enum can't hold maps with numeric keys.
        #[serde(with = "json_text")]
        sample: Box<TelemetrySample>,
    },
    /// Findings.
    Findings {
        /// The findings.
        findings: Vec<Finding>,
    },
    /// A service was stopped.
    Stopped {
        /// The service's end.
        stopped: ServiceStop,
    },
    /// A description of the machine.
    Environment {
        /// The description.
        environment: Box<Environment>,
    },
}

/// A value as JSON within a string.
mod json_text {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&serde_json::to_string(value).map_err(S::Error::custom)?)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        serde_json::from_str(&text).map_err(D::Error::custom)
    }
}

/// The name under which a service's file is sent.
pub(crate) fn service_file_name(service: &str, is_secret: bool, name: &str) -> String {
    let kind = if is_secret { "secret" } else { "plain" };
    format!("{service}/{kind}/{name}")
}

#[cfg(test)]
mod tests {
    use prony_experiment::service::{Endpoint, ListenKind, PlaceKind};
    use prony_experiment::telemetry::{CoreTimes, HostSample, ServiceSample};

    use super::*;
    use crate::wire::{AgentOrder, Command, Reply, SenderVersion};

    fn again(call: HostCall) -> HostCall {
        let order = AgentOrder {
            sender: SenderVersion::own(),
            run: "r1".parse().unwrap(),
            experiment: None,
            command: Command::Host(NumberedCall { number: 7, call }),
        };
        let json = serde_json::to_string(&order).unwrap();
        let read: AgentOrder = serde_json::from_str(&json).unwrap();
        assert_eq!(read, order, "{json}");
        match read.command {
            Command::Host(order) => order.call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calls_survive_serialization() {
        let wanted = Allocation {
            service: "web".to_owned(),
            host: Some("one".to_owned()),
            exposed: true,
            place: PlaceKind::Namespace,
            listen: [("".to_owned(), ListenKind::Tcp)].into(),
        };
        again(HostCall::Allocate {
            wanted: vec![wanted],
        });
        let endpoint = Endpoint::Tcp("[::1]:80".parse().unwrap());
        again(HostCall::Probe {
            service: "web".to_owned(),
            probe: ReadinessProbe {
                endpoint,
                get: Some("/".to_owned()),
                https: true,
            },
        });
        for call in [HostCall::Renew, HostCall::Sample, HostCall::Close] {
            again(call);
        }
    }

    #[test]
    fn samples_survive_serialization_exactly() {
        let mut sample = TelemetrySample {
            t_s: 0.1 + 0.2,
            ..TelemetrySample::default()
        };
        let service = ServiceSample {
            cpu_s: 1.0 / 3.0,
            ..ServiceSample::default()
        };
        sample.services.insert("web".to_owned(), service);
        sample.host = HostSample {
            cpu_idle_s: 1e9 + 0.01,
            context_switches: u64::MAX,
            core_times: [(3, CoreTimes::default())].into(),
            ..HostSample::default()
        };
        let reply = Reply::Host(HostReply::Sample {
            sample: Box::new(sample),
        });
        let json = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&json).unwrap(), reply);
    }
}
