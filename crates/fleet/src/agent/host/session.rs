//! One run's services on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_experiment::host::Host;
use prony_experiment::host::local::LocalHost;
use prony_experiment::place::topology::Topology;
use prony_experiment::service::{Allocated, Allocation, Endpoint, PlaceKind, ServiceSpec};

use super::service;
use crate::agent::files::{Files, pieces};
use crate::host::calls::{Answer, Call, HostOrder, LOG_READ_MAX, file_name};
use crate::messages::{LONGEST_PIECE, Reply};
use crate::policy::Policy;

/// How long each service may take to end when nobody waits for it any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// A run that has this machine. When it is dropped nothing of it is left.
#[derive(Debug)]
pub(super) struct Session {
    // In the order in which they go: what runs before what it runs on.
    host: LocalHost,
    files: Files,
    folder: PathBuf,
    policy: Policy,
    services: BTreeMap<String, Allocated>,
    /// The log that is being sent.
    log: Option<(String, Vec<u8>)>,
    /// The number of the last call, and what came of it.
    last: Option<(u64, Reply)>,
}

impl Session {
    pub(super) fn new(
        folder: PathBuf,
        policy: Policy,
        address: Option<IpAddr>,
    ) -> Result<Session, String> {
        let mut host = LocalHost::new().map_err(|error| error.to_string())?;
        if let Some(address) = address {
            host.set_address(address);
        }
        Ok(Session {
            host,
            files: Files::new(folder.join("files"))?,
            folder,
            policy,
            services: BTreeMap::new(),
            log: None,
            last: None,
        })
    }

    /// Does a call; one that was done before is answered as it was.
    pub(super) fn call(&mut self, order: HostOrder) -> Reply {
        if let Some((number, reply)) = &self.last
            && *number == order.number
        {
            return reply.clone();
        }
        let reply = match self.done(order.call) {
            Ok(answer) => Reply::Host(answer),
            Err(reply) => reply,
        };
        self.last = Some((order.number, reply.clone()));
        reply
    }

    fn done(&mut self, call: Call) -> Result<Answer, Reply> {
        Ok(match call {
            Call::Allocate { wanted } => self.allocate(wanted)?,
            Call::Put(piece) => {
                self.files
                    .take(&piece)
                    .map_err(|text| Reply::Wrong { text })?;
                Answer::Done
            }
            Call::Start {
                spec,
                files,
                secrets,
            } => self.start(*spec, &files, &secrets)?,
            Call::Alive { service } => match self.host.alive(&service) {
                Ok(()) => Answer::Done,
                Err(exited) => Answer::Exited { exited },
            },
            Call::Knock { service, knock } => {
                if !self.has_endpoint(&service, &knock.endpoint) {
                    let text = format!("service {service} has no listener there");
                    return Err(Reply::Wrong { text });
                }
                match self.host.knock(&service, &knock) {
                    Ok(status) => Answer::Knocked { status },
                    Err(why) => Answer::Silent { why },
                }
            }
            Call::LogTail { service, lines } => Answer::Text {
                text: self.host.log_tail(&service, lines),
            },
            Call::Log { service, offset } => self.piece_of_log(service, offset)?,
            Call::Watch { watch } => {
                self.host.watch(watch);
                Answer::Done
            }
            Call::Sample => Answer::Sample {
                sample: Box::new(self.host.sample()),
            },
            Call::Unwatched => Answer::Findings {
                findings: self.host.unwatched(),
            },
            Call::Crypto { spec } => Answer::Findings {
                findings: self.host.examine_crypto(&spec).into_iter().collect(),
            },
            Call::Stop { service } => Answer::Stopped {
                stopped: self.host.stop(&service).map_err(refuses)?,
            },
            Call::Release => {
                self.services.clear();
                self.host.release().map_err(refuses)?;
                Answer::Done
            }
            Call::Environment => Answer::Environment {
                environment: Box::new(self.host.environment()),
            },
            // The desk has those.
            Call::Look { .. } | Call::Open(_) | Call::Renew | Call::Close => Answer::Done,
        })
    }

