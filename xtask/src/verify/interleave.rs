//! Check: next to a bursty neighbor process, interleaved trials give narrower intervals than
//! sequential trials.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::experiments::{ExperimentFolder, ExperimentLoad};
use super::figures::CheckFigure;
use super::power;
use super::program::Prony;
use crate::random::RandomNumbers;

/// Number of pairs of experiments, one in each mode.
const PAIRS: u64 = 4;
/// Minimum number of pairs in which the ratio of the widths must be at most [`WIDTH_RATIO_MAX`].
const NARROWER_MIN: u64 = 3;
/// Maximum width of the interleaved interval, relative to the width of the sequential interval.
const WIDTH_RATIO_MAX: f64 = 1.0 / 3.0;
/// Relative increase in the cost of a request on the slower server.
const COST_INCREASE: f64 = 0.08;
/// Number of blocks per experiment.
const BLOCKS: &str = "5";
/// Durations of the neighbor's shortest and longest burst, in seconds; the pauses have the same
/// range.
const BURST_S: (f64, f64) = (0.5, 10.0);

/// Runs pairs of experiments, one in each mode, and compares the widths of their intervals.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let prices = power::calibrate(prony, COST_INCREASE)?;
    let folder = ExperimentFolder::new(prony, prices, ExperimentLoad::default())?;
    let _neighbor = Neighbor::start();
    let mut figures = Vec::new();
    let mut narrower = 0;
    for pair in 1..=PAIRS {
        let mut widths = [None; 2];
        // The mode that runs first alternates between pairs.
        let modes = [("auto", 0), ("off", 1)];
        let order = if pair % 2 == 1 { [0, 1] } else { [1, 0] };
        for (mode, index) in order.map(|index: usize| modes[index]) {
            let name = format!("{pair}-{mode}");
            let args = ["--blocks", BLOCKS, "--interleave", mode];
            let concluded = folder.compare(prony, &name, pair, &args)?;
            println!("{name}: {}", concluded.found());
            widths[index] = concluded.width();
        }
        let [Some(interleaved), Some(sequential)] = widths else {
            return Err(format!("pair {pair}: an experiment has no interval"));
        };
        let ratio = interleaved / sequential;
        narrower += u64::from(ratio <= WIDTH_RATIO_MAX);
        figures.push(CheckFigure::shown(
            format!("pair {pair}: width, interleaved vs. sequential"),
            format!("{interleaved:.3} vs. {sequential:.3}: ratio {ratio:.2}"),
        ));
    }
    figures.push(CheckFigure::judged(
        "pairs whose interleaved interval is at most a third as wide",
        format!("at least {NARROWER_MIN} of {PAIRS}"),
        narrower.to_string(),
        narrower >= NARROWER_MIN,
    ));
    Ok(figures)
}

/// A process that keeps the server's core busy half of the time, in bursts.
struct Neighbor {
    /// Dropping the sender stops the neighbor.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Neighbor {
    fn start() -> Neighbor {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut numbers = RandomNumbers::new(1);
            loop {
                let burst = BusyProcess::start();
                let ended = stopped.recv_timeout(length(&mut numbers));
                drop(burst);
                if ended != Err(RecvTimeoutError::Timeout)
                    || stopped.recv_timeout(length(&mut numbers)) != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
        });
        Neighbor {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Neighbor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A process with a busy loop on the server's core, killed on drop.
struct BusyProcess(Option<Child>);

impl BusyProcess {
    fn start() -> BusyProcess {
        let spawned = Command::new("taskset")
            .args(["-c", "0", "sh", "-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn();
        BusyProcess(spawned.ok())
    }
}

impl Drop for BusyProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Random duration of a burst or a pause.
fn length(numbers: &mut RandomNumbers) -> Duration {
    let (shortest, longest) = BURST_S;
    Duration::from_secs_f64(shortest + numbers.share() * (longest - shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_within_their_range() {
        let mut numbers = RandomNumbers::new(1);
        for _ in 0..1_000 {
            let length_s = length(&mut numbers).as_secs_f64();
            assert!((BURST_S.0..=BURST_S.1).contains(&length_s), "{length_s}");
        }
    }
}
