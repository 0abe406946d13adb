//! What a coordinator asks of an agent's machine for an experiment, and what comes back.
//!
//! These are the calls of [`prony_experiment::host::Host`] as they travel. Calls of one run are numbered:
//! one that is sent again, since its answer was lost, is answered as before and not done twice.

use std::collections::BTreeMap;

use prony_experiment::environment::Environment;
use prony_experiment::host::{Exited, Knock, Stopped};
use prony_experiment::plan::HostObjection;
use prony_experiment::service::{Allocated, Allocation, ServiceSpec};
use prony_experiment::telemetry::{Sample, Watch};
use prony_record::Finding;
use serde::{Deserialize, Serialize};

use crate::messages::Piece;

/// Bytes of a service's log that an agent reads, from its end...
pub(crate) const LOG_READ_MAX: u64 = 16 << 20;
/// ...and that it sends, with a line about what was left out.
pub(crate) const LOG_SENT_MAX: u64 = LOG_READ_MAX + 256;

/// A call with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostOrder {
    /// Counts the calls of one run to one agent.
    pub number: u64,
    /// What is asked.
    #[serde(flatten)]
    pub call: Call,
}

/// What an agent's machine is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Call {
    /// Say whether this service could be started there; nothing is.
    Look {
        /// The service, its addresses made up.
        spec: Box<ServiceSpec>,
    },
    /// Reserve the machine for the run, until that is closed or its lease ends.
    Open(Opening),
    /// The lease begins anew.
    Renew,
    /// Make places and addresses for a trial's services on this machine; whatever an earlier trial left
    /// is removed.
    Allocate {
        /// The services in the order in which they start.
        wanted: Vec<Allocation>,
    },
    /// Keep a piece of a file.
    Put(Piece),
    /// Start a service.
    Start {
        /// The service.
        spec: Box<ServiceSpec>,
        /// Names of its files, which were sent before ([`file_name`]).
        files: Vec<String>,
        /// Names of those that only their owner may read.
        secrets: Vec<String>,
    },
    /// Say whether a service still runs.
    Alive {
        /// The service.
        service: String,
    },
    /// Ask a service something, at one of its own listeners.
    Knock {
        /// The service.
        service: String,
        /// What.
        knock: Knock,
    },
    /// Say the last lines of a service's log.
    LogTail {
        /// The service.
        service: String,
        /// How many.
        lines: usize,
    },
    /// Send a piece of a service's log.
    Log {
        /// The service.
        service: String,
        /// Where the piece begins, in bytes.
        offset: u64,
    },
    /// Say what is watched from now on.
    Watch {
        /// What.
        watch: Watch,
    },
    /// Say what is used now.
    Sample,
    /// Say what could not be watched.
    Unwatched,
    /// Look at the cryptography of a service that runs.
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
    /// Say what the machine is, and what its services run.
    Environment,
    /// The run is over: stop and remove everything.
    Close,
}

/// A reservation of an agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// How long after the last renewal everything is stopped and removed, in milliseconds.
    pub lease_ms: u64,
    /// The experiment and its coordinator, for others who want the agent.
    #[serde(default)]
    pub holder: String,
    /// When it will be over by its own forecast, UTC, RFC 3339.
    #[serde(default)]
    pub until: Option<String>,
}

/// What comes back of a call that could be made. Why one could not is said by
/// [`Reply`](crate::messages::Reply).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// Nothing is known of that run: it was closed, its lease ended, or the agent was started anew.
    Unknown,
    /// What stands against a service.
    Objections {
        /// All of it; nothing where it could be started.
        objections: Vec<HostObjection>,
    },
    /// It is there for the run.
    Opened {
        /// The kernel's name for the machine's boot.
        boot: String,
    },
    /// Where services will listen, and their files lie.
    Allocated {
        /// By service.
        services: BTreeMap<String, Allocated>,
    },
    /// A service ended by itself.
    Exited {
        /// How.
        exited: Exited,
    },
    /// A service answered.
    Knocked {
        /// The status; none where nothing but a connection was asked for.
        status: Option<u16>,
    },
    /// A service did not answer.
    Silent {
        /// Why.
        why: String,
    },
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A piece of a file.
    Piece(Piece),
    /// What is used.
    Sample {
        /// All of it, as JSON within a string: a tagged enum can't hold maps whose keys are numbers.
        #[serde(with = "json_text")]
        sample: Box<Sample>,
    },
    /// What is to be said.
    Findings {
        /// Each.
        findings: Vec<Finding>,
    },
    /// A service was stopped.
    Stopped {
        /// How it ended.
        stopped: Stopped,
    },
    /// The machine.
    Environment {
        /// All that is known.
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

/// What a service's file is called on its way.
pub(crate) fn file_name(service: &str, is_secret: bool, name: &str) -> String {
    let kind = if is_secret { "secret" } else { "plain" };
    format!("{service}/{kind}/{name}")
}

#[cfg(test)]
mod tests {
    use prony_experiment::service::{Endpoint, ListenKind, PlaceKind};
    use prony_experiment::telemetry::{CoreTimes, HostSample, ServiceSample};

    use super::*;
    use crate::messages::{Order, Reply, VERSION, What};

    fn again(call: Call) -> Call {
        let order = Order {
            version: VERSION.to_owned(),
            run: "r1".parse().unwrap(),
            experiment: None,
            what: What::Host(HostOrder { number: 7, call }),
        };
        let json = serde_json::to_string(&order).unwrap();
        let read: Order = serde_json::from_str(&json).unwrap();
        assert_eq!(read, order, "{json}");
        match read.what {
            What::Host(order) => order.call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calls_read_as_they_were_written() {
        let wanted = Allocation {
            service: "web".to_owned(),
            host: Some("one".to_owned()),
            exposed: true,
            place: PlaceKind::Namespace,
            listen: [("".to_owned(), ListenKind::Tcp)].into(),
        };
        again(Call::Allocate {
            wanted: vec![wanted],
        });
        let endpoint = Endpoint::Tcp("[::1]:80".parse().unwrap());
        again(Call::Knock {
            service: "web".to_owned(),
            knock: Knock {
                endpoint,
                get: Some("/".to_owned()),
                https: true,
            },
        });
        for call in [Call::Renew, Call::Sample, Call::Close] {
            again(call);
        }
    }

    #[test]
    fn what_was_measured_comes_back_to_the_bit() {
        let mut sample = Sample {
            t_s: 0.1 + 0.2,
            ..Sample::default()
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
        let reply = Reply::Host(Answer::Sample {
            sample: Box::new(sample),
        });
        let json = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&json).unwrap(), reply);
    }
}
