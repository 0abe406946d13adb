//! CPU time that neither the generator nor the server used during the probes of a search.
//!
//! A plan names its services, so an experiment knows which processes belong to them. A search by URL
//! only knows the process that listens on the URL's port, its descendants, and processes with the
//! same name, because servers with `SO_REUSEPORT` run several independent ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use prony_plan::service::PortProtocol;
use prony_record::finding::{NoisyMachine, NoisyParts};
use prony_record::{Finding, Severity};

use crate::system::foreign::ForeignTracker;
use crate::system::process::{PortHolder, ProcessTable};
use crate::system::{online_cores, port, proc_files, processes};

/// CPU time, in percent of one core, that a probe may lose without counting as disturbed.
const NEIGHBORS_PERCENT: f64 = 5.0;
/// Minimum duration of a probe that is judged, in seconds. The kernel counts CPU time in ticks of
/// 10 ms.
const JUDGED_S_MIN: f64 = 0.5;

/// Observes what else uses this machine during the probes of a search.
#[derive(Debug)]
pub struct NeighborWatch {
    server: PortHolder,
    tracker: ForeignTracker,
    began: Instant,
    stolen_s: f64,
    use_of_probes: Vec<NeighborUse>,
}

/// CPU time used by others during a probe, in percent of one core.
#[derive(Debug, Clone, PartialEq, Default)]
struct NeighborUse {
    /// Processes by name.
    processes: BTreeMap<String, f64>,
    /// Other guests of the hypervisor.
    guests: f64,
}

impl NeighborUse {
    fn percent(&self) -> f64 {
        self.guests + self.processes.values().sum::<f64>()
    }

    fn busiest(&self) -> Option<(&str, f64)> {
        let processes = self
            .processes
            .iter()
            .map(|(name, used)| (name.as_str(), *used));
        let guests = [("other guests of the hypervisor", self.guests)];
        let used = processes.chain(guests).filter(|(_, used)| *used > 0.0);
        used.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl NeighborWatch {
    /// Returns a watch for a server at these addresses; true stands for UDP. Returns `None` if no
    /// process of this machine is seen to listen there: the server then can't be distinguished from
    /// its neighbors.
    pub fn new(addresses: impl IntoIterator<Item = (SocketAddr, bool)>) -> Option<Self> {
        let holder = |(address, is_udp)| {
            let protocol = if is_udp {
                PortProtocol::Udp
            } else {
                PortProtocol::Tcp
            };
            port::holder(address, protocol)
        };
        Some(Self {
            server: addresses.into_iter().find_map(holder)?,
            tracker: ForeignTracker::default(),
            began: Instant::now(),
            stolen_s: 0.0,
            use_of_probes: Vec::new(),
        })
    }

    /// Notes that a probe begins.
    pub fn probe_began(&mut self) {
        self.began = Instant::now();
        self.stolen_s = stolen_s();
        let table = processes();
        self.tracker.busiest(&table, &self.known(&table));
    }

    /// Notes that a probe has ended.
    pub fn probe_ended(&mut self) {
        let elapsed_s = self.began.elapsed().as_secs_f64();
        if elapsed_s < JUDGED_S_MIN {
            return;
        }
        let table = processes();
        let percent = |cpu_s: f64| 100.0 * cpu_s / elapsed_s;
        let mut used = NeighborUse {
            guests: percent(stolen_s() - self.stolen_s),
            ..NeighborUse::default()
        };
        for process in self.tracker.busiest(&table, &self.known(&table)) {
            *used.processes.entry(process.name).or_default() += percent(process.cpu_s);
        }
        self.use_of_probes.push(used);
    }

    /// Returns the processes of prony and of the server.
    fn known(&self, table: &ProcessTable) -> Vec<i32> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let named = table.all().filter(|it| it.name == self.server.name);
        let mut known = vec![own, self.server.pid];
        known.extend(named.map(|it| it.pid));
        let below: Vec<i32> = known
            .iter()
            .flat_map(|&pid| table.descendants(pid))
            .map(|it| it.pid)
            .collect();
        known.extend(below);
        known
    }

    /// Returns the `noisy-machine` finding of all probes so far.
    pub fn finding(&self) -> Option<Finding> {
        finding(&self.server, &self.use_of_probes, online_cores().len())
    }
}

fn finding(server: &PortHolder, probes: &[NeighborUse], cores: usize) -> Option<Finding> {
    let disturbed = probes.iter().filter(|it| it.percent() > NEIGHBORS_PERCENT);
    let worst = probes
        .iter()
        .max_by(|a, b| a.percent().total_cmp(&b.percent()))?;
    let count = disturbed.count();
    if count == 0 {
        return None;
    }
    let severity = if 2 * count > probes.len() {
        Severity::Warning
    } else {
        Severity::Note
    };
    // Rounding of clock ticks must not yield more than there is.
    let most = worst.percent().min(100.0 * cores.max(1) as f64);
    let guests_percent = worst.guests.min(most);
    let noisy = NoisyMachine {
        parts: NoisyParts::Probes {
            server: server.name.clone(),
            pid: server.pid,
        },
        disturbed: count as u64,
        all: probes.len() as u64,
        processes_percent: most - guests_percent,
        guests_percent,
        mostly: worst.busiest().map(|(name, _)| name.to_owned()),
    };
    Some(Finding::of(severity, &noisy))
}

/// Returns the CPU time since boot, in seconds, that other guests of the hypervisor used; 0 if the
/// system doesn't report it.
fn stolen_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat");
    stat.map_or(0.0, |stat| proc_files::machine(&stat).cpu_steal_s)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    fn used(name: &str, percent: f64, guests: f64) -> NeighborUse {
        NeighborUse {
            processes: BTreeMap::from([(name.to_owned(), percent)]),
            guests,
        }
    }

    fn server() -> PortHolder {
        PortHolder {
            pid: 12,
            name: "nginx".to_owned(),
        }
    }

    #[test]
    fn other_load_is_named_with_its_extent() {
        let quiet = used("cron", 1.0, 0.0);
        let busy = used("cc1", 140.0, 20.0);
        assert_eq!(finding(&server(), &[], 2), None);
        assert_eq!(finding(&server(), &[quiet.clone(), quiet.clone()], 2), None);
        let note = finding(&server(), &[quiet.clone(), quiet.clone(), busy.clone()], 2).unwrap();
        assert_eq!(note.severity, Severity::Note);
        let noisy: NoisyMachine = note.figures().unwrap();
        let figures = (noisy.disturbed, noisy.all, noisy.mostly.as_deref());
        assert_eq!(figures, (1, 3, Some("cc1")));
        assert_eq!(
            (noisy.processes_percent, noisy.guests_percent),
            (140.0, 20.0)
        );
        let often = finding(&server(), &[quiet, busy.clone(), busy], 1).unwrap();
        assert_eq!(often.severity, Severity::Warning);
        let noisy: NoisyMachine = often.figures().unwrap();
        assert_eq!(
            (noisy.processes_percent, noisy.guests_percent),
            (80.0, 20.0)
        );
    }

    #[test]
    fn processes_of_prony_and_the_server_are_no_neighbors() {
        // This process is both prony and the server.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let watch = NeighborWatch::new([(address, false)]).unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let known = watch.known(&processes());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(known.contains(&i32::try_from(std::process::id()).unwrap()));
        assert!(known.contains(&i32::try_from(child.id()).unwrap()));
        assert!(!known.contains(&1));
        drop(listener);
        assert!(NeighborWatch::new([(address, false)]).is_none());
    }
}
