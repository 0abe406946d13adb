//! Steps of the life of a service on another machine: its folder and addresses, its files, its end
//! and its log.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_plan::service::{
    AllocatedService, Allocation, Endpoint, FollowSpec, Jail, PortProtocol, ServiceSpec,
    pick_endpoints,
};

use super::hosts::SshHosts;
use super::service::{KILL_TIMEOUT, STOP_TIMEOUT, ServiceState, SshService};
use crate::host::remote::{quoted, section};
use crate::host::{HostError, ServiceStop, log};
use crate::system::port;

/// Size of the path field in a UNIX socket address on FreeBSD, including the final NUL. That of
/// Linux is larger.
const SOCKET_PATH_MAX: usize = 104;
/// Pause between two looks at a service that should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl SshHosts {
    pub(super) fn allocate_service(&mut self, wanted: &Allocation) -> Result<(), HostError> {
        let Some(host) = &wanted.host else {
            return Err(HostError::NotAllocated(wanted.service.clone()));
        };
        let Some(slot) = self.machines.slots.get_mut(host) else {
            return Err(HostError::NotAllocated(wanted.service.clone()));
        };
        let slot = slot.get_mut();
        let connected = slot.connected().map(drop);
        connected.map_err(|error| slot.error(&error))?;
        let allocated = slot.call(|machine| {
            let id = machine.next_id();
            let jail = match &wanted.jail {
                None => None,
                Some(Jail::Existing(name)) => Some((name.clone(), machine.jail(name)?)),
                Some(Jail::Root(root)) => Some(machine.make_jail(id, root)?),
            };
            let root = jail.as_ref().map(|(_, facts)| facts.root.as_str());
            let files_dir = machine.make_service_folder(id, root)?;
            Ok((id, jail, files_dir, machine.occupied()?))
        });
        let (id, jail, files_dir, occupied) = allocated.map_err(|error| slot.error(&error))?;
        let machine = slot.machine.as_ref();
        let of_jail = jail.as_ref().and_then(|(_, facts)| facts.addresses.first());
        let address = of_jail.copied();
        let address = address.or_else(|| machine.and_then(|machine| machine.address));
        let (jail, root) = match jail {
            Some((name, facts)) => (Some(name), facts.root),
            None => (None, String::new()),
        };
        let address = address.ok_or_else(|| HostError::Elsewhere {
            host: host.clone(),
            text: "the address of the machine is unknown; set address of the host".to_owned(),
        })?;
        let pick = |protocols: &[PortProtocol]| {
            let is_free = |port: u16| {
                protocols.iter().all(|protocol| match protocol {
                    PortProtocol::Tcp => !occupied.tcp.contains(&port),
                    PortProtocol::Udp => !occupied.udp.contains(&port),
                })
            };
            let port = port::pick_elsewhere(is_free).ok_or(HostError::NoFreePort)?;
            Ok(SocketAddr::new(address, port))
        };
        let socket = |name: &str| {
            let number = wanted.listen.keys().position(|it| it == name);
            let path = format!("{files_dir}.{}.sock", number.unwrap_or_default());
            if path.len() < SOCKET_PATH_MAX {
                Ok(PathBuf::from(path))
            } else {
                Err(HostError::Elsewhere {
                    host: host.clone(),
                    text: format!(
                        "{path} is too long for a UNIX socket's address (set dir of the host)"
                    ),
                })
            }
        };
        let endpoints = pick_endpoints(&wanted.listen, pick, socket)?;
        let service = SshService {
            host: host.clone(),
            id,
            allocated: AllocatedService {
                endpoints,
                files_dir: files_dir.into(),
            },
            log: None,
            state: ServiceState::Allocated,
            program: None,
            follow: FollowSpec::default(),
            jail,
            root: root.trim_end_matches('/').to_owned(),
            stop_signal: "TERM",
        };
        self.services.insert(wanted.service.clone(), service);
        Ok(())
    }

    /// Tells each machine which services to follow.
    pub(super) fn follow(&mut self, host: &str) -> Result<(), HostError> {
        let Some(slot) = self.machines.slots.get(host) else {
            return Ok(());
        };
        let mut slot = slot.borrow_mut();
        let services = &self.services;
        let followed = slot.call(|machine| {
            let of_host = services.iter().filter(|(_, it)| it.host == host);
            let running = of_host.filter(|(_, it)| it.state == ServiceState::Running);
            let followed = running
                .map(|(name, service)| (name.clone(), service.followed(&machine.folder)))
                .collect();
            Ok(machine.follow(followed)?)
        });
        followed.map_err(|error| slot.error(&error))
    }

    pub(super) fn write_files(&self, spec: &ServiceSpec) -> Result<(), HostError> {
        self.with_service(&spec.name, |machine, service| {
            let folder = &service.allocated.files_dir;
            let folder = PathBuf::from(format!("{}{}", service.root, folder.display()));
            let files = [(false, &spec.files), (true, &spec.secrets)];
            let files = files.into_iter().flat_map(|(is_secret, files)| {
                files
                    .iter()
                    .map(move |(name, bytes)| (is_secret, name, bytes))
            });
            let files: Vec<_> = files.collect();
            let folders: BTreeSet<String> = files
                .iter()
                .filter_map(|(_, name, _)| folder.join(name).parent().map(Path::to_owned))
                .map(|path| path.to_string_lossy().into_owned())
                .collect();
            machine.make_folders(&folders)?;
            for (is_secret, name, bytes) in files {
                let path = folder.join(name);
                machine.write_file(&path.to_string_lossy(), bytes, is_secret)?;
            }
            Ok(())
        })
    }

    /// Fails if another process listens on one of the service's ports.
    pub(super) fn check_ports(&self, name: &str) -> Result<(), HostError> {
        let taken = self.with_service(name, |machine, service| {
            let occupied = machine.occupied()?;
            let mut endpoints = service.allocated.endpoints.values();
            Ok(endpoints.find(|it| occupied.has(it)).cloned())
        })?;
        let endpoint = match taken {
            Some(Endpoint::Tcp(address)) => address.to_string(),
            Some(Endpoint::Udp(address)) => format!("UDP {address}"),
            Some(Endpoint::Unix(_)) | None => return Ok(()),
        };
        let host = self.services.get(name).map(|service| service.host.clone());
        Err(HostError::Elsewhere {
            host: host.unwrap_or_default(),
            text: format!("service {name}: {endpoint} is in use on that machine"),
        })
    }

    /// Ends a service and fetches its log.
    pub(super) fn end(&mut self, name: &str) -> Result<ServiceStop, HostError> {
        let began = Instant::now();
        let is_running = self
            .services
            .get(name)
            .is_some_and(|service| service.state == ServiceState::Running);
        if !is_running {
            return Ok(ServiceStop::default());
        }
        let ended = self.end_processes(name);
        let log_bytes_cut = match &ended {
            Ok(_) => self.fetch_log(name)?,
            Err(_) => 0,
        };
        let host = self.services.get_mut(name).map(|service| {
            service.state = ServiceState::Stopped;
            service.host.clone()
        });
        if let Some(host) = host.filter(|_| ended.is_ok()) {
            self.follow(&host)?;
        }
        let (status, killed) = ended?;
        Ok(ServiceStop {
            status,
            killed,
            took: began.elapsed(),
            log_bytes_cut,
        })
    }

    /// Sends the stop signal to a service, and kills it after a timeout. Returns the exit status,
    /// and true if the service was killed.
    fn end_processes(&mut self, name: &str) -> Result<(Option<String>, bool), HostError> {
        let signal = self
            .services
            .get(name)
            .map_or("TERM", |service| service.stop_signal);
        let mut main_ended = false;
        let mut last = self.check(name)?;
        self.signal(name, signal)?;
        let until = Instant::now() + STOP_TIMEOUT;
        while last.processes > 0 && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
            last = self.check(name)?;
            // Processes that outlive the main process, such as the children of a shell, get the
            // signal too.
            if last.ended.is_some() && !main_ended {
                main_ended = true;
                self.signal(name, signal)?;
            }
        }
        if last.processes == 0 {
            return Ok((last.status(), false));
        }
        let until = Instant::now() + KILL_TIMEOUT;
        while last.processes > 0 && Instant::now() < until {
            self.with_service(name, |machine, service| {
                Ok(machine.run(&format!("end {}", service.id)).map(drop)?)
            })?;
            std::thread::sleep(POLL_INTERVAL);
            last = self.check(name)?;
        }
        if last.processes > 0 {
            return Err(HostError::Survived {
                service: name.to_owned(),
                pids: Vec::new(),
            });
        }
        Ok((last.status(), true))
    }

    fn signal(&self, name: &str, signal: &str) -> Result<(), HostError> {
        self.with_service(name, |machine, service| {
            let script = format!("stop {} {signal}", service.id);
            Ok(machine.run(&script).map(drop)?)
        })
    }

    /// Fetches the log of a service that has ended into the trial's folder. Returns the number of
    /// bytes that were left out.
    pub(super) fn fetch_log(&mut self, name: &str) -> Result<u64, HostError> {
        let Some(path) = self.services.get_mut(name).and_then(|it| it.log.take()) else {
            return Ok(0);
        };
        let (size, head, tail) = self.with_service(name, |machine, service| {
            let file = quoted(&format!("{}/{}.log", machine.folder, service.id));
            let sections = machine.run(&format!("log {file} {}", log::KEPT_BYTES))?;
            let size: u64 = section(&sections, "size").trim().parse().unwrap_or(0);
            // The newline before the next mark is not a part of the file.
            let text = |name: &str| {
                let text = section(&sections, name);
                text.strip_suffix('\n').unwrap_or(text).to_owned()
            };
            let tail = sections.contains_key("tail").then(|| text("tail"));
            Ok((size, text("head"), tail))
        })?;
        let written = match tail {
            None => fs::write(&path, head).map(|()| 0),
            Some(tail) => log::write_cut(&path, size, head.into_bytes(), tail.into_bytes()),
        };
        written.map_err(HostError::file("write", path))
    }
}
