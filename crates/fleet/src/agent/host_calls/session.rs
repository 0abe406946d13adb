//! Session of one run on this machine, with its services.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_machine::host::local::LocalHost;
use prony_machine::host::{Host, HostError};
use prony_plan::service::{AllocatedService, Allocation, Endpoint, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;

use super::service;
use crate::agent::received_files::{ReceivedFileError, ReceivedFiles};
use crate::policy::Policy;
use crate::wire::{CHUNK_BYTES_MAX, Reply};
use crate::wire::{
    HostCall, HostReply, LOG_READ_BYTES_MAX, NumberedCall, file_chunks, service_file_name,
};

/// Timeout for each service to stop when the session ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Session of a run that has reserved this machine. Dropping it stops and removes everything.
#[derive(Debug)]
pub(super) struct HostSession {
    // Fields are dropped in this order: services before the files that they use.
    host: LocalHost,
    files: ReceivedFiles,
    folder: PathBuf,
    policy: Policy,
    services: BTreeMap<String, AllocatedService>,
    /// Name and content of the log that is currently being sent.
    log: Option<(String, Vec<u8>)>,
    /// Sequence number of the last call, with its reply.
    last: Option<(u64, Reply)>,
}

/// Reason why a session can't begin.
#[derive(Debug)]
pub(super) enum SessionError {
    /// The machine can't be used.
    Host(HostError),
    /// The folder for files can't be created.
    Files(ReceivedFileError),
    /// The thread of the session can't be started.
    Thread(io::Error),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Host(error) => error.fmt(f),
            SessionError::Files(error) => error.fmt(f),
            SessionError::Thread(error) => error.fmt(f),
        }
    }
}

impl HostSession {
    pub(super) fn new(
        folder: PathBuf,
        policy: Policy,
        address: Option<IpAddr>,
    ) -> Result<HostSession, SessionError> {
        let mut host = LocalHost::new().map_err(SessionError::Host)?;
        if let Some(address) = address {
            host.set_address(address);
        }
        Ok(HostSession {
            host,
            files: ReceivedFiles::new(folder.join("files")).map_err(SessionError::Files)?,
            folder,
            policy,
            services: BTreeMap::new(),
            log: None,
            last: None,
        })
    }

    /// Carries out a call. A repeated call gets the reply of the first one.
    pub(super) fn call(&mut self, call: NumberedCall) -> Reply {
        if let Some((number, reply)) = &self.last
            && *number == call.number
        {
            return reply.clone();
        }
        let reply = match self.execute(call.call) {
            Ok(reply) => Reply::Host(reply),
            Err(reply) => reply,
        };
        self.last = Some((call.number, reply.clone()));
        reply
    }

    fn execute(&mut self, call: HostCall) -> Result<HostReply, Reply> {
        Ok(match call {
            HostCall::Allocate { wanted } => self.allocate(wanted)?,
            HostCall::Put(chunk) => {
                let taken = self.files.take(&chunk);
                taken.map_err(|error| Reply::Wrong {
                    text: error.to_string(),
                })?;
                HostReply::Done
            }
            HostCall::Start {
                spec,
                files,
                secrets,
            } => self.start(*spec, &files, &secrets)?,
            HostCall::Alive { service } => match self.host.alive(&service) {
                Ok(()) => HostReply::Done,
                Err(exited) => HostReply::Exited { exited },
            },
            HostCall::Probe { service, probe } => {
                if !self.has_endpoint(&service, &probe.endpoint) {
                    let text = format!("service {service} has no listener at the probed address");
                    return Err(Reply::Wrong { text });
                }
                match self.host.probe_readiness(&service, &probe) {
                    Ok(status) => HostReply::Responded { status },
                    Err(why) => HostReply::Silent {
                        why: why.to_string(),
                    },
                }
            }
            HostCall::LogTail { service, lines } => HostReply::Text {
                text: self.host.log_tail(&service, lines),
            },
            HostCall::Log { service, offset } => self.log_chunk(service, offset)?,
            HostCall::Watch { watch } => {
                self.host.watch(watch);
                HostReply::Done
            }
            HostCall::Sample => HostReply::Sample {
                sample: Box::new(self.host.sample()),
            },
            HostCall::Unwatched => HostReply::Findings {
                findings: self.host.take_findings(),
            },
            HostCall::Crypto { spec } => HostReply::Findings {
                findings: self.host.examine_crypto(&spec).into_iter().collect(),
            },
            HostCall::Stop { service } => HostReply::Stopped {
                stopped: self.host.stop(&service).map_err(refuses)?,
            },
            HostCall::Release => {
                self.services.clear();
                self.host.release().map_err(refuses)?;
                HostReply::Done
            }
            HostCall::Environment => HostReply::Environment {
                environment: Box::new(self.host.environment()),
            },
            // The handler has already carried out these calls.
            HostCall::CheckService { .. }
            | HostCall::Open(_)
            | HostCall::Renew
            | HostCall::Close => HostReply::Done,
        })
    }

