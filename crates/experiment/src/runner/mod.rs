//! The experiment itself: blocks of trials until the verdicts are decided, the blocks are used up,
//! the budget ends or somebody interrupts.
//!
//! Each trial is stored the moment it ends; whatever comes later, nothing that was measured is lost,
//! and a resumed experiment goes on where the last whole block ended.

mod block_time;
mod event;
mod findings;
mod folder;
mod limit_lines;
pub(crate) mod links;
mod lock;
mod maker;
mod noise;
mod plan_changes;
mod ready;
mod response_findings;
mod responses;
mod trial;
mod values;
mod watched;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prony_load::Control;
use prony_record::FindingId;
use prony_stats::{
    AlphaTable, Design, Evaluation, ExperimentInfo, Factor, Look, Trials as Observations,
    VerdictDocument, evaluate_with, interim_estimates,
};

use crate::host::Host;
use crate::plan::{BodyComparison, Plan};
use crate::schedule;
use crate::why;

pub use block_time::{BlockTime, UnknownTime, probe_block_time};
pub use event::Event;
pub use folder::{FolderError, Stored};
pub use maker::{AskedLoad, LoadMaker};
pub use trial::{FailedTrial, PROBE_DURATION, TrialError, TrialResult};

/// Time that a trial takes for starting, checking and stopping its services. A guess, used until the
/// first trial has ended.
const TRIAL_OVERHEAD_GUESS: Duration = Duration::from_millis(500);

/// What the command line adds to a plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The experiment's folder.
    pub out: PathBuf,
    /// The seed of the order, in place of the plan's.
    pub seed: Option<u64>,
    /// Exactly so many blocks, in place of the plan's range.
    pub blocks: Option<u32>,
    /// No block begins that would end after this time, in place of the plan's.
    pub budget: Option<Duration>,
    /// Resume the experiment in `out`.
    pub resume: bool,
    /// Resume it although its plan was changed meanwhile.
    pub accept_plan_changes: bool,
    /// How response bodies have to agree, in place of the plan's.
    pub bodies: Option<BodyComparison>,
    /// Start each variant once before the first block, to find those that can't run.
    pub precheck: bool,
}

impl Settings {
    /// A new experiment in the folder `out`, as its plan says, each variant checked beforehand.
    pub fn new(out: PathBuf) -> Settings {
        Settings {
            out,
            seed: None,
            blocks: None,
            budget: None,
            resume: false,
            accept_plan_changes: false,
            bodies: None,
            precheck: true,
        }
    }
}

/// How an experiment ended.
#[derive(Debug)]
pub struct Finished {
    /// What it concluded, as stored; none if it ended before its first trial did.
    pub document: Option<VerdictDocument>,
    /// Somebody interrupted it.
    pub interrupted: bool,
    /// The trial that could not be made, if one ended the experiment.
    pub failed: Option<FailedTrial>,
}

/// Why an experiment gave nothing at all.
#[derive(Debug)]
pub enum RunnerError {
    /// The plan contradicts itself in a way that only its statistics show.
    Design(prony_stats::DesignError),
    /// The experiment's folder can't be used.
    Folder(FolderError),
    /// The experiment to go on with has spent its whole error rate on so many blocks, so that no
    /// further one could change a verdict.
    Spent(u32),
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunnerError::Design(error) => error.fmt(f),
            RunnerError::Folder(error) => error.fmt(f),
            RunnerError::Spent(blocks) => write!(
                f,
                "verdicts were sought for the last time after block {blocks}; sought again after \
                 more blocks, they would be wrong too often (run it anew with more --blocks; prony \
                 report prints what it said)"
            ),
        }
    }
}

impl std::error::Error for RunnerError {}

impl From<FolderError> for RunnerError {
    fn from(error: FolderError) -> Self {
        RunnerError::Folder(error)
    }
}

/// Stops an experiment from another thread: the load at once, the rest as soon as it is safe.
#[derive(Debug, Default)]
pub struct Interrupt {
    stopped: AtomicBool,
    load: Mutex<Option<Arc<Control>>>,
}

impl Interrupt {
    /// Asks the experiment to end. What was measured is evaluated and stored.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = &*load {
            control.stop();
        }
    }

    /// Whether it was asked to.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// From now on `control` is what [`Interrupt::stop`] stops.
    fn watch(&self, control: Option<Arc<Control>>) {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        *load = control;
        if let (true, Some(control)) = (self.is_stopped(), &*load) {
            control.stop();
        }
    }
}

/// What an experiment will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Variants, each once in a block.
    pub variants: usize,
    /// Blocks at least and at most.
    pub blocks: (u32, u32),
    /// Time at least and at most.
    pub time: (Duration, Duration),
}

