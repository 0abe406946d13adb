//! Checks before the first trial that a machine can run a plan's services.

use std::net::IpAddr;

use prony_plan::service::{Jail, ServiceSpec};
use prony_plan::{DiagnosticKind, HostObjection, ServiceAspect};

use super::machine::{MachineError, SshMachine};
use super::parse;
use crate::host::remote::{RemoteError, RemoteSystem, quoted, section};

/// Returns all reasons why a machine can't run a service.
pub(super) fn objections(
    machine: &mut SshMachine,
    host: &str,
    spec: &ServiceSpec,
) -> Result<Vec<HostObjection>, RemoteError> {
    if let Some(jail) = &spec.jail
        && let Some(reason) = machine.jail_obstacle(jail)?
    {
        // Without its jail, nothing else can be said about the service.
        return Ok(vec![HostObjection {
            aspect: ServiceAspect::Place,
            kind: DiagnosticKind::Machine,
            message: format!("host {host}, service \"{}\": {reason}", spec.name),
            hint: None,
        }]);
    }
    let mut objections = Vec::new();
    let mut object = |aspect, kind, message: String, hint: &str| {
        objections.push(HostObjection {
            aspect,
            kind,
            message: format!("host {host}, service \"{}\": {message}", spec.name),
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    };
    let words = [
        (ServiceAspect::Wrapper, 0, spec.wrapper_words > 0),
        (ServiceAspect::Command, spec.wrapper_words, true),
    ];
    for (aspect, word, _) in words.into_iter().filter(|(_, _, used)| *used) {
        let Some(program) = spec.command.get(word) else {
            continue;
        };
        let path = spec.env.get("PATH").map(String::as_str);
        let found = match &spec.jail {
            None => machine.has_program(program, path)?,
            Some(jail) => machine.has_program_in(jail, program)?,
        };
        if !found {
            object(
                aspect,
                DiagnosticKind::NotInstalled,
                format!("program {program:?} was not found there"),
                "install it on that machine, or write its full path there",
            );
        }
    }
    if !spec.cores.is_empty() {
        let cores = machine.cores()?;
        if let Some(core) = spec.cores.iter().find(|core| !cores.contains(core)) {
            let message = format!("core {core} is not available there (available: {cores:?})");
            object(ServiceAspect::Cores, DiagnosticKind::Machine, message, "");
        }
        let program = machine.core_program()?;
        if !machine.has_program(&program, None)? {
            let message = format!("{program} was not found there, which binds services to cores");
            let hint = "install it on that machine, or remove cores";
            object(
                ServiceAspect::Cores,
                DiagnosticKind::NotInstalled,
                message,
                hint,
            );
        }
    }
    Ok(objections)
}

impl SshMachine {
    fn has_program(&mut self, program: &str, path: Option<&str>) -> Result<bool, RemoteError> {
        let path = path.map_or_else(String::new, |path| format!("PATH={}; ", quoted(path)));
        let script = format!(
            "({path}command -v -- {}) && {{ at found; }}",
            quoted(program)
        );
        Ok(self.run(&script)?.contains_key("found"))
    }

    fn has_program_in(&mut self, jail: &Jail, program: &str) -> Result<bool, RemoteError> {
        let enter = match jail {
            Jail::Existing(name) => format!("jexec {}", quoted(name)),
            Jail::Root(root) => format!("chroot {}", quoted(root)),
        };
        let script = format!(
            "{enter} /bin/sh -c 'command -v -- \"$1\"' sh {} && {{ at found; }}",
            quoted(program)
        );
        Ok(self.run(&script)?.contains_key("found"))
    }

    /// Returns the reason why no service can run in a jail; `None` if one can.
    fn jail_obstacle(&mut self, jail: &Jail) -> Result<Option<String>, RemoteError> {
        let is_root = self.run("[ \"$(id -u)\" -eq 0 ] && { at root; }")?;
        if !is_root.contains_key("root") {
            let reason = "only root can start processes in a jail (log in as root, or set sudo of \
                          the host)";
            return Ok(Some(reason.to_owned()));
        }
        let obstacle = match jail {
            Jail::Existing(name) => self.jail(name).map(drop),
            Jail::Root(root) => {
                let script = format!("[ -x {}/bin/sh ] && {{ at shell; }}", quoted(root));
                if self.system() != RemoteSystem::FreeBsd {
                    self.jail("").map(drop)
                } else if self.run(&script)?.contains_key("shell") {
                    Ok(())
                } else {
                    let reason = format!("{root} has no /bin/sh, so it can't be a jail's root");
                    Err(MachineError::Jail(reason))
                }
            }
        };
        match obstacle {
            Ok(()) => Ok(None),
            Err(MachineError::Lost(error)) => Err(error),
            Err(other) => Ok(Some(other.to_string())),
        }
    }

    /// Returns the cores that services can use.
    fn cores(&mut self) -> Result<Vec<usize>, RemoteError> {
        let sections = self.run("\"${system}_cores\"")?;
        Ok(parse::cores(section(&sections, "cores")))
    }

    /// Returns the program that binds services to cores.
    fn core_program(&mut self) -> Result<String, RemoteError> {
        let sections = self.run("at program; echo \"${on_cores%% *}\"")?;
        Ok(section(&sections, "program").trim().to_owned())
    }

    /// Returns the machine's addresses; `None` if it doesn't list them.
    pub(super) fn addresses(&mut self) -> Result<Option<Vec<IpAddr>>, RemoteError> {
        let sections = self.run("\"${system}_addresses\"")?;
        let addresses = parse::addresses(self.system(), &sections);
        Ok((!addresses.is_empty()).then_some(addresses))
    }
}
