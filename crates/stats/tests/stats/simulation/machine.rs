//! Machine in virtual time whose speed changes, and two servers that are measured on it, in
//! sequential or interleaved blocks.

use prony_stats::{Metric, RoundValues, Trials, Values};

use super::Draws;

/// Influences on the machine's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineKind {
    /// The speed is constant.
    Quiet,
    /// The logarithm of the speed is a random walk: 2% after a second, 6% after ten.
    Drifting,
    /// The speed changes suddenly by about 10%, every 20 s on average.
    Jumping,
    /// A neighbor takes half of the speed in bursts of 0.5 to 10 s, half of the time.
    Neighbor,
}

const DRIFT_PER_SQRT_S: f64 = 0.02;
const JUMP: f64 = 0.1;
const JUMP_EVERY_S: f64 = 20.0;
const BURST_S: (f64, f64) = (0.5, 10.0);
const BURST_SPEED: f64 = 0.5;
/// Longest time step for which a drifting speed is treated as constant.
const STEP_S: f64 = 0.25;

/// State of a machine at one moment of virtual time.
pub struct Machine {
    kind: MachineKind,
    log_speed: f64,
    in_burst: bool,
    /// Seconds until the next jump, or until the neighbor's next burst begins or ends.
    until_change_s: f64,
}

impl Machine {
    pub fn new(kind: MachineKind, draws: &mut Draws) -> Machine {
        let mut machine = Machine {
            kind,
            log_speed: 0.0,
            in_burst: draws.uniform() < 0.5,
            until_change_s: 0.0,
        };
        machine.until_change_s = machine.draw_change(draws);
        machine
    }

    fn draw_change(&self, draws: &mut Draws) -> f64 {
        let (shortest, longest) = BURST_S;
        match self.kind {
            MachineKind::Quiet | MachineKind::Drifting => f64::INFINITY,
            MachineKind::Jumping => -JUMP_EVERY_S * draws.uniform().ln(),
            MachineKind::Neighbor => shortest + (longest - shortest) * draws.uniform(),
        }
    }

    fn speed(&self) -> f64 {
        let is_halved = self.kind == MachineKind::Neighbor && self.in_burst;
        self.log_speed.exp() * if is_halved { BURST_SPEED } else { 1.0 }
    }

    /// Advances the virtual time. Returns the work that the machine could do meanwhile: 1 per
    /// second at the usual speed.
    pub fn advance(&mut self, seconds: f64, draws: &mut Draws) -> f64 {
        let (mut left, mut work) = (seconds, 0.0);
        while left > 0.0 {
            let step = left.min(self.until_change_s).min(STEP_S);
            work += step * self.speed();
            left -= step;
            self.until_change_s -= step;
            if self.kind == MachineKind::Drifting {
                self.log_speed += DRIFT_PER_SQRT_S * step.sqrt() * draws.normal();
            }
            if self.until_change_s <= 0.0 {
                self.in_burst = !self.in_burst;
                if self.kind == MachineKind::Jumping {
                    self.log_speed += JUMP * draws.normal();
                }
                self.until_change_s = self.draw_change(draws);
            }
        }
        work
    }
}

/// Requests per second of the first server, at the machine's usual speed.
const RATE: f64 = 2_000.0;
/// Number of requests in flight.
const CONNECTIONS: f64 = 16.0;
/// Standard deviation of one request's work, relative to its mean.
const REQUEST_DEVIATION: f64 = 0.3;
/// Standard deviation of a freshly started server's speed, for example because of its memory
/// layout.
const START_DEVIATION: f64 = 0.003;
const WARMUP_S: f64 = 1.0;
const SLICE_S: f64 = 0.25;
const SETTLING_S: f64 = SLICE_S / 10.0;
/// Number of rounds that take as long as two sequential trials, including settling parts and
/// drains.
const ROUNDS: u32 = 35;
/// Rounds and warm-up of the blocks of running servers.
const RUNNING_ROUNDS: u32 = 5;
const RUNNING_WARMUP_S: f64 = 0.3;
const TRIAL_S: f64 = 10.0;
const BLOCKS: u32 = 6;

