//! The jail place (FreeBSD): its own processes and its own address on the loopback interface, with
//! the host's files.
//!
//! **Not yet run on FreeBSD.** The command lines are pure functions, tested on every system.

#[cfg(target_os = "freebsd")]
pub(crate) use system::{Entry, Jail, free_base, processes_in, remove};

use std::net::Ipv4Addr;

/// The interface that carries the addresses of jails.
const INTERFACE: &str = "lo0";

/// Whether this machine and this user can have jails, or what is missing and how to mend it.
pub(crate) fn check() -> Result<(), String> {
    if !cfg!(target_os = "freebsd") {
        return Err("jails exist on FreeBSD only (on Linux use the place namespace)".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("must be root to make jails (run prony with sudo or doas)".to_owned());
    }
    Ok(())
}

/// The arguments of ifconfig(8) that add an address of its own.
#[must_use]
pub fn add_address(address: Ipv4Addr) -> Vec<String> {
    words(&[INTERFACE, "inet", &format!("{address}/32"), "alias"])
}

/// The arguments of ifconfig(8) that remove it.
#[must_use]
pub fn remove_address(address: Ipv4Addr) -> Vec<String> {
    words(&[INTERFACE, "inet", &address.to_string(), "-alias"])
}

/// The arguments of jail(8) that make a jail without a process and print its id.
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

/// The arguments of jail(8) that remove a jail and kill what runs in it.
#[must_use]
pub fn destroy(name: &str) -> Vec<String> {
    words(&["-r", name])
}

/// The name that a run's jail gets: a dot would make it the child of another jail.
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
    use crate::host::freebsd::parse;
    use crate::host::state::{Made, RunState};
    use crate::host::{HostError, system};
    use crate::place::command::run;
    use crate::place::subnet::Subnet;
    use crate::service::PlaceKind;
    use crate::sweep::Removed;

    /// What [`free_base`] says: single addresses of it are tried, so it need not be free as a whole.
    const BASE: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 0);

    /// The network of which each jail gets a part.
    pub(crate) fn free_base() -> Result<Ipv4Addr, HostError> {
        Ok(BASE)
    }

    /// A jail made for one service.
    #[derive(Debug)]
    pub(crate) struct Jail {
        id: i32,
        /// The service's address.
        pub(crate) inside: Ipv4Addr,
        /// An address of the host's at which native services can be reached from jails, where
        /// 127.0.0.1 means the jail's own address.
        pub(crate) outside: Ipv4Addr,
    }

    impl Jail {
        /// The service shares the host's network stack and list of processes.
        pub(crate) const IS_APART: bool = false;

        /// Makes a jail of that name, recording it in the run's state.
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
                    reason: format!("all addresses of {base}/16 are taken on {INTERFACE}"),
                })?;
            let (inside, outside) = (subnet.inside(), subnet.outside());
            for address in [inside, outside] {
                state.record(&Made::Address { address })?;
                command("ifconfig", add_address(address))?;
            }
            let name = jail_name(name);
            state.record(&Made::Jail { name: name.clone() })?;
            let id = command("jail", create(&name, inside))?;
            let id = id.trim().parse().map_err(|_| HostError::Command {
                command: "jail -i -c".to_owned(),
                message: format!("it printed {id:?} where a number was expected"),
            })?;
            Ok(Self {
                id,
                inside,
                outside,
            })
        }

        /// The way in.
        pub(crate) fn entry(&self) -> Result<Entry, HostError> {
            Ok(Entry(self.id))
        }
    }

    /// A jail's id.
    #[derive(Debug)]
    pub(crate) struct Entry(i32);

    impl Entry {
        /// The id.
        pub(crate) fn number(&self) -> i32 {
            self.0
        }
    }

    /// Removes a jail or an address that a run has made; one that is gone is no error.
    pub(crate) fn remove(made: &Made) -> Result<Option<Removed>, HostError> {
        match made {
            Made::Jail { name }
                if command("jls", vec!["-j".into(), name.clone(), "jid".into()]).is_ok() =>
            {
                command("jail", destroy(name))?;
                Ok(Some(Removed::Jail(name.clone())))
            }
            Made::Address { address } => {
                let here =
                    parse::addresses(&command("ifconfig", vec![INTERFACE.into(), "inet".into()])?);
                if !here.contains(address) {
                    return Ok(None);
                }
                command("ifconfig", remove_address(*address))?;
                Ok(Some(Removed::Address(*address)))
            }
            _ => Ok(None),
        }
    }

    /// The processes that live in a jail that a run has made.
    pub(crate) fn processes_in(made: &Made) -> Vec<i32> {
        let Made::Jail { name } = made else {
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
    fn elsewhere_it_says_where_jails_are() {
        assert!(
            check()
                .unwrap_err()
                .contains("on Linux use the place namespace")
        );
    }
}
