//! Jails (FreeBSD). Each has separate processes and a separate address on the loopback interface,
//! but shares the host's files.
//!
//! **Experimental: written for FreeBSD, but never run there.** Pure functions build the command
//! lines and are tested on every system.

#[cfg(target_os = "freebsd")]
pub(crate) use system::{JailId, JailSandbox, free_base, processes_in, remove};

use std::net::Ipv4Addr;

/// Network interface that gets the addresses of jails.
const INTERFACE: &str = "lo0";

/// Checks that this user can create jails on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub(crate) fn check() -> Result<(), String> {
    if !cfg!(target_os = "freebsd") {
        return Err("jails exist on FreeBSD only (on Linux, use place = \"namespace\")".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("creating jails requires root (run prony with sudo or doas)".to_owned());
    }
    Ok(())
}

/// Returns the arguments of ifconfig(8) that add an address.
#[must_use]
pub fn add_address(address: Ipv4Addr) -> Vec<String> {
    words(&[INTERFACE, "inet", &format!("{address}/32"), "alias"])
}

/// Returns the arguments of ifconfig(8) that remove an address.
#[must_use]
pub fn remove_address(address: Ipv4Addr) -> Vec<String> {
    words(&[INTERFACE, "inet", &address.to_string(), "-alias"])
}

/// Returns the arguments of jail(8) that create a jail without a process and print its ID.
#[must_use]
pub fn create(name: &str, address: Ipv4Addr) -> Vec<String> {
    words(&[
        "-i",
        "-c",
        &format!("name={name}"),
        "path=/",
        "host=inherit",
        &format!("ip4.addr={address}"),
        "ip6=disable",
        "allow.raw_sockets=0",
        "persist",
    ])
}

/// Returns the arguments of jail(8) that remove a jail and kill its processes.
#[must_use]
pub fn destroy(name: &str) -> Vec<String> {
    words(&["-r", name])
}

/// Converts a name to a valid name for a jail. Dots are replaced, because a dot would make the jail
/// a child of another jail.
#[must_use]
pub fn jail_name(name: &str) -> String {
    name.replace('.', "-")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(target_os = "freebsd")]
mod system {
    use std::net::Ipv4Addr;

    use super::{INTERFACE, add_address, create, destroy, jail_name, remove_address};
    use crate::place::subnet::Subnet;
    use crate::run_state::{CreatedResource, RemovedResource, RunState};
    use crate::service::PlaceKind;
    use crate::system::command::run;
    use crate::system::freebsd::parse;
    use crate::system::{self, HostError};

    /// Network from which jails get their addresses. Some of its addresses may be in use, so they
    /// are tried one after another.
    const BASE: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 0);

    /// Returns the network from which jails get their addresses.
    pub(crate) fn free_base() -> Result<Ipv4Addr, HostError> {
        Ok(BASE)
    }

    /// The jail of one service.
    #[derive(Debug)]
    pub(crate) struct JailSandbox {
        id: i32,
        /// Address at which the service listens.
        pub(crate) inside: Ipv4Addr,
        /// Address at which jails reach native services. In a jail, 127.0.0.1 is the jail's own
        /// address.
        pub(crate) outside: Ipv4Addr,
    }

    impl JailSandbox {
        /// Always false: a jail shares the host's network stack and process IDs.
        pub(crate) const IS_ISOLATED: bool = false;

        /// Creates a jail named `name`, and records the jail and its addresses in the run state.
        pub(crate) fn make(
            name: &str,
            base: Ipv4Addr,
            state: &mut RunState,
        ) -> Result<Self, HostError> {
            let taken =
                parse::addresses(&command("ifconfig", vec![INTERFACE.into(), "inet".into()])?);
            let is_free = |subnet: &Subnet| {
                !taken.contains(&subnet.inside()) && !taken.contains(&subnet.outside())
            };
            let subnet = Subnet::all(base)
                .find(is_free)
                .ok_or_else(|| HostError::Place {
                    kind: PlaceKind::Jail,
                    reason: format!("all addresses in {base}/16 are taken on {INTERFACE}"),
                })?;
            let (inside, outside) = (subnet.inside(), subnet.outside());
            for address in [inside, outside] {
                state.record(&CreatedResource::Address { address })?;
                command("ifconfig", add_address(address))?;
            }
            let name = jail_name(name);
            state.record(&CreatedResource::Jail { name: name.clone() })?;
            let id = command("jail", create(&name, inside))?;
            let id = id.trim().parse().map_err(|_| HostError::Command {
                command: "jail -i -c".to_owned(),
                message: format!("jail(8) printed {id:?} instead of a number"),
            })?;
            Ok(Self {
                id,
                inside,
                outside,
            })
        }

        pub(crate) fn entry(&self) -> Result<JailId, HostError> {
            Ok(JailId(self.id))
        }
    }

    #[derive(Debug)]
    pub(crate) struct JailId(i32);

    impl JailId {
        pub(crate) fn raw(&self) -> i32 {
            self.0
        }
    }

    /// Removes a jail or an address that a run created, if it still exists.
    pub(crate) fn remove(created: &CreatedResource) -> Result<Option<RemovedResource>, HostError> {
        match created {
            CreatedResource::Jail { name }
                if command("jls", vec!["-j".into(), name.clone(), "jid".into()]).is_ok() =>
            {
                command("jail", destroy(name))?;
                Ok(Some(RemovedResource::Jail(name.clone())))
            }
            CreatedResource::Address { address } => {
                let here =
                    parse::addresses(&command("ifconfig", vec![INTERFACE.into(), "inet".into()])?);
                if !here.contains(address) {
                    return Ok(None);
                }
                command("ifconfig", remove_address(*address))?;
                Ok(Some(RemovedResource::Address(*address)))
            }
            _ => Ok(None),
        }
    }

    /// Lists the processes in a jail that a run created.
    pub(crate) fn processes_in(created: &CreatedResource) -> Vec<i32> {
        let CreatedResource::Jail { name } = created else {
            return Vec::new();
        };
        let list = command(
            "ps",
            vec!["-J".into(), name.clone(), "-o".into(), "pid=".into()],
        );
        let table = system::processes();
        list.unwrap_or_default()
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .filter(|pid| table.get(*pid).is_some())
            .collect()
    }

    fn command(program: &str, args: Vec<String>) -> Result<String, HostError> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(program, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let address = Ipv4Addr::new(10, 213, 0, 2);
        assert_eq!(
            add_address(address).join(" "),
            "lo0 inet 10.213.0.2/32 alias"
        );
        assert_eq!(
            remove_address(address).join(" "),
            "lo0 inet 10.213.0.2 -alias"
        );
        let created = create("prony-7-0-1", address).join(" ");
        assert!(
            created.starts_with("-i -c name=prony-7-0-1 path=/ "),
            "{created}"
        );
        assert!(
            created.contains(" ip4.addr=10.213.0.2 ") && created.ends_with(" persist"),
            "{created}"
        );
        assert_eq!(destroy("prony-7-0-1").join(" "), "-r prony-7-0-1");
        assert_eq!(jail_name("prony-7.0"), "prony-7-0");
    }

    #[test]
    #[cfg(not(target_os = "freebsd"))]
    fn on_other_systems_the_error_names_the_alternative() {
        assert!(check().unwrap_err().contains("on Linux, use place"));
    }
}