/// Blocks and time of an experiment, before it begins. A load that ends after a number of requests
/// counts as long as one that doesn't; [`BlockTime`] knows better.
pub fn forecast(plan: &Plan, settings: &Settings) -> Forecast {
    let trial = plan.trials.warmup + plan.trials.duration + TRIAL_OVERHEAD_GUESS;
    let variants = u32::try_from(plan.variants.len()).unwrap_or(u32::MAX);
    forecast_by(plan, settings, trial.saturating_mul(variants))
}

/// The same for blocks that take `block_time` each.
pub fn forecast_by(plan: &Plan, settings: &Settings, block_time: Duration) -> Forecast {
    let blocks = block_range(plan, settings);
    let budget = settings
        .budget
        .or(plan.trials.budget)
        .unwrap_or(Duration::MAX);
    // The first block runs whatever the budget is.
    let within = |blocks| {
        block_time
            .saturating_mul(blocks)
            .min(budget.max(block_time))
    };
    let time = (within(blocks.0), within(blocks.1));
    Forecast {
        variants: plan.variants.len(),
        blocks,
        time,
    }
}

fn block_range(plan: &Plan, settings: &Settings) -> (u32, u32) {
    let of_plan = (plan.trials.blocks_min as u32, plan.trials.blocks_max as u32);
    settings.blocks.map_or(of_plan, |blocks| (blocks, blocks))
}

/// The machines of an experiment.
pub struct Machines<'a> {
    /// Where services run.
    pub host: &'a mut dyn Host,
    /// Who makes loads that are not made by this process; none where no plan asks for that.
    pub load: Option<&'a mut dyn LoadMaker>,
}

/// Runs an experiment whose load this process makes; see [`run_on`].
///
/// # Errors
///
/// Those of [`run_on`].
pub fn run(
    plan: &Plan,
    host: &mut dyn Host,
    settings: &Settings,
    interrupt: &Interrupt,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Finished, RunnerError> {
    let machines = Machines { host, load: None };
    run_on(plan, machines, settings, interrupt, on)
}

/// Runs an experiment on `machines`. `on` hears what happens as it happens, on the calling thread.
///
/// # Errors
///
/// Where nothing could be run at all. A trial that fails ends the experiment, but what was measured
/// before is in [`Finished`] like in an interrupted one.
pub fn run_on(
    plan: &Plan,
    mut machines: Machines<'_>,
    settings: &Settings,
    interrupt: &Interrupt,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Finished, RunnerError> {
    let design = design(plan, settings);
    design.pairs().map_err(RunnerError::Design)?;
    let stored = match settings.resume {
        true => Stored::open(plan, &settings.out, settings.accept_plan_changes)?,
        false => {
            let seed = settings
                .seed
                .or(plan.trials.seed)
                .unwrap_or_else(random_seed);
            Stored::create(plan, &settings.out, seed)?
        }
    };
    let mut experiment = Experiment {
        plan,
        design,
        budget: settings.budget.or(plan.trials.budget),
        bodies: settings.bodies.unwrap_or(plan.bodies),
        precheck: settings.precheck,
        precheck_time: Duration::ZERO,
        began: Instant::now(),
        stored,
        table: AlphaTable::new(),
        looks: Vec::new(),
        on,
    };
    experiment.run(&mut machines, interrupt)
}

/// A seed that nobody chose: the clock's low digits.
fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64) % 1_000_000_007
}

/// What a plan compares, in the terms of its statistics.
pub fn design(plan: &Plan, settings: &Settings) -> Design {
    let (blocks_min, blocks_max) = block_range(plan, settings);
    let levels = |levels: &crate::plan::LevelSelection| {
        levels
            .iter()
            .map(|(factor, level)| (factor.to_owned(), level.to_owned()))
            .collect()
    };
    Design {
        factors: plan
            .factors
            .iter()
            .map(|factor| Factor {
                name: factor.name.clone(),
                levels: factor
                    .levels
                    .iter()
                    .map(|level| level.name.clone())
                    .collect(),
            })
            .collect(),
        variants: plan
            .variants
            .iter()
            .map(|variant| levels(&variant.levels))
            .collect(),
        baseline: levels(&plan.baseline),
        margin: plan.margin,
        family: plan.metrics.clone(),
        blocks_min,
        blocks_max,
        alpha: 0.05,
    }
}

/// An experiment under way.
struct Experiment<'a> {
    plan: &'a Plan,
    design: Design,
    budget: Option<Duration>,
    bodies: BodyComparison,
    precheck: bool,
    precheck_time: Duration,
    began: Instant,
    stored: Stored,
    table: AlphaTable,
    looks: Vec<Look>,
    on: &'a mut dyn FnMut(Event<'_>),
}