    fn allocate(&mut self, mut wanted: Vec<Allocation>) -> Result<HostReply, Reply> {
        for wanted in &mut wanted {
            if let PlaceKind::Named(_) = wanted.place {
                let text = format!(
                    "service {}: agents don't create named places",
                    wanted.service
                );
                return Err(Reply::Wrong { text });
            }
            // The service is local to the machine that runs it, which is this one.
            wanted.host = None;
        }
        self.services.clear();
        self.log = None;
        self.host.release().map_err(refuses)?;
        remove(&self.logs())?;
        let files = self.folder.join("files");
        remove(&files)?;
        self.files = ReceivedFiles::new(files).map_err(Reply::environment)?;
        let services = self.host.allocate(&wanted, &Topology::default());
        self.services = services.map_err(refuses)?;
        Ok(HostReply::Allocated {
            services: self.services.clone(),
        })
    }

    fn start(
        &mut self,
        mut spec: ServiceSpec,
        files: &[String],
        secrets: &[String],
    ) -> Result<HostReply, Reply> {
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
        spec.files = self.received_files(&service, false, files)?;
        spec.secrets = self.received_files(&service, true, secrets)?;
        let spec = service::with_programs(spec);
        self.host.start(&spec, &self.logs()).map_err(refuses)?;
        Ok(HostReply::Done)
    }

    /// Returns the contents of the files that were sent for a service.
    fn received_files(
        &self,
        service: &str,
        is_secret: bool,
        names: &[String],
    ) -> Result<BTreeMap<String, Vec<u8>>, Reply> {
        let complete = self.files.complete();
        let wrong = |text| Reply::Wrong { text };
        let read = |name: &String| {
            let path = complete.get(&service_file_name(service, is_secret, name));
            let unsent = || wrong(format!("file {name:?} of {service} was not sent"));
            let bytes = fs::read(path.ok_or_else(unsent)?);
            let bytes = bytes.map_err(|error| wrong(format!("file {name:?}: {error}")))?;
            Ok((name.clone(), bytes))
        };
        names.iter().map(read).collect()
    }

    fn has_endpoint(&self, service: &str, endpoint: &Endpoint) -> bool {
        let own = self.services.get(service);
        own.is_some_and(|own| own.endpoints.values().any(|it| it == endpoint))
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns a chunk of a log. The content was copied when the first chunk was requested.
    fn log_chunk(&mut self, service: String, offset: u64) -> Result<HostReply, Reply> {
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
        let number = offset as usize / CHUNK_BYTES_MAX;
        let chunk = file_chunks(name, bytes).nth(number);
        chunk.map(HostReply::Chunk).ok_or_else(|| Reply::Wrong {
            text: format!("the log of {name} ends before byte {offset}"),
        })
    }
}

impl Drop for HostSession {
    fn drop(&mut self) {
        // Services must be stopped before their files are removed. Files that can't be removed are
        // deleted at the agent's next start.
        self.host.set_stop_timeout(STOP_TIMEOUT);
        let _ = self.host.release();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn refuses(error: impl std::fmt::Display) -> Reply {
    Reply::Environment {
        text: error.to_string(),
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<(), Reply> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(refuses(format!("{}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Returns the end of a log, or nothing if there is no log.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let length = file.metadata()?.len();
    let left_out = length.saturating_sub(LOG_READ_BYTES_MAX);
    let mut bytes = Vec::new();
    if left_out > 0 {
        bytes = format!("… {left_out} earlier bytes omitted\n").into_bytes();
    }
    file.seek(SeekFrom::Start(left_out))?;
    file.take(LOG_READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
