//! Facts about an agent's machine, for its registration.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

use rustix::process::{Resource, getrlimit};
use rustix::system::uname;

use super::settings::AgentSettings;
use crate::names::RunId;
use crate::wire::Registration;

/// File in which Linux reports its clock source.
const CLOCK_SOURCE_PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Facts about the machine that don't change while an agent runs.
#[derive(Debug)]
pub(super) struct MachineFacts {
    instance: String,
    system: String,
    host: String,
    clock: Option<String>,
    open_files: u64,
}

impl MachineFacts {
    /// Collects the facts about this machine.
    pub(super) fn gather(instance: String) -> MachineFacts {
        let name = uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        MachineFacts {
            instance,
            system: format!("{} {}", text(name.sysname()), text(name.release())),
            host: text(name.nodename()),
            clock: clock_source(),
            open_files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        }
    }

    /// Creates the agent's registration. `first` is the address from which the agent connects to
    /// the server.
    pub(super) fn registration(
        &self,
        settings: &AgentSettings,
        first: Option<IpAddr>,
        busy_with: Option<RunId>,
        sending: BTreeSet<RunId>,
    ) -> Registration {
        Registration {
            instance: self.instance.clone(),
            labels: settings.labels.clone(),
            cores: settings.core_count(),
            addresses: addresses(first),
            system: self.system.clone(),
            host: self.host.clone(),
            open_files: self.open_files,
            clock: self.clock.clone(),
            policy: settings.policy.summary(),
            busy_with,
            sending,
            ..Registration::new(settings.name.clone())
        }
    }

    /// Returns the random identifier of this process.
    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

fn clock_source() -> Option<String> {
    let text = fs::read_to_string(CLOCK_SOURCE_PATH).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the addresses of the machine, beginning with `first`. Omits loopback addresses and
/// addresses that require an interface name.
fn addresses(first: Option<IpAddr>) -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let is_link_local = |address: &IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    let addresses = interfaces.iter().map(|interface| interface.ip());
    let mut addresses: Vec<IpAddr> = addresses
        .filter(|address| !address.is_loopback() && !is_link_local(address))
        .collect();
    addresses.sort_by_key(|address| (Some(*address) != first, *address));
    addresses.dedup();
    addresses
}
