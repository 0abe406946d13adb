//! Divides source addresses among agents.
//!
//! An agent gets the addresses that are in its registration. No registration contains loopback
//! addresses or networks that a route makes local, so such ranges are divided into contiguous
//! parts. Whether the agents can use them becomes clear when they prepare the load.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use prony_load::SourceRange;

use crate::wire::Registration;

/// Source addresses of each agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SourceDivision {
    /// Addresses, in the order of the agents.
    pub(super) each: Vec<Vec<SourceRange>>,
    /// Total number of addresses.
    pub(super) count: u64,
    /// Notes about assumptions, to show to the user.
    pub(super) notes: Vec<String>,
}

/// Divides source addresses among agents.
///
/// # Errors
///
/// Returns a message if no agent has an address of some range, or if an agent would get no address.
pub(super) fn divide(
    given: &[SourceRange],
    agents: &[&Registration],
) -> Result<SourceDivision, String> {
    let mut division = SourceDivision {
        each: vec![Vec::new(); agents.len()],
        count: 0,
        notes: Vec::new(),
    };
    for range in given {
        let (first, last) = (range.first(), range.last());
        if first.is_loopback() {
            divide_range(first, last, &mut division.each);
            continue;
        }
        let mut found: BTreeSet<&IpAddr> = BTreeSet::new();
        for (agent, sources) in agents.iter().zip(&mut division.each) {
            let has = |address: &&IpAddr| {
                address.is_ipv4() == first.is_ipv4() && first <= **address && **address <= last
            };
            let mine = agent.addresses.iter().filter(has);
            found.extend(mine.clone());
            sources.extend(mine.map(|address| SourceRange::between(*address, *address)));
        }
        match (found.len(), first == last) {
            (1.., true) => {}
            (0, true) => {
                return Err(format!("--source {range}: no agent has this address"));
            }
            (found_count @ 1.., false) => division.notes.extend(unused_note(range, found_count)),
            (0, false) => {
                division.notes.push(format!(
                    "--source {range}: no agent is registered with one of these addresses, so each \
                    agent gets part of them, which works if a route makes them local"
                ));
                divide_range(first, last, &mut division.each);
            }
        }
    }
    let without = division.each.iter().position(Vec::is_empty);
    match without.filter(|_| !given.is_empty()) {
        Some(agent) => {
            let agent = agents[agent];
            let has: Vec<String> = agent.addresses.iter().map(IpAddr::to_string).collect();
            Err(format!(
                "agent {} has none of the addresses of --source; it has {}",
                agent.name,
                has.join(", ")
            ))
        }
        None => {
            let ranges = division.each.iter().flatten();
            let counts = ranges.map(|range| count(range.first(), range.last()));
            let all = counts.fold(0u128, u128::saturating_add);
            division.count = u64::try_from(all).unwrap_or(u64::MAX);
            Ok(division)
        }
    }
}

/// Returns a note about the addresses of a range that no agent has.
fn unused_note(range: &SourceRange, found_count: usize) -> Option<String> {
    let count = count(range.first(), range.last());
    let missing = count
        .checked_sub(found_count as u128)
        .filter(|it| *it > 0)?;
    let (is, all) = match missing {
        1 => ("is", "1 address".to_owned()),
        many => ("are", format!("{many} addresses")),
    };
    Some(format!(
        "--source {range}: {all} of {count} {is} on no agent and not used; the load comes from the other {found_count}"
    ))
}

/// Returns the number of addresses in a range, at most 2^32.
fn count(first: IpAddr, last: IpAddr) -> u128 {
    number_of(last)
        .saturating_sub(number_of(first))
        .saturating_add(1)
}

/// Gives each agent a contiguous part of a range. If there are fewer addresses than agents, every
/// agent gets all of them.
fn divide_range(first: IpAddr, last: IpAddr, each: &mut [Vec<SourceRange>]) {
    let (from, count) = (number_of(first), count(first, last));
    let agents = each.len() as u128;
    for (n, sources) in (0u128..).zip(each) {
        if count < agents {
            sources.push(SourceRange::between(first, last));
            continue;
        }
        let before = |n: u128| count / agents * n + n.min(count % agents);
        let begin = address_of(first, from + before(n));
        let end = address_of(first, from + before(n + 1) - 1);
        sources.push(SourceRange::between(begin, end));
    }
}

fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => four.to_bits().into(),
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// Converts a number to an address of the same family.
fn address_of(family: IpAddr, number: u128) -> IpAddr {
    match family {
        IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn agent(name: &str, addresses: &[&str]) -> Registration {
        Registration {
            schema: String::new(),
            sender: Default::default(),
            name: name.parse().unwrap(),
            instance: String::new(),
            labels: BTreeMap::new(),
            cores: 1,
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            system: String::new(),
            host: String::new(),
            open_files: 0,
            clock: None,
            policy: String::new(),
            busy_with: None,
            reserved: None,
            sending: BTreeSet::new(),
        }
    }

    fn each(division: &SourceDivision) -> Vec<Vec<String>> {
        let text = |ranges: &Vec<SourceRange>| ranges.iter().map(ToString::to_string).collect();
        division.each.iter().map(text).collect()
    }

    fn division_of(given: &[&str]) -> Result<SourceDivision, String> {
        let a = agent("a", &["10.0.0.1", "10.0.0.2", "fd00::1"]);
        let b = agent("b", &["10.0.0.7"]);
        let given: Vec<SourceRange> = given.iter().map(|it| it.parse().unwrap()).collect();
        divide(&given, &[&a, &b])
    }

    #[test]
    fn an_address_goes_to_the_agent_that_has_it() {
        let division = division_of(&["10.0.0.0/24"]).unwrap();
        assert_eq!(
            each(&division),
            [vec!["10.0.0.1", "10.0.0.2"], vec!["10.0.0.7"]]
        );
        let division = division_of(&["10.0.0.7", "10.0.0.2", "fd00::1"]).unwrap();
        assert!(division.notes.is_empty());
        assert_eq!(
            each(&division),
            [vec!["10.0.0.2", "fd00::1"], vec!["10.0.0.7"]]
        );
        assert_eq!(each(&division_of(&[]).unwrap()), [[""; 0], [""; 0]]);
    }

    #[test]
    fn addresses_of_no_agent_are_counted() {
        let notes = division_of(&["10.0.0.1-10.0.0.3", "10.0.0.7", "10.0.0.0/24"]);
        let expected = [
            "--source 10.0.0.1-10.0.0.3: 1 address of 3 is on no agent and not used; the load \
             comes from the other 2",
            "--source 10.0.0.0/24: 251 addresses of 254 are on no agent and not used; the load \
             comes from the other 3",
        ];
        assert_eq!(notes.unwrap().notes, expected);
        let (a, b) = (
            agent("a", &["10.0.0.1"]),
            agent("b", &["10.0.0.1", "10.0.0.2"]),
        );
        let whole = divide(&["10.0.0.1-10.0.0.2".parse().unwrap()], &[&a, &b]);
        assert_eq!(whole.unwrap().notes, [""; 0]);
    }

    #[test]
    fn unregistered_ranges_are_divided_completely() {
        let division = division_of(&["10.9.0.1-10.9.0.5"]).unwrap();
        let parts = [vec!["10.9.0.1-10.9.0.3"], vec!["10.9.0.4-10.9.0.5"]];
        assert_eq!(each(&division), parts);
        assert!(division.notes[0].starts_with("--source 10.9.0.1-10.9.0.5: "));
        let division = division_of(&["127.0.0.2-127.0.0.3", "127.0.0.9"]).unwrap();
        let parts = [
            vec!["127.0.0.2", "127.0.0.9"],
            vec!["127.0.0.3", "127.0.0.9"],
        ];
        assert_eq!(each(&division), parts);
        assert!(division.notes.is_empty());
    }

    #[test]
    fn errors_name_agents_without_addresses_and_unknown_addresses() {
        let error = division_of(&["10.0.0.1", "10.0.0.3"]).unwrap_err();
        assert_eq!(error, "--source 10.0.0.3: no agent has this address");
        let error = division_of(&["10.0.0.1"]).unwrap_err();
        assert_eq!(
            error,
            "agent b has none of the addresses of --source; it has 10.0.0.7"
        );
    }
}
