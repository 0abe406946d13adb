//! Hints for assigning an address to this machine, by operating system. The functions are pure, so
//! every system's commands are tested on all systems.

use std::net::IpAddr;

use crate::settings::SourceRange;

/// Maximum number of commands in a hint. A range that needs more commands should be written as
/// whole networks.
const COMMANDS_MAX: usize = 3;

/// Returns a hint on how to assign the addresses of a range to the machine, on the named operating
/// system ([`std::env::consts::OS`]).
pub(super) fn assign_hint(range: SourceRange, address: IpAddr, system: &str) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    match system {
        "linux" if range.count() == 1 => format!(
            "assign it to an interface: ip address add {address}/{bits} dev lo; as root, in the \
             network namespace that the load runs in"
        ),
        "linux" => format!(
            "add a local route: {}; as root, in the network namespace that the load runs in. Or \
             give each address to an interface: ip address add {address}/{bits} dev lo",
            routes(range)
        ),
        "freebsd" => {
            let family = if address.is_ipv4() { "inet" } else { "inet6" };
            let each = match range.count() {
                1 => "assign it to an interface",
                _ => "assign each of them to an interface",
            };
            format!(
                "{each}, as root: ifconfig lo1 create, then ifconfig lo1 {family} \
                 {address}/{bits} alias"
            )
        }
        _ => "assign it to an interface of this machine".to_owned(),
    }
}

fn routes(range: SourceRange) -> String {
    let networks = range.networks();
    let command = match range.first() {
        IpAddr::V4(_) => "ip route add local",
        IpAddr::V6(_) => "ip -6 route add local",
    };
    let commands: Vec<String> = networks
        .iter()
        .take(COMMANDS_MAX)
        .map(|(network, length)| format!("{command} {network}/{length} dev lo"))
        .collect();
    let more = match networks.len() - commands.len() {
        0 => String::new(),
        more => format!(" and {more} more; or use whole networks, such as 10.4.0.0/14"),
    };
    commands.join(" && ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(typed: &str, system: &str) -> String {
        let range: SourceRange = typed.parse().unwrap();
        assign_hint(range, range.first(), system)
    }

    #[test]
    fn a_block_needs_one_route_on_linux() {
        let text = hint("10.4.0.0/14", "linux");
        assert!(
            text.contains("ip route add local 10.4.0.0/14 dev lo;"),
            "{text}"
        );
        let text = hint("fd00:5::/64", "linux");
        assert!(
            text.contains("ip -6 route add local fd00:5::/64 dev lo;"),
            "{text}"
        );
        let text = hint("10.0.0.6-10.0.0.9", "linux");
        let both = "local 10.0.0.6/31 dev lo && ip route add local 10.0.0.8/31 dev lo";
        assert!(text.contains(both), "{text}");
        let text = hint("10.0.0.1-10.0.1.254", "linux");
        assert!(text.contains("more; or use whole networks"), "{text}");
        let text = hint("10.0.0.1", "linux");
        assert!(text.contains("ip address add 10.0.0.1/32 dev lo"), "{text}");
        assert!(!text.contains("route"), "{text}");
    }

    #[test]
    fn freebsd_has_aliases() {
        let text = hint("10.4.0.0/14", "freebsd");
        assert!(text.contains("each of them"), "{text}");
        assert!(
            text.contains("ifconfig lo1 inet 10.4.0.1/32 alias"),
            "{text}"
        );
        let text = hint("fd00::5", "freebsd");
        assert!(
            text.contains("ifconfig lo1 inet6 fd00::5/128 alias"),
            "{text}"
        );
    }
}
