//! Execution of an experiment: its blocks, its looks, and its final verdicts.

use std::time::{Duration, Instant};

use prony_plan::{BodyComparison, Plan};
use prony_record::{FindingId, Severity};
use prony_stats::{
    AlphaTable, CostKind, Design, Evaluation, ExperimentInfo, Look, TrialMode,
    Trials as Observations, Verdict, VerdictDocument, evaluate_with, interim_estimates,
};

use super::block_error::BlockError;
use super::experiment_finding::ExperimentFinding;
use super::folder::{ExperimentFolder, RuledOut};
use super::folder_error::ExperimentFolderError;
use super::forecast::BlockTime;
use super::interleaved::InterleavedBlock;
use super::outcome::ExperimentOutcome;
use super::responses::ResponseDigests;
use super::run_settings::{Machines, RunSettings};
use super::runner_error::RunnerError;
use super::trial::{Trial, TrialPosition};
use super::why::CostEvaluations;
use super::{
    CommonFailure, ExperimentEvent, FailedTrial, Forecast, Interrupt, TrialError, TrialResult,
};
use super::{
    distributions, entries, findings, function_costs, noise, protocols, response_findings, rounds,
    service_cpu, why,
};
use crate::schedule;

/// An experiment in progress.
pub(super) struct Experiment<'a> {
    plan: &'a Plan,
    design: Design,
    budget: Option<Duration>,
    bodies: BodyComparison,
    precheck: bool,
    profile_rate_hz: Option<u32>,
    /// `Some` if blocks are interleaved. The inner value is the length of slices, if the user has
    /// set one.
    interleaving: Option<Option<Duration>>,
    precheck_time: Duration,
    began: Instant,
    stored: ExperimentFolder,
    /// Reason why the latest verdicts could not be stored.
    unstored: Option<ExperimentFolderError>,
    table: AlphaTable,
    looks: Vec<Look>,
    on: &'a mut dyn FnMut(ExperimentEvent<'_>),
}

