//! The machines of a plan, and their connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use prony_plan::service::ServiceSpec;
use prony_plan::ssh_host::SshHost;
use prony_plan::{DiagnosticKind, HostObjection, ServiceAspect};

use super::check;
use super::machine::{MachineError, SshMachine};
use crate::host::HostError;
use crate::host::remote::RemoteError;

/// A machine of the plan, with its connection while that works.
#[derive(Debug)]
pub(super) struct MachineSlot {
    pub(super) host: SshHost,
    pub(super) machine: Option<SshMachine>,
    /// Reason why the connection was lost in this trial.
    pub(super) loss: Option<String>,
    pub(super) is_reported: bool,
}

impl MachineSlot {
    /// Returns the machine, to which it connects again if the connection was lost.
    pub(super) fn connected(&mut self) -> Result<&mut SshMachine, MachineError> {
        if self.machine.is_none() {
            self.machine = Some(SshMachine::connect(&self.host)?);
            self.loss = None;
            self.is_reported = false;
        }
        self.machine
            .as_mut()
            .ok_or(MachineError::Lost(RemoteError::Closed))
    }

    /// Calls a function with the machine. If the connection fails, drops it and stores the reason.
    pub(super) fn call<T>(
        &mut self,
        call: impl FnOnce(&mut SshMachine) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let machine = self
            .machine
            .as_mut()
            .ok_or(MachineError::Lost(RemoteError::Closed))?;
        let result = call(machine);
        if let Err(MachineError::Lost(error)) = &result {
            self.loss = Some(error.to_string());
            self.machine = None;
        }
        result
    }

    pub(super) fn error(&self, error: &MachineError) -> HostError {
        let text = match (error, &self.loss) {
            (MachineError::Lost(RemoteError::Closed), Some(loss)) => loss.clone(),
            _ => error.to_string(),
        };
        HostError::Elsewhere {
            host: self.host.name.clone(),
            text,
        }
    }
}

/// Open connections to the machines of a plan.
#[derive(Debug, Default)]
pub struct SshMachines {
    pub(super) slots: BTreeMap<String, RefCell<MachineSlot>>,
}

impl SshMachines {
    /// Connects to a machine and starts its session.
    ///
    /// # Errors
    /// The reason why the machine can't be used.
    pub fn connect(&mut self, host: &SshHost) -> Result<(), HostError> {
        let mut slot = MachineSlot {
            host: host.clone(),
            machine: None,
            loss: None,
            is_reported: false,
        };
        let connected = slot.connected().map(drop);
        connected.map_err(|error| slot.error(&error))?;
        if let Some(address) = host.address {
            let addresses = slot.call(|machine| Ok(machine.addresses()?));
            let addresses = addresses.map_err(|error| slot.error(&error))?;
            if let Some(others) = addresses.filter(|it| !it.contains(&address)) {
                let others: Vec<String> = others.iter().map(IpAddr::to_string).collect();
                return Err(HostError::Elsewhere {
                    host: host.name.clone(),
                    text: format!(
                        "{address} is not an address of that machine (it has {})",
                        others.join(", ")
                    ),
                });
            }
        }
        self.slots.insert(host.name.clone(), RefCell::new(slot));
        Ok(())
    }

    /// Returns true if there are no machines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the address on which services of a machine listen, if known.
    #[must_use]
    pub fn address_of(&self, host: &str) -> Option<IpAddr> {
        self.slots.get(host)?.borrow().machine.as_ref()?.address
    }

    /// Returns all reasons why a machine can't run a service.
    #[must_use]
    pub fn objections(&self, host: &str, spec: &ServiceSpec) -> Vec<HostObjection> {
        let Some(slot) = self.slots.get(host) else {
            return Vec::new();
        };
        let mut slot = slot.borrow_mut();
        let found = slot.call(|machine| Ok(check::objections(machine, host, spec)?));
        found.unwrap_or_else(|error| {
            vec![HostObjection {
                aspect: ServiceAspect::Host,
                kind: DiagnosticKind::Machine,
                message: slot.error(&error).to_string(),
                hint: None,
            }]
        })
    }

    /// Returns the address at which the machines reach this one, if one of them has reported it.
    #[must_use]
    pub fn own_address(&self) -> Option<IpAddr> {
        let mut slots = self.slots.values();
        slots.find_map(|slot| slot.borrow().machine.as_ref()?.own_address)
    }
}