/// Order in which the servers of a block are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockMode {
    Sequential,
    Interleaved,
    /// Short interleaved blocks of servers that run all the time.
    Running,
}

impl BlockMode {
    pub fn blocks(self) -> u32 {
        match self {
            BlockMode::Running => 3 * BLOCKS,
            BlockMode::Sequential | BlockMode::Interleaved => BLOCKS,
        }
    }
}

/// Two servers on one machine. The first is the baseline.
#[derive(Debug, Clone, Copy)]
pub struct MachineExperiment {
    pub kind: MachineKind,
    pub mode: BlockMode,
    /// True ratio of the second server's rate to the first one's.
    pub ratio: f64,
}

/// Values of an experiment's blocks, and values of the rounds of interleaved blocks.
pub struct MachineResult {
    pub trials: Trials,
    pub rounds: [RoundValues; 2],
}

impl MachineExperiment {
    pub fn run(&self, draws: &mut Draws) -> MachineResult {
        let mut machine = Machine::new(self.kind, draws);
        let mut result = MachineResult {
            trials: Trials::new(),
            rounds: [RoundValues::new(), RoundValues::new()],
        };
        for block in 1..=self.mode.blocks() {
            let rates = [1.0, self.ratio].map(|ratio| {
                let start = match self.mode {
                    BlockMode::Running => 1.0,
                    _ => (START_DEVIATION * draws.normal()).exp(),
                };
                RATE * ratio * start
            });
            let values = match self.mode {
                BlockMode::Sequential => sequential(&mut machine, rates, draws),
                BlockMode::Interleaved | BlockMode::Running => {
                    let plan = match self.mode {
                        BlockMode::Running => (RUNNING_WARMUP_S, RUNNING_ROUNDS),
                        _ => (WARMUP_S, ROUNDS),
                    };
                    let rounds = (block, &mut result.rounds);
                    interleaved(&mut machine, rates, plan, rounds, draws)
                }
            };
            for (variant, rate) in values.into_iter().enumerate() {
                let values = Values::from([(Metric::RatePerS, rate)]);
                result.trials.add(block, variant, values);
            }
        }
        result
    }
}

/// Returns both servers in random order.
fn order(draws: &mut Draws) -> [usize; 2] {
    if draws.uniform() < 0.5 {
        [0, 1]
    } else {
        [1, 0]
    }
}

/// Returns the number of requests that start within `seconds`.
fn started(machine: &mut Machine, rate: f64, seconds: f64, draws: &mut Draws) -> f64 {
    let expected = rate * machine.advance(seconds, draws);
    (expected + REQUEST_DEVIATION * expected.sqrt() * draws.normal()).max(0.0)
}

fn sequential(machine: &mut Machine, rates: [f64; 2], draws: &mut Draws) -> [f64; 2] {
    let mut values = [0.0; 2];
    for variant in order(draws) {
        machine.advance(WARMUP_S, draws);
        values[variant] = started(machine, rates[variant], TRIAL_S, draws) / TRIAL_S;
    }
    values
}

/// Runs an interleaved block that takes as long as a sequential one. Each slice settles, is
/// counted, and drains before the next one begins.
fn interleaved(
    machine: &mut Machine,
    rates: [f64; 2],
    (warmup_s, round_count): (f64, u32),
    (block, rounds): (u32, &mut [RoundValues; 2]),
    draws: &mut Draws,
) -> [f64; 2] {
    machine.advance(2.0 * warmup_s, draws);
    let mut sums = [0.0; 2];
    for round in 0..round_count {
        for variant in order(draws) {
            let rate = rates[variant];
            machine.advance(SETTLING_S, draws);
            let requests = started(machine, rate, SLICE_S, draws);
            let drain_s = CONNECTIONS / (rate * machine.speed());
            machine.advance(drain_s, draws);
            sums[variant] += requests;
            rounds[variant].insert((block, round), requests / SLICE_S);
        }
    }
    sums.map(|sum| sum / (f64::from(ROUNDS) * SLICE_S))
}
