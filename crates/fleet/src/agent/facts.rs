//! What an agent tells of itself and its machine.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::process::Command;

use rustix::process::{Resource, getrlimit};
use rustix::system::uname;

use super::Settings;
use crate::messages::{AGENT_SCHEMA, Registration, VERSION};
use crate::names::RunId;

/// Where Linux says what its clock is made of.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What doesn't change while an agent runs.
#[derive(Debug)]
pub(super) struct Facts {
    instance: String,
    system: String,
    host: String,
    clock: Option<String>,
    open_files: u64,
}

impl Facts {
    /// As they are now.
    pub(super) fn gather(instance: String) -> Facts {
        let name = uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Facts {
            instance,
            system: format!("{} {}", text(name.sysname()), text(name.release())),
            host: text(name.nodename()),
            clock: clock_source(),
            open_files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        }
    }

    /// What is registered; the server is reached by the `first` address.
    pub(super) fn registration(
        &self,
        settings: &Settings,
        first: Option<IpAddr>,
        busy_with: Option<RunId>,
        sending: BTreeSet<RunId>,
    ) -> Registration {
        Registration {
            schema: AGENT_SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            name: settings.name.clone(),
            instance: self.instance.clone(),
            labels: settings.labels.clone(),
            cores: settings.cores_count(),
            addresses: addresses(first),
            system: self.system.clone(),
            host: self.host.clone(),
            open_files: self.open_files,
            clock: self.clock.clone(),
            policy: settings.policy.summary(),
            busy_with,
            reserved: None,
            sending,
        }
    }

    /// This start of the agent.
    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// The machine's name.
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

/// This machine's name.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

fn clock_source() -> Option<String> {
    let text = match fs::read_to_string(CLOCK_SOURCE) {
        Ok(text) => text,
        Err(_) if cfg!(target_os = "freebsd") => {
            let mut sysctl = Command::new("sysctl");
            let told = sysctl
                .args(["-n", "kern.timecounter.hardware"])
                .output()
                .ok()?;
            String::from_utf8(told.stdout).ok()?
        }
        Err(_) => return None,
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// All of the machine's, the `first` one first, but those of the loopback, and those that mean nothing
/// without their interface.
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
