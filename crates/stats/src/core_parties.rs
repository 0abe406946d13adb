//! Usage of cores by party: the services, the load, interrupts, and everything else.

use serde::{Deserialize, Serialize};

/// Usage of a set of cores by party, in percent of one core. The parts add up to 100 per core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreParties {
    /// Numbers of the cores; empty for all cores of a machine.
    pub numbers: Vec<usize>,
    /// Number of cores.
    pub cores: usize,
    /// Services of the experiment.
    pub services: f64,
    /// This prony process including its load generator, or the agent on that machine.
    pub load: f64,
    /// Interrupts that are not charged to any process.
    pub interrupts: f64,
    /// All other processes and kernel threads.
    pub others: f64,
    /// Time that the hypervisor gave to other guests.
    pub stolen: f64,
    /// Idle time.
    pub idle: f64,
    /// Part of `others` that identified processes used. It excludes kernel threads, because they
    /// also work for the experiment.
    pub named: f64,
    /// Busiest processes among `others`.
    pub neighbors: Vec<Neighbor>,
}

/// A process that belongs neither to prony nor to the services.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Process ID.
    pub pid: i32,
    /// Process name, as the kernel reports it.
    pub name: String,
    /// CPU time in percent of one core.
    pub percent: f64,
}

impl CoreParties {
    /// Returns the fraction of the cores that is used, from 0 to 1.
    pub fn used_share(&self) -> f64 {
        1.0 - self.idle / 100.0 / self.cores.max(1) as f64
    }

    /// Returns the CPU time of other processes and other guests, in percent of one core.
    pub fn lost_percent(&self) -> f64 {
        self.others + self.stolen
    }

    /// Returns the fraction of the cores that identified processes and other guests used, from 0 to
    /// 1.
    pub fn taken_share(&self) -> f64 {
        (self.named.min(self.others) + self.stolen) / 100.0 / self.cores.max(1) as f64
    }
}
