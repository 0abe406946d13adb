//! Hints for assigning an address to this machine.

use std::net::IpAddr;

use crate::settings::SourceRange;

/// Maximum number of commands in a hint. A range that needs more commands should be written as
/// whole networks.
const COMMANDS_MAX: usize = 3;

/// Returns a hint on how to assign the addresses of a range to the machine.
pub(super) fn assign_hint(range: SourceRange, address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if range.count() == 1 {
        return format!(
            "assign it to an interface: ip address add {address}/{bits} dev lo; as root, in the \
             network namespace that the load runs in"
        );
    }
    format!(
        "add a local route: {}; as root, in the network namespace that the load runs in. Or \
         give each address to an interface: ip address add {address}/{bits} dev lo",
        routes(range)
    )
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

    fn hint(text: &str) -> String {
        let range: SourceRange = text.parse().unwrap();
        assign_hint(range, range.first())
    }

    #[test]
    fn a_block_needs_one_route() {
        let text = hint("10.4.0.0/14");
        assert!(
            text.contains("ip route add local 10.4.0.0/14 dev lo;"),
            "{text}"
        );
        let text = hint("fd00:5::/64");
        assert!(
            text.contains("ip -6 route add local fd00:5::/64 dev lo;"),
            "{text}"
        );
        let text = hint("10.0.0.6-10.0.0.9");
        let both = "local 10.0.0.6/31 dev lo && ip route add local 10.0.0.8/31 dev lo";
        assert!(text.contains(both), "{text}");
        let text = hint("10.0.0.1-10.0.1.254");
        assert!(text.contains("more; or use whole networks"), "{text}");
        let text = hint("10.0.0.1");
        assert!(text.contains("ip address add 10.0.0.1/32 dev lo"), "{text}");
        assert!(!text.contains("route"), "{text}");
    }
}
