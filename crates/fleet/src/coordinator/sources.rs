//! Divides source addresses among agents.
//!
//! An agent gets the addresses that are in its registration. No registration contains loopback
//! addresses or networks that a route makes local, so such ranges are divided into contiguous
//! parts. The agents find out whether they can use these addresses when they prepare the load.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use prony_load::SourceRange;

use crate::names::AgentName;
use crate::wire::Registration;

/// Source addresses of each agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SourceDivision {
    /// Addresses of each agent, in the order of the agents.
    pub(super) each: Vec<Vec<SourceRange>>,
    /// Total number of addresses.
    pub(super) count: u64,
    /// Notes about assumptions, to show to the user.
    pub(super) notes: Vec<String>,
}

/// Reason why source addresses can't be divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceDivisionError {
    /// No agent has this address.
    Unknown(SourceRange),
    /// An agent would get no address.
    WithoutAddress {
        /// Name of the agent.
        agent: AgentName,
        /// Addresses of the agent.
        addresses: Vec<IpAddr>,
    },
}

impl fmt::Display for SourceDivisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceDivisionError::Unknown(range) => {
                write!(f, "--source {range}: no agent has this address")
            }
            SourceDivisionError::WithoutAddress { agent, addresses } => {
                let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                write!(
                    f,
                    "agent {agent} has none of the --source addresses; it has {}",
                    addresses.join(", ")
                )
            }
        }
    }
}

/// Divides source addresses among agents.
///
/// # Errors
///
/// No agent has any address in one of the ranges, or an agent would get no address.
pub(super) fn divide(
    given: &[SourceRange],
    agents: &[&Registration],
) -> Result<SourceDivision, SourceDivisionError> {
    let mut division = SourceDivision {
        each: vec![Vec::new(); agents.len()],
        count: 0,
        notes: Vec::new(),
    };
    for range in given {
        if range.first().is_loopback() {
            divide_range(*range, &mut division.each);
            continue;
        }
        let mut found: BTreeSet<&IpAddr> = BTreeSet::new();
        for (agent, sources) in agents.iter().zip(&mut division.each) {
            let has = |address: &&IpAddr| range.has(**address);
            let mine = agent.addresses.iter().filter(has);
            found.extend(mine.clone());
            sources.extend(mine.map(|address| SourceRange::between(*address, *address)));
        }
        match (found.len(), range.count() == 1) {
            (1.., true) => {}
            (0, true) => {
                return Err(SourceDivisionError::Unknown(*range));
            }
            (found_count @ 1.., false) => division.notes.extend(unused_note(range, found_count)),
            (0, false) => {
                division.notes.push(format!(
                    "--source {range}: no agent has registered any of these addresses, so each \
                    agent gets part of them; this works only if a route makes them local"
                ));
                divide_range(*range, &mut division.each);
            }
        }
    }
    let without = division.each.iter().position(Vec::is_empty);
    match without.filter(|_| !given.is_empty()) {
        Some(agent) => {
            let agent = agents[agent];
            Err(SourceDivisionError::WithoutAddress {
                agent: agent.name.clone(),
                addresses: agent.addresses.clone(),
            })
        }
        None => {
            let ranges = division.each.iter().flatten();
            let counts = ranges.map(|range| range.count());
            division.count = counts.fold(0, u64::saturating_add);
            Ok(division)
        }
    }
}

/// Returns a note if a range contains addresses that no agent has.
fn unused_note(range: &SourceRange, found_count: usize) -> Option<String> {
    let count = range.count();
    let missing = count.checked_sub(found_count as u64).filter(|it| *it > 0)?;
    let (is, all) = match missing {
        1 => ("is", "1 address".to_owned()),
        many => ("are", format!("{many} addresses")),
    };
    Some(format!(
        "--source {range}: {all} of {count} {is} on no agent and {is} not used; the load comes from the other {found_count}"
    ))
}

/// Gives each agent a contiguous part of a range. If there are fewer addresses than agents, every
/// agent gets all of them.
fn divide_range(range: SourceRange, each: &mut [Vec<SourceRange>]) {
    let (count, agents) = (range.count(), each.len() as u64);
    for (n, sources) in (0..).zip(each) {
        let before = |n: u64| count / agents * n + n.min(count % agents);
        let (begin, end) = if count < agents {
            (0, count)
        } else {
            (before(n), before(n + 1))
        };
        sources.push(SourceRange::between(range.nth(begin), range.nth(end - 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, addresses: &[&str]) -> Registration {
        Registration {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            ..Registration::new(name.parse().unwrap())
        }
    }

    fn each(division: &SourceDivision) -> Vec<Vec<String>> {
        let text = |ranges: &Vec<SourceRange>| ranges.iter().map(ToString::to_string).collect();
        division.each.iter().map(text).collect()
    }

    fn division_of(given: &[&str]) -> Result<SourceDivision, SourceDivisionError> {
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
            "--source 10.0.0.1-10.0.0.3: 1 address of 3 is on no agent and is not used; the load \
             comes from the other 2",
            "--source 10.0.0.0/24: 251 addresses of 254 are on no agent and are not used; the load \
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
        assert_eq!(
            error.to_string(),
            "--source 10.0.0.3: no agent has this address"
        );
        let error = division_of(&["10.0.0.1"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "agent b has none of the --source addresses; it has 10.0.0.7"
        );
    }
}