    fn allocate(&mut self, mut wanted: Vec<Allocation>) -> Result<Answer, Reply> {
        for wanted in &mut wanted {
            if let PlaceKind::Named(_) = wanted.place {
                let text = format!("service {}: named places are not made here", wanted.service);
                return Err(Reply::Wrong { text });
            }
            // To its own agent the machine is this one.
            wanted.host = None;
        }
        self.services.clear();
        self.log = None;
        self.host.release().map_err(refuses)?;
        remove(&self.logs())?;
        let files = self.folder.join("files");
        remove(&files)?;
        self.files = Files::new(files).map_err(|text| Reply::Environment { text })?;
        let services = self.host.allocate(&wanted, &Topology::default());
        self.services = services.map_err(refuses)?;
        Ok(Answer::Allocated {
            services: self.services.clone(),
        })
    }

    fn start(
        &mut self,
        mut spec: ServiceSpec,
        files: &[String],
        secrets: &[String],
    ) -> Result<Answer, Reply> {
        if let Err((_, refusal)) = service::allowed(&spec, &self.policy) {
            return Err(Reply::Refused {
                rule: refusal.rule.to_owned(),
                text: refusal.text,
            });
        }
        let (service, own) = (spec.name.clone(), self.services.get(&spec.name));
        if let Some(own) = own.filter(|_| spec.cwd.as_os_str().is_empty()) {
            spec.cwd.clone_from(&own.files_dir);
        }
        spec.files = self.come(&service, false, files)?;
        spec.secrets = self.come(&service, true, secrets)?;
        let spec = service::with_programs(spec);
        self.host.start(&spec, &self.logs()).map_err(refuses)?;
        Ok(Answer::Done)
    }

    /// Files of a service that were sent.
    fn come(
        &self,
        service: &str,
        is_secret: bool,
        names: &[String],
    ) -> Result<BTreeMap<String, Vec<u8>>, Reply> {
        let whole = self.files.whole();
        let read = |name: &String| {
            let path = whole.get(&file_name(service, is_secret, name));
            let path = path.ok_or_else(|| format!("file {name:?} of {service} has not come"));
            let bytes = fs::read(path?).map_err(|error| format!("file {name:?}: {error}"))?;
            Ok((name.clone(), bytes))
        };
        let read: Result<_, String> = names.iter().map(read).collect();
        read.map_err(|text| Reply::Wrong { text })
    }

    fn has_endpoint(&self, service: &str, endpoint: &Endpoint) -> bool {
        let own = self.services.get(service);
        own.is_some_and(|own| own.endpoints.values().any(|it| it == endpoint))
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// A piece of a log as it was when its first piece was asked for.
    fn piece_of_log(&mut self, service: String, offset: u64) -> Result<Answer, Reply> {
        if !self.services.contains_key(&service) {
            let text = format!("there is no service {service}");
            return Err(Reply::Wrong { text });
        }
        let is_known = self.log.as_ref().is_some_and(|(of, _)| *of == service);
        if offset == 0 || !is_known {
            let path = self.logs().join(format!("{service}.log"));
            let bytes = end_of(&path).map_err(|error| Reply::Environment {
                text: format!("{}: {error}", path.display()),
            })?;
            self.log = Some((service, bytes));
        }
        let (name, bytes) = self.log.as_ref().map_or(("", &[][..]), |(name, bytes)| {
            (name.as_str(), bytes.as_slice())
        });
        let number = offset as usize / LONGEST_PIECE;
        let piece = pieces(name, bytes).nth(number);
        piece.map(Answer::Piece).ok_or_else(|| Reply::Wrong {
            text: format!("the log of {name} ends before byte {offset}"),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nothing runs any more when its files go. What can't be removed here is swept at the next
        // start of an agent.
        self.host.set_patience(PATIENCE);
        let _ = self.host.release();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn refuses(error: impl std::fmt::Display) -> Reply {
    Reply::Environment {
        text: error.to_string(),
    }
}

/// Removes a folder that may not be there.
fn remove(folder: &Path) -> Result<(), Reply> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(refuses(format!("{}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// The end of a log, or all of it; nothing where there is none.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let length = file.metadata()?.len();
    let left_out = length.saturating_sub(LOG_READ_MAX);
    let mut bytes = Vec::new();
    if left_out > 0 {
        bytes = format!("… {left_out} bytes before this are left out\n").into_bytes();
    }
    file.seek(SeekFrom::Start(left_out))?;
    file.take(LOG_READ_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
