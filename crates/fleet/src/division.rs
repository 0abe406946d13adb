//! Divides a load among agents without rounding losses.
//!
//! Within one process, a load is divided exactly among its worker threads: each worker knows its
//! number and the total, and takes its share of the rate, the connections, the requests and the
//! list of URLs. In a fleet, the workers of all agents are numbered consecutively, and each agent
//! runs a contiguous range of them.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Range of workers that one agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentShard {
    /// Index of the agent's first worker. Indexes start at 0 and are consecutive across all agents.
    pub first: u32,
    /// Number of the agent's workers.
    pub workers: u32,
    /// Total number of workers on all agents.
    pub of: u32,
}

/// Reason why a load can't be divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DivisionError {
    /// There are no agents.
    NoAgents,
    /// There are fewer connections than agents.
    FewConnections {
        /// Number of connections in the load.
        connections: u32,
        /// Number of agents.
        agents: usize,
    },
}

impl fmt::Display for DivisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DivisionError::NoAgents => f.write_str("there are no agents for the load"),
            DivisionError::FewConnections {
                connections,
                agents,
            } => write!(
                f,
                "--connections {connections} is too few for {agents} agents; each agent needs at least one"
            ),
        }
    }
}

impl std::error::Error for DivisionError {}

impl AgentShard {
    /// Returns this shard's share of a total of `whole` items.
    pub fn part(&self, whole: u64) -> u64 {
        let range = self.range(whole);
        range.end - range.start
    }

    /// Divides `whole` items into contiguous ranges, and returns this shard's range.
    pub fn range(&self, whole: u64) -> Range<u64> {
        let before = |worker: u32| {
            let (of, worker) = (u64::from(self.of), u64::from(worker));
            whole / of * worker + worker.min(whole % of)
        };
        before(self.first)..before(self.first + self.workers)
    }
}

/// Divides a load among agents. `threads` contains each agent's number of threads. Every agent gets
/// at least one worker, and every worker at least one connection.
///
/// # Errors
///
/// See [`DivisionError`].
pub fn divide(threads: &[u32], connections: u32) -> Result<Vec<AgentShard>, DivisionError> {
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
        // Shrink the largest shard until there are no more workers than connections. One worker per
        // agent always satisfies this condition.
        if let Some(most) = workers.iter_mut().max_by_key(|n| **n) {
            *most -= 1;
        }
    }
    let of = total(&workers) as u32;
    let mut first = 0;
    let shards = workers.into_iter().map(|workers| {
        let shard = AgentShard { first, workers, of };
        first += workers;
        shard
    });
    Ok(shards.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_belongs_to_exactly_one_agent() {
        for threads in [
            vec![1],
            vec![2, 2],
            vec![4, 1, 3],
            vec![1; 7],
            vec![64, 0, 2],
        ] {
            for connections in [7, 8, 50, 1_000, 12_001] {
                let shards = divide(&threads, connections).unwrap();
                assert_eq!(shards.len(), threads.len());
                for whole in [u64::from(connections), 0, 1, 5, 999_983] {
                    let mut next = 0;
                    for shard in &shards {
                        let range = shard.range(whole);
                        assert_eq!(range.start, next);
                        next = range.end;
                    }
                    assert_eq!(next, whole);
                }
                for shard in &shards {
                    assert!(shard.part(u64::from(connections)) >= u64::from(shard.workers));
                    assert!(shard.workers > 0);
                }
            }
        }
    }

    #[test]
    fn the_largest_shard_shrinks_first() {
        let workers = |threads: &[u32], connections| -> Vec<u32> {
            let shards = divide(threads, connections).unwrap();
            shards.iter().map(|shard| shard.workers).collect()
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