impl<'a> Experiment<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        design: Design,
        settings: &RunSettings,
        stored: ExperimentFolder,
        on: &'a mut dyn FnMut(ExperimentEvent<'_>),
    ) -> Self {
        Experiment {
            plan,
            design,
            budget: settings.budget.or(plan.trials.budget),
            bodies: settings.bodies.unwrap_or(plan.bodies),
            precheck: settings.precheck,
            profile_rate_hz: settings.profile_rate_hz,
            interleaving: match stored.trial_mode() {
                Some(TrialMode::Sliced { length }) => Some(*length),
                _ => None,
            },
            precheck_time: Duration::ZERO,
            began: Instant::now(),
            looks: stored.looks().to_vec(),
            stored,
            unstored: None,
            table: AlphaTable::new(),
            on,
        }
    }

    /// Runs blocks until a stop condition holds, then stores the verdicts.
    pub(super) fn run(
        &mut self,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<ExperimentOutcome, RunnerError> {
        if let Some(mode) = self.stored.trial_mode() {
            (self.on)(ExperimentEvent::Mode { mode });
        }
        let done = self.stored.complete_blocks();
        let mut next_look = self.planned_look(done);
        if done > 0 {
            self.refuse_if_spent(done)?;
            (self.on)(ExperimentEvent::Resumed {
                blocks: done,
                block_time: self.stored.mean_time_of_block(),
            });
            // Don't evaluate after an unplanned number of blocks: an additional look would raise
            // the error rate.
            if self.looks.last().is_some_and(|look| look.blocks == done)
                || self.design.planned_looks().contains(&done)
            {
                next_look = self.look()?.unwrap_or(0);
            }
        }
        let failed = self.run_blocks(done, next_look, machines, interrupt)?;
        let ended_early = match (&failed, interrupt.is_stopped()) {
            (_, true) => Some("it was interrupted".to_owned()),
            (Some(failed), false) => Some(failed.to_string()),
            (None, false) => None,
        };
        let document = self.conclude(ended_early)?;
        Ok(ExperimentOutcome {
            document,
            // Report the failure only once: the same cause, such as a full disk, may have ended the
            // trial.
            unstored: self.unstored.take().filter(|_| failed.is_none()),
            interrupted: interrupt.is_stopped(),
            failed,
        })
    }

    /// Runs the pre-check, and the blocks that follow the `done` complete ones. Returns the failure
    /// that ended them, if there was one.
    fn run_blocks(
        &mut self,
        done: u32,
        mut next_look: u32,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<FailedTrial>, RunnerError> {
        if done == 0
            && self.precheck
            && let Err(failed) = self.check_variants(machines, interrupt)
        {
            return Ok(Some(failed));
        }
        if self.variants_run().is_empty() {
            return Ok(None);
        }
        let mut block = done + 1;
        while next_look >= block && !interrupt.is_stopped() && self.has_time(block) {
            match self.block(block, machines, interrupt) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failed) => return Ok(Some(failed)),
            }
            if let Some(error) = self.nothing_succeeded(block) {
                return Ok(Some(FailedTrial {
                    variant: None,
                    error: Box::new(error),
                }));
            }
            if block == next_look {
                next_look = self.look()?.unwrap_or(0);
            }
            block += 1;
        }
        Ok(None)
    }

    /// Returns an error if more blocks are requested although the error rate is used up and some
    /// verdicts are still undecided.
    fn refuse_if_spent(&mut self, done: u32) -> Result<(), RunnerError> {
        // The fraction may differ in its last digit after being stored as text.
        let is_spent = |look: &Look| look.blocks <= done && look.spent_share > 1.0 - 1e-9;
        let asks_for_more = self.design.blocks_max > done;
        if asks_for_more && self.looks.last().is_some_and(is_spent) && !self.evaluate()?.decided() {
            return Err(RunnerError::Spent(done));
        }
        Ok(())
    }

    /// Returns the number of blocks at the first planned look after `done` blocks. A design with
    /// too few blocks for a planned look ends after its last block.
    fn planned_look(&self, done: u32) -> u32 {
        let planned = self
            .design
            .planned_looks()
            .into_iter()
            .find(|&look| look > done);
        planned.unwrap_or(self.design.blocks_max)
    }

    /// Returns true if another block is expected to end within the budget, based on the mean time
    /// of earlier blocks. The first block always runs.
    fn has_time(&self, block: u32) -> bool {
        let Some(budget) = self.budget else {
            return true;
        };
        let spent = self.began.elapsed();
        let each = match self.stored.blocks_run() {
            0 => self.stored.mean_time_of_block().unwrap_or_default(),
            run => spent.saturating_sub(self.precheck_time) / run,
        };
        block == 1 || spent.saturating_add(each) <= budget
    }

    /// Starts each variant once and sends it a few requests.
    fn check_variants(
        &mut self,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), FailedTrial> {
        let variants = self.plan.variants.len();
        let mut checked = Vec::new();
        let mut overheads = Vec::new();
        for variant in 0..variants {
            if interrupt.is_stopped() {
                return Ok(());
            }
            let id = &self.plan.variants[variant].id;
            (self.on)(ExperimentEvent::Checking {
                position: variant,
                variants,
                id,
            });
            let responses = self.trial(machines, interrupt).check(variant);
            match responses.map_err(|error| self.failed(variant, error))? {
                Some((responses, overhead)) => {
                    checked.push(responses);
                    overheads.push(overhead);
                }
                None => return Ok(()),
            }
        }
        self.precheck_time = self.began.elapsed();
        if let Some(failure) = response_findings::all_failed(&checked) {
            return Err(FailedTrial {
                variant: None,
                error: Box::new(TrialError::NothingSucceeded(Some(failure))),
            });
        }
        self.rule_out(&checked)?;
        self.forecast(&overheads)
    }

    /// Stores the measured overhead of each variant's trials, and forecasts the blocks with it.
    fn forecast(&mut self, overheads: &[Duration]) -> Result<(), FailedTrial> {
        let run = self.variants_run();
        if run.is_empty() {
            return Ok(());
        }
        let overhead = run.iter().map(|&variant| overheads[variant]).sum();
        let stored = self.stored.note_overhead(overhead);
        stored.map_err(|error| FailedTrial {
            variant: None,
            error: Box::new(TrialError::Folder(error)),
        })?;
        // If a variant can't be rendered, its trial reports the cause.
        let mut variants = self.plan.with_placeholders().unwrap_or_default();
        let mut indexes = 0..;
        variants.retain(|_| indexes.next().is_some_and(|index| run.contains(&index)));
        let block_time = BlockTime::with_overhead(&variants, self.stored.trial_mode(), overhead);
        let blocks = (self.design.blocks_min, self.design.blocks_max);
        let spent = self.precheck_time;
        let budget = self.budget.map(|budget| budget.saturating_sub(spent));
        let forecast = Forecast::new(run.len(), blocks, budget, &block_time);
        (self.on)(ExperimentEvent::Checked {
            forecast: &forecast,
            overhead,
        });
        Ok(())
    }

    /// Leaves out the variants all of whose verdicts the pre-check's findings withhold.
    fn rule_out(&mut self, checked: &[ResponseDigests]) -> Result<(), FailedTrial> {
        let findings = self.check_errors(checked);
        // Errors result only from the design, which `run_on` has checked.
        let Ok(mut evaluation) = self.evaluate() else {
            return Ok(());
        };
        if findings.is_empty() {
            return Ok(());
        }
        findings::withhold(&mut evaluation, &self.design, &findings);
        let has_verdict = |variant: usize| {
            let levels = &self.design.variants[variant];
            let mut comparisons = evaluation.comparisons.iter();
            comparisons.any(|one| {
                one.verdict != Verdict::Withheld
                    && (one.levels == *levels || one.against == *levels)
            })
        };
        let variants = 0..self.plan.variants.len();
        let variants: Vec<usize> = variants.filter(|&variant| !has_verdict(variant)).collect();
        (self.on)(ExperimentEvent::RuledOut {
            variants: &variants,
            findings: &findings.iter().map(|it| &it.finding).collect::<Vec<_>>(),
        });
        let ruled_out = RuledOut { variants, findings };
        let stored = self.stored.rule_out(ruled_out);
        stored.map_err(|error| FailedTrial {
            variant: None,
            error: Box::new(TrialError::Folder(error)),
        })
    }

    /// Returns the findings of the pre-check that withhold verdicts.
    fn check_errors(&self, checked: &[ResponseDigests]) -> Vec<ExperimentFinding> {
        let baseline = |variant| self.plan.baseline_of(variant);
        let name = |variant| self.design.name_of(variant);
        let mut found =
            response_findings::compare_responses(checked, &baseline, &name, self.bodies);
        let protocols: Vec<_> = checked.iter().map(|it| it.protocols.clone()).collect();
        found.extend(protocols::findings(
            &protocols,
            &baseline,
            &name,
            self.bodies,
        ));
        found.retain(|found| found.finding.severity == Severity::Error);
        found
    }

    /// Returns the variants that blocks contain.
    fn variants_run(&self) -> Vec<usize> {
        let ruled_out = &self.stored.ruled_out().variants;
        let variants = 0..self.plan.variants.len();
        variants
            .filter(|variant| !ruled_out.contains(variant))
            .collect()
    }

    /// Returns the order of the variants in a block, which is numbered from 0.
    fn order_of(&self, block: u32) -> Vec<usize> {
        let variants = self.plan.variants.len();
        let mut order = schedule::order(self.stored.seed(), block as usize, variants);
        let run = self.variants_run();
        order.retain(|variant| run.contains(variant));
        order
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
    ) -> Trial<'t> {
        Trial {
            plan: self.plan,
            host: &mut *machines.host,
            // `as_deref_mut` would tie the lifetime of the trait object to the lifetime of
            // `machines`.
            load: match &mut machines.load {
                Some(load) => Some(&mut **load),
                None => None,
            },
            scripts: machines.scripts,
            profile_rate_hz: self.profile_rate_hz,
            interrupt,
            stored: &mut self.stored,
            on: &mut *self.on,
        }
    }

    /// Runs one block, which contains every variant once. Returns false after an interrupt.
    fn block(
        &mut self,
        block: u32,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<bool, FailedTrial> {
        let order = self.order_of(block - 1);
        let is_complete = match self.interleaving {
            Some(slice) => self.interleaved_trials(block, order, slice, machines, interrupt)?,
            None => self.trials(block, &order, machines, interrupt)?,
        };
        if !is_complete {
            return Ok(false);
        }
        self.stored.block_ended();
        // Errors result only from the design, which `run_on` has checked.
        let estimates = interim_estimates(&self.design, &self.observations()).unwrap_or_default();
        (self.on)(ExperimentEvent::BlockEnded {
            block,
            estimates: &estimates,
        });
        Ok(true)
    }

    /// Runs the trials of all variants sequentially. Returns false after an interrupt.
    fn trials(
        &mut self,
        block: u32,
        order: &[usize],
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<bool, FailedTrial> {
        let variants = order.len();
        for (index, &variant) in order.iter().enumerate() {
            let id = &self.plan.variants[variant].id;
            (self.on)(ExperimentEvent::TrialBegan {
                block,
                position: index,
                variants,
                id,
            });
            let position = TrialPosition {
                block,
                variant,
                position: index,
            };
            let result = self.trial(machines, interrupt).run(position);
            let result = result.map_err(|error| self.failed(variant, error))?;
            let Some(result) = result else {
                return Ok(false);
            };
            self.keep(variant, result)?;
            self.refuse_aborted(block)?;
        }
        Ok(true)
    }

    /// Runs the trials of all variants at the same time. Returns false after an interrupt.
    fn interleaved_trials(
        &mut self,
        block: u32,
        order: Vec<usize>,
        slice: Option<Duration>,
        machines: &mut Machines<'_>,
        interrupt: &Interrupt,
    ) -> Result<bool, FailedTrial> {
        (self.on)(ExperimentEvent::InterleavedBlockBegan { block });
        let fallback = order.clone();
        let interleaved = InterleavedBlock {
            trial: self.trial(machines, interrupt),
            block,
            order,
            slice,
        };
        let results = match interleaved.run() {
            Ok(Some(results)) => results,
            Ok(None) => return Ok(false),
            Err(failure) if failure.is_before_load && block == 1 && slice.is_none() => {
                let reason = format!("not all services could run at the same time ({failure})");
                self.give_up_interleaving(reason)?;
                return self.trials(block, &fallback, machines, interrupt);
            }
            Err(BlockError { variant, error, .. }) => {
                return Err(FailedTrial {
                    variant: variant.map(|variant| self.plan.variant_name(variant)),
                    error,
                });
            }
        };
        for result in results {
            self.keep(result.variant, result)?;
        }
        self.refuse_aborted(block)?;
        Ok(true)
    }

    /// Returns an error if a condition ended a load of the block.
    fn refuse_aborted(&self, block: u32) -> Result<(), FailedTrial> {
        let results = self.stored.results().iter();
        let mut of_block = results.filter(|result| result.block == block);
        let aborted = of_block.find_map(|result| Some((result.variant, result.aborted()?.clone())));
        match aborted {
            Some((variant, abort)) => {
                Err(self.failed(variant, TrialError::Aborted { block, abort }))
            }
            None => Ok(()),
        }
    }

    /// Switches to sequential trials for the rest of the experiment.
    fn give_up_interleaving(&mut self, reason: String) -> Result<(), FailedTrial> {
        self.interleaving = None;
        let mode = TrialMode::Sequential { reason };
        (self.on)(ExperimentEvent::Mode { mode: &mode });
        self.stored
            .set_trial_mode(mode)
            .map_err(|error| FailedTrial {
                variant: None,
                error: Box::new(TrialError::Folder(error)),
            })
    }

    /// Stores the result of a trial.
    fn keep(&mut self, variant: usize, result: TrialResult) -> Result<(), FailedTrial> {
        let kept = self.stored.keep(result);
        kept.map_err(|error| self.failed(variant, TrialError::Folder(error)))?;
        if let Some(result) = self.stored.results().last() {
            let id = &self.plan.variants[variant].id;
            (self.on)(ExperimentEvent::TrialEnded { id, result });
        }
        Ok(())
    }

    /// Returns an error if no request of any variant succeeded in this block, because later blocks
    /// would fail in the same way.
    fn nothing_succeeded(&self, block: u32) -> Option<TrialError> {
        let of_block = self
            .stored
            .results()
            .iter()
            .filter(|result| result.block == block);
        let records: Option<Vec<_>> = of_block.map(|result| result.record.as_ref()).collect();
        let records = records?;
        if records.iter().any(|record| record.has_success()) {
            return None;
        }
        let mut findings = records.iter().flat_map(|record| &record.findings);
        let errors = findings.find(|finding| finding.id == FindingId::Errors);
        let failure = errors.map(|finding| CommonFailure::Requests(Box::new(finding.clone())));
        Some(TrialError::NothingSucceeded(failure))
    }

    fn observations(&self) -> Observations {
        let mut observations = Observations::new();
        for result in self.stored.counted_results() {
            observations.add(result.block, result.variant, result.values.clone());
        }
        for &variant in &self.stored.ruled_out().variants {
            observations.leave_out(variant);
        }
        observations
    }

    fn evaluate(&mut self) -> Result<Evaluation, RunnerError> {
        let observations = self.observations();
        evaluate_with(&mut self.table, &self.design, &observations, &self.looks)
            .map_err(RunnerError::Design)
    }

    /// Evaluates all trials so far and stores the verdicts. Returns the number of blocks after
    /// which the next interim evaluation (look) is due.
    fn look(&mut self) -> Result<Option<u32>, RunnerError> {
        let evaluation = self.evaluate()?;
        self.looks.clone_from(&evaluation.looks);
        let planned = evaluation.next_look();
        let document = self.document(evaluation);
        // Findings may have withheld all verdicts that are undecided without them.
        let next = planned.filter(|_| document.is_undecided());
        self.unstored = self.stored.write_verdict(&document).err();
        (self.on)(ExperimentEvent::Looked {
            document: &document,
            next,
        });
        Ok(next)
    }

    /// Stores the final verdicts, even if the experiment ended early.
    fn conclude(&mut self, ended_early: Option<String>) -> Result<VerdictDocument, RunnerError> {
        let evaluation = self.evaluate()?;
        self.looks.clone_from(&evaluation.looks);
        let mut document = self.document(evaluation);
        document.ended_early = ended_early;
        self.unstored = self.stored.write_verdict(&document).err();
        Ok(document)
    }

    fn document(&self, mut evaluation: Evaluation) -> VerdictDocument {
        let results = self.stored.results();
        let noise = noise::judge(&evaluation, &self.design, self.stored.counted_results());
        let design = &self.design;
        let mut all = findings::experiment_findings(
            self.plan,
            design,
            results,
            &evaluation,
            &noise,
            self.bodies,
        );
        all.extend(self.stored.plan_changed());
        if self.variants_run().is_empty() {
            // More blocks wouldn't help.
            all.retain(|found| found.finding.id != FindingId::FewBlocks);
        }
        all.extend_from_slice(&self.stored.ruled_out().findings);
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
                self.order_of(block)
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
        // Capacity searches don't measure metrics that could explain a difference.
        let counted = self.stored.counted_results();
        let services = service_cpu::evaluations(&self.design, &evaluation, counted);
        let kinds = [CostKind::Cpu, CostKind::CpuOfModules, CostKind::Waiting];
        let [functions, modules, waits] =
            function_costs::tables(&self.design, &evaluation, counted, kinds);
        let costs = CostEvaluations {
            services: &services,
            functions: &functions,
            waits: &waits,
        };
        let why = if self.plan.goals.is_empty() {
            why::explanations(&self.design, &evaluation, counted, &of_whom, costs)
        } else {
            Vec::new()
        };
        let mut rounds = rounds::compare(&self.design, &evaluation, self.stored.counted_results());
        prony_wording::compose_rounds(&mut rounds);
        let counted = self.stored.counted_results();
        let mut distribution_differences =
            distributions::compare(&self.design, &evaluation, counted);
        prony_wording::compose_distributions(&mut distribution_differences);
        prony_wording::compose_evaluation(&self.design, &mut evaluation);
        let findings = all.into_iter().map(|found| found.finding).collect();
        let document = VerdictDocument::new(about, &self.design, evaluation, findings);
        let document = entries::add(document, self.stored.counted_results());
        let document = service_cpu::add(document, &services);
        // All trials ran on the same kernel, so the first known value applies to all.
        let mut resources = self.stored.results().iter().map(|it| &it.resources);
        let softirq_included = resources.find_map(|trial| trial.softirq_included);
        VerdictDocument {
            why,
            functions,
            modules,
            waits,
            rounds,
            distribution_differences,
            revisions: self.stored.revisions().to_vec(),
            trial_mode: self.stored.trial_mode().cloned(),
            softirq_included,
            ..document
        }
    }
}
