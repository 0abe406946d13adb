//! Calls from an experiment's coordinator to an agent's machine, and their replies.
//!
//! They correspond to the methods of [`prony_machine::host::Host`]. The calls of a run are
//! numbered. If a call is sent again because its reply was lost, it is not carried out again, but
//! gets the same reply.

use std::collections::BTreeMap;

use prony_machine::environment::Environment;
use prony_machine::host::{ReadinessProbe, ServiceExit, ServiceStop};
use prony_machine::telemetry::TelemetrySample;
use prony_plan::HostObjection;
use prony_plan::service::{AllocatedService, Allocation, ServiceSpec};
use prony_plan::watch_spec::WatchSpec;
use prony_record::Finding;
use serde::{Deserialize, Serialize};

use super::file_chunk::FileChunk;

/// Maximum number of bytes that an agent reads from a service's log, counted from the end of the
/// log.
pub(crate) const LOG_READ_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of bytes that an agent sends from a log: the bytes that it has read, plus a line
/// about omitted bytes.
pub(crate) const LOG_SENT_BYTES_MAX: u64 = LOG_READ_BYTES_MAX + 256;

/// A call with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedCall {
    /// Sequence number of the call, counted over all calls of one run to one agent.
    pub number: u64,
    /// Call to carry out.
    #[serde(flatten)]
    pub call: HostCall,
}

/// Call to an agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum HostCall {
    /// Check whether a service could be started, without starting it.
    #[serde(rename = "look")]
    CheckService {
        /// Specification of the service, with placeholder addresses.
        spec: Box<ServiceSpec>,
    },
    /// Reserve the machine for the run, until the run is closed or its lease expires.
    Open(OpenRequest),
    /// Renew the lease.
    Renew,
    /// Allocate places and addresses for the services of a trial. Removes the remains of an earlier
    /// trial.
    Allocate {
        /// Services, in the order in which they start.
        wanted: Vec<Allocation>,
    },
    /// Store a chunk of a file.
    Put(FileChunk),
    /// Start a service.
    Start {
        /// Specification of the service.
        spec: Box<ServiceSpec>,
        /// Names of the service's files, which were sent before ([`service_file_name`]).
        files: Vec<String>,
        /// Names of the files that only the owner may read.
        secrets: Vec<String>,
    },
    /// Report whether a service is still running.
    Alive {
        /// Name of the service.
        service: String,
    },
    /// Probe a service at one of its own listeners.
    #[serde(rename = "knock")]
    Probe {
        /// Name of the service.
        service: String,
        /// Type of the probe.
        #[serde(rename = "knock")]
        probe: ReadinessProbe,
    },
    /// Return the last lines of a service's log.
    LogTail {
        /// Name of the service.
        service: String,
        /// Maximum number of lines to return.
        lines: usize,
    },
    /// Return a chunk of a service's log.
    Log {
        /// Name of the service.
        service: String,
        /// Position of the chunk in the log, in bytes.
        offset: u64,
    },
    /// Start observing counters and services.
    Watch {
        /// Counters and services to observe.
        watch: WatchSpec,
    },
    /// Return the current resource usage.
    Sample,
    /// Return findings about counters that could not be observed.
    Unwatched,
    /// Examine the cryptography library of a running service.
    Crypto {
        /// Specification of the service.
        spec: Box<ServiceSpec>,
    },
    /// Stop a service.
    Stop {
        /// Name of the service.
        service: String,
    },
    /// Stop the trial's services and remove its resources.
    Release,
    /// Describe the machine and the programs of the services.
    Environment,
    /// End the run: stop all services and remove all resources.
    Close,
}

/// Request to reserve an agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Lease in milliseconds: how long the agent waits for a renewal before it stops and removes
    /// all services.
    pub lease_ms: u64,
    /// Name of the experiment and its coordinator, for other users of the agent.
    #[serde(default)]
    pub holder: String,
    /// Forecast end of the experiment, UTC, RFC 3339.
    #[serde(default)]
    pub until: Option<String>,
}

/// Reply to a call that was carried out. If a call failed, the agent sends a different
/// [`Reply`](crate::wire::Reply).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum HostReply {
    /// The call was carried out and has no result.
    Done,
    /// The agent doesn't know the run: it was closed, its lease expired, or the agent was
    /// restarted.
    Unknown,
    /// Reasons why a service can't be started.
    Objections {
        /// All of these reasons; empty if the service could be started.
        objections: Vec<HostObjection>,
    },
    /// The machine is reserved for the run.
    Opened {
        /// Boot identifier of the machine's kernel.
        boot: String,
    },
    /// The allocated endpoints and folders.
    Allocated {
        /// The endpoints and folder of each service, by name.
        services: BTreeMap<String, AllocatedService>,
    },
    /// The service has exited.
    Exited {
        /// Exit status of the service, and the end of its log.
        exited: ServiceExit,
    },
    /// The service responded to the probe.
    #[serde(rename = "knocked")]
    Responded {
        /// Status code of the HTTP response; `None` if the probe only connected.
        status: Option<u16>,
    },
    /// The service did not respond to the probe.
    Silent {
        /// Reason for the failure of the probe.
        why: String,
    },
    /// Text, such as the end of a log.
    Text {
        /// The text itself.
        text: String,
    },
    /// A chunk of a file.
    #[serde(rename = "piece")]
    Chunk(FileChunk),
    /// A sample of the resource usage.
    Sample {
        /// The sample, serialized as JSON within a string, because a tagged enum can't contain maps
        /// with numeric keys.
        #[serde(with = "json_text")]
        sample: Box<TelemetrySample>,
    },
    /// Findings about counters that could not be observed.
    Findings {
        /// List of the findings.
        findings: Vec<Finding>,
    },
    /// The service was stopped.
    Stopped {
        /// Details of the stop.
        stopped: ServiceStop,
    },
    /// A description of the machine.
    Environment {
        /// Description of the machine.
        environment: Box<Environment>,
    },
}

/// Serializes a value as JSON within a string.
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

/// Returns the name under which a service's file is sent.
pub(crate) fn service_file_name(service: &str, is_secret: bool, name: &str) -> String {
    let kind = if is_secret { "secret" } else { "plain" };
    format!("{service}/{kind}/{name}")
}

#[cfg(test)]
mod tests {
    use prony_machine::telemetry::{CoreTimes, HostSample, ServiceSample};
    use prony_plan::service::{Endpoint, ListenKind, PlaceKind};

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
            jail: None,
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
                sni: Some("a.test".to_owned()),
                host: None,
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
