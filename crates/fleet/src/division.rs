//! One load divided among agents, so that nothing is lost to remainders.
//!
//! A load divides itself among its worker threads exactly: each worker knows its number and how many
//! there are, and takes that part of the rate, the connections, the requests and the list of URLs. A
//! fleet is nothing else: its workers are numbered over all agents, and each agent runs a stretch of
//! them.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The workers of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// The number of its first worker among all.
    pub first: u32,
    /// How many it runs.
    pub workers: u32,
    /// How many there are in all.
    pub of: u32,
}

/// Why a load can't be divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DivisionError {
    /// There is nobody to divide it among.
    NoAgents,
    /// Some agent would have no connection.
    FewConnections {
        /// Connections of the load.
        connections: u32,
        /// Agents.
        agents: usize,
    },
}

impl fmt::Display for DivisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DivisionError::NoAgents => f.write_str("no agent is there to make the load"),
            DivisionError::FewConnections {
                connections,
                agents,
            } => write!(
                f,
                "--connections {connections} is too few for {agents} agents; an agent without a \
                 connection has nothing to do"
            ),
        }
    }
}

impl std::error::Error for DivisionError {}

impl Stretch {
    /// The part of `whole` things that this stretch of workers has, when each worker takes its own.
    pub fn part(&self, whole: u64) -> u64 {
        let range = self.range(whole);
        range.end - range.start
    }

    /// Which of `whole` things these are, where worker after worker takes a contiguous part.
    pub fn range(&self, whole: u64) -> Range<u64> {
        let before = |worker: u32| {
            let (of, worker) = (u64::from(self.of), u64::from(worker));
            whole / of * worker + worker.min(whole % of)
        };
        before(self.first)..before(self.first + self.workers)
    }
}

/// Divides a load of so many connections among agents with so many threads each: those asked for, or
/// their cores. No worker is without a connection, and no agent without a worker.
///
/// # Errors
///
/// See [`DivisionError`].
pub fn divide(threads: &[u32], connections: u32) -> Result<Vec<Stretch>, DivisionError> {
    let agents = threads.len();
    if agents == 0 {
        return Err(DivisionError::NoAgents);
    }
    if (connections as usize) < agents {
        return Err(DivisionError::FewConnections {
            connections,
            agents,
        });
    }
    let mut workers: Vec<u32> = threads.iter().map(|&threads| threads.max(1)).collect();
    let total = |workers: &[u32]| workers.iter().map(|&n| u64::from(n)).sum::<u64>();
    while total(&workers) > u64::from(connections) {
        // The agent with most gives one up; at the latest when each has one, there are few enough.
        if let Some(most) = workers.iter_mut().max_by_key(|n| **n) {
            *most -= 1;
        }
    }
    let of = total(&workers) as u32;
    let mut first = 0;
    let stretches = workers.into_iter().map(|workers| {
        let stretch = Stretch { first, workers, of };
        first += workers;
        stretch
    });
    Ok(stretches.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thing_goes_to_exactly_one_agent() {
        for threads in [
            vec![1],
            vec![2, 2],
            vec![4, 1, 3],
            vec![1; 7],
            vec![64, 0, 2],
        ] {
            for connections in [7, 8, 50, 1_000, 12_001] {
                let stretches = divide(&threads, connections).unwrap();
                assert_eq!(stretches.len(), threads.len());
                for whole in [u64::from(connections), 0, 1, 5, 999_983] {
                    let mut next = 0;
                    for stretch in &stretches {
                        let range = stretch.range(whole);
                        assert_eq!(range.start, next);
                        next = range.end;
                    }
                    assert_eq!(next, whole);
                }
                for stretch in &stretches {
                    assert!(stretch.part(u64::from(connections)) >= u64::from(stretch.workers));
                    assert!(stretch.workers > 0);
                }
            }
        }
    }

    #[test]
    fn the_agent_with_most_threads_gives_up_first() {
        let workers = |threads: &[u32], connections| -> Vec<u32> {
            let stretches = divide(threads, connections).unwrap();
            stretches.iter().map(|stretch| stretch.workers).collect()
        };
        assert_eq!(workers(&[8, 2], 6), [4, 2]);
        assert_eq!(workers(&[8, 2], 2), [1, 1]);
        assert_eq!(workers(&[8, 2], 100), [8, 2]);
    }

    #[test]
    fn a_load_that_is_too_small_is_refused() {
        assert_eq!(divide(&[], 10), Err(DivisionError::NoAgents));
        let error = divide(&[1, 1, 1], 2).unwrap_err();
        assert!(error.to_string().contains("--connections 2"));
    }
}