impl Experiment<'_> {
    fn run(
        &mut self,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<Finished, RunnerError> {
        self.looks = self.stored.looks().to_vec();
        let mut failed = None;
        let done = self.stored.complete_blocks(self.plan.variants.len());
        let mut next_look = self.planned_look(done);
        if done > 0 {
            self.refuse_if_spent(done)?;
            (self.on)(Event::Resumed { blocks: done });
            // A look at a number of blocks that nobody had planned would cost error rate.
            if self.looks.last().is_some_and(|look| look.blocks == done)
                || self.design.planned_looks().contains(&done)
            {
                next_look = self.look()?.unwrap_or(0);
            }
        }
        if done == 0 && self.precheck {
            failed = self.check_variants(machines, interrupt).err();
        }
        let mut block = done + 1;
        while failed.is_none()
            && next_look >= block
            && !interrupt.is_stopped()
            && self.has_time(block)
        {
            match self.block(block, machines, interrupt) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            failed = self.nothing_succeeded(block).map(|error| FailedTrial {
                variant: None,
                error: Box::new(error),
            });
            if failed.is_some() {
                break;
            }
            if block == next_look {
                next_look = self.look()?.unwrap_or(0);
            }
            block += 1;
        }
        let document = match self.conclude() {
            // What stopped the trial, a full disk say, may stop this as well; it is said once.
            Err(RunnerError::Folder(_)) if failed.is_some() => None,
            document => document?,
        };
        Ok(Finished {
            document,
            interrupted: interrupt.is_stopped(),
            failed,
        })
    }

    /// Whoever asks for more blocks than an experiment was begun with would wait for them in vain.
    fn refuse_if_spent(&mut self, done: u32) -> Result<(), RunnerError> {
        // What was stored as text may differ in its last digit.
        let is_spent = |look: &Look| look.blocks <= done && look.spent_share > 1.0 - 1e-9;
        let asks_for_more = self.design.blocks_max > done;
        if asks_for_more && self.looks.last().is_some_and(is_spent) && !self.evaluate()?.decided() {
            return Err(RunnerError::Spent(done));
        }
        Ok(())
    }

    /// The first planned look after so many blocks; too few blocks for any end the experiment
    /// without one.
    fn planned_look(&self, done: u32) -> u32 {
        let planned = self
            .design
            .planned_looks()
            .into_iter()
            .find(|&look| look > done);
        planned.unwrap_or(self.design.blocks_max)
    }

    /// Whether another block would end within the budget, by the time that blocks took so far.
    fn has_time(&self, block: u32) -> bool {
        let Some(budget) = self.budget else {
            return true;
        };
        let done = self.stored.blocks_run();
        let spent = self.began.elapsed();
        let each = match done {
            0 => {
                (self.plan.trials.warmup + self.plan.trials.duration)
                    * u32::try_from(self.plan.variants.len()).unwrap_or(1)
            }
            done => spent.saturating_sub(self.precheck_time) / done,
        };
        // Without a first block there would be nothing to say at all.
        block == 1 || spent + each <= budget
    }

    /// Starts each variant once, and sends it a few requests.
    fn check_variants(
        &mut self,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), FailedTrial> {
        let variants = self.plan.variants.len();
        let mut checked = Vec::new();
        for variant in 0..variants {
            if interrupt.is_stopped() {
                return Ok(());
            }
            let id = &self.plan.variants[variant].id;
            (self.on)(Event::Checking {
                position: variant,
                variants,
                id,
            });
            let responses = self.trial(machines, interrupt).check(variant);
            match responses.map_err(|error| self.failed(variant, error))? {
                Some(responses) => checked.push(responses),
                None => return Ok(()),
            }
        }
        self.precheck_time = self.began.elapsed();
        let error = response_findings::all_failed(&checked).map(TrialError::NothingSucceeded);
        match error {
            Some(error) => Err(FailedTrial {
                variant: None,
                error: Box::new(error),
            }),
            None => Ok(()),
        }
    }

    fn failed(&self, variant: usize, error: TrialError) -> FailedTrial {
        FailedTrial {
            variant: Some(self.plan.variant_name(variant)),
            error: Box::new(error),
        }
    }

    fn trial<'t>(
        &'t mut self,
        machines: &'t mut Machines<'_>,
        interrupt: &'t Interrupt,
    ) -> trial::Trial<'t> {
        trial::Trial {
            plan: self.plan,
            host: &mut *machines.host,
            // One reborrow, which the type checker wants spelt out.
            load: match &mut machines.load {
                Some(load) => Some(&mut **load),
                None => None,
            },
            interrupt,
            stored: &mut self.stored,
            on: &mut *self.on,
        }
    }

    /// Runs every variant once; false if interrupted.
    fn block(
        &mut self,
        block: u32,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<bool, FailedTrial> {
        let variants = self.plan.variants.len();
        let order = schedule::order(self.stored.seed(), block as usize - 1, variants);
        for (position, &variant) in order.iter().enumerate() {
            let id = &self.plan.variants[variant].id;
            (self.on)(Event::TrialBegan {
                block,
                position,
                variants,
                id,
            });
            let place = trial::Place {
                block,
                variant,
                position,
            };
            let result = self.trial(machines, interrupt).run(place);
            let result = result.map_err(|error| self.failed(variant, error))?;
            let Some(result) = result else {
                return Ok(false);
            };
            let kept = self.stored.keep(result);
            kept.map_err(|error| self.failed(variant, TrialError::File(error.to_string())))?;
            let result = self.stored.last();
            (self.on)(Event::TrialEnded { id, result });
        }
        self.stored.block_ended();
        // A design that contradicts itself was refused before anything ran.
        let glances = interim_estimates(&self.design, &self.observations()).unwrap_or_default();
        (self.on)(Event::BlockEnded {
            block,
            glances: &glances,
        });
        Ok(true)
    }

    /// Whether all of a block's requests failed in every variant, as they then will in all others.
    fn nothing_succeeded(&self, block: u32) -> Option<TrialError> {
        let mut of_block = self
            .stored
            .results()
            .iter()
            .filter(|result| result.block == block);
        let records: Vec<_> = of_block
            .clone()
            .filter_map(|result| result.record.as_ref())
            .collect();
        if of_block.any(|result| {
            result
                .record
                .as_ref()
                .is_none_or(|record| record.totals.ok > 0)
        }) {
            return None;
        }
        let findings = records.iter().flat_map(|record| &record.findings);
        let why = findings
            .filter(|finding| finding.id == FindingId::Errors)
            .map(|f| f.text.clone())
            .next();
        Some(TrialError::NothingSucceeded(why.unwrap_or_default()))
    }

    fn observations(&self) -> Observations {
        let mut observations = Observations::new();
        for result in self.stored.results() {
            observations.add(result.block, result.variant, result.values.clone());
        }
        observations
    }

    fn evaluate(&mut self) -> Result<Evaluation, RunnerError> {
        let observations = self.observations();
        evaluate_with(&mut self.table, &self.design, &observations, &self.looks)
            .map_err(RunnerError::Design)
    }

    /// Seeks verdicts; gives the block after which to do so again.
    fn look(&mut self) -> Result<Option<u32>, RunnerError> {
        let evaluation = self.evaluate()?;
        self.looks.clone_from(&evaluation.looks);
        let next = evaluation.next_look();
        let document = self.document(evaluation);
        self.stored.write_verdict(&document)?;
        (self.on)(Event::Looked {
            document: &document,
            next,
        });
        Ok(next)
    }

    /// The last word, also where the experiment ended before its time.
    fn conclude(&mut self) -> Result<Option<VerdictDocument>, RunnerError> {
        if self.stored.results().is_empty() {
            return Ok(None);
        }
        let evaluation = self.evaluate()?;
        self.looks.clone_from(&evaluation.looks);
        let document = self.document(evaluation);
        self.stored.write_verdict(&document)?;
        Ok(Some(document))
    }

    fn document(&self, mut evaluation: Evaluation) -> VerdictDocument {
        let results = self.stored.results();
        let noise = noise::judge(&evaluation, &self.design, results);
        let design = &self.design;
        let mut all = findings::of(self.plan, design, results, &evaluation, &noise, self.bodies);
        all.extend(self.stored.plan_changed());
        noise::apply(&mut evaluation, &noise);
        findings::withhold(&mut evaluation, &self.design, &all);
        all.extend(response_findings::withhold_effects(
            &mut evaluation,
            &self.design,
            self.stored.results(),
            self.bodies,
        ));
        let order = (0..self.stored.blocks_begun(evaluation.blocks))
            .map(|block| {
                schedule::order(self.stored.seed(), block as usize, self.plan.variants.len())
                    .into_iter()
                    .map(|variant| self.plan.variants[variant].id.clone())
                    .collect()
            })
            .collect();
        let about = ExperimentInfo {
            name: self.plan.name.clone(),
            question: self.plan.question.clone(),
            seed: self.stored.seed(),
            order,
        };
        let of_whom: Vec<why::FindingOfVariants<'_>> = all
            .iter()
            .map(|found| (&found.finding, found.variants.as_slice()))
            .collect();
        let why = why::of(&self.design, &evaluation, self.stored.results(), &of_whom);
        let findings = all.into_iter().map(|found| found.finding).collect();
        let document = VerdictDocument::new(about, &self.design, evaluation, findings);
        // All trials ran on the same kernel.
        let mut capacities = self.stored.results().iter().map(|it| &it.capacity);
        let softirq_included = capacities.find_map(|capacity| capacity.softirq_included);
        VerdictDocument {
            why,
            softirq_included,
            ..document
        }
    }
}
