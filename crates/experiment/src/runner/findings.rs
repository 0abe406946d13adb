//! Findings about an experiment. Some combine the findings about loads by variant; others result
//! only from a comparison of trials. docs/findings.md describes each of them. All functions here
//! are pure.

use std::collections::{BTreeMap, BTreeSet};

use prony_plan::{BodyComparison, Plan};
use prony_record::finding::{
    AgentsChanged, FewBlocks, MachineChanged, NotStationary, ServerIdle, Subject, VariantShare,
};
use prony_record::{
    Finding, FindingId, FindingName, Record, Severity, TrialFolding, WithheldVerdicts,
};
use prony_stats::{
    BottleneckKind, Comparison, Design, Evaluation, INTERVAL_BLOCKS_MIN, Levels, Metric, Verdict,
    WithheldBecause,
};

use super::experiment_finding::{ExperimentFinding, FEW_BLOCKS, median};
use super::noise::{self, NoiseEffect, lost_percent};
use super::protocols::{self, Protocols};
use super::trial_result::TrialResult;
use super::values::CPU_LOAD_S_MIN;
use super::{order_effect, response_findings, why};

/// Core usage of services, as a fraction of their cores, below which the services don't limit a
/// closed loop.
const IDLE_SHARE_MAX: f64 = 0.7;
/// Maximum CPU time of other processes and guests, in percent of one core, at which a trial can
/// show whether its services were idle.
const CROWDED_PERCENT: f64 = 20.0;
/// Maximum relative difference between the rates in the first and the last third of a steady load.
const DRIFT_MAX: f64 = 0.2;
/// Minimum number of series slices for comparing the first and the last third of a trial.
const DRIFT_SLICES_MIN: usize = 6;

/// Returns all findings of an experiment. `noise` holds the effect of noise on each comparison of
/// the evaluation.
pub(crate) fn experiment_findings(
    plan: &Plan,
    design: &Design,
    results: &[TrialResult],
    evaluation: &Evaluation,
    noise: &[NoiseEffect],
    bodies: BodyComparison,
) -> Vec<ExperimentFinding> {
    let name = |variant: usize| design.name_of(variant);
    let baseline = |variant: usize| plan.baseline_of(variant);
    let mut found = of_loads(results, design.variants.len(), &name);
    let responses = response_findings::by_variant(results, design.variants.len());
    found.extend(response_findings::compare_responses(
        &responses, &baseline, &name, bodies,
    ));
    found.extend(services(results, &name));
    note_compared_crypto(&mut found, results, design.variants.len());
    found.extend(machine_changed(results, design.variants.len(), &name));
    found.extend(agents_changed(results, design.variants.len(), &name));
    let protocols = protocols_of(results, design.variants.len());
    found.extend(protocols::findings(&protocols, &baseline, &name, bodies));
    found.extend(server_idle(results, design.variants.len(), &name));
    found.extend(not_stationary(results, design.variants.len(), &name));
    found.extend(noise::finding(results, noise));
    found.extend(order_effect::finding(results, design.variants.len()));
    found.extend(few_blocks(evaluation.blocks));
    found.sort_by_key(|found| std::cmp::Reverse(found.finding.severity));
    found
}

/// Returns the findings about loads, combined for each ID and severity. [`TrialFolding`] determines
/// the severity.
fn of_loads(
    results: &[TrialResult],
    variants: usize,
    name: &dyn Fn(usize) -> String,
) -> Vec<ExperimentFinding> {
    let mut groups: BTreeMap<(Severity, &FindingName, usize), FindingGroup> = BTreeMap::new();
    for variant in 0..variants {
        let trials = of_variant(results, variant);
        let mut seen: BTreeMap<&FindingName, Vec<&Finding>> = BTreeMap::new();
        for finding in trials.iter().flat_map(|record| &record.findings) {
            seen.entry(&finding.id).or_default().push(finding);
        }
        for (id, mut findings) in seen {
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            // A single bad trial among many is a warning about noise and doesn't characterize the
            // variant.
            let usual = findings
                .get((trials.len() - 1) / 2)
                .map(|finding| finding.severity);
            let info = id.known().map(FindingId::info);
            let severity = match info.map(|info| info.folding) {
                Some(TrialFolding::Worst) => findings[0].severity,
                Some(TrialFolding::Median) | None => {
                    usual.unwrap_or(findings[0].severity.min(Severity::Warning))
                }
            };
            let own = if info.is_some_and(|info| info.per_variant) {
                variant
            } else {
                0
            };
            let group = groups.entry((severity, id, own)).or_default();
            group.variants.push(variant);
            group.seen += findings.len();
            group.trials += trials.len();
            group.first.get_or_insert_with(|| findings[0].clone());
        }
    }
    let found = groups.into_iter().filter_map(|((severity, _, _), group)| {
        let first = group.first?;
        let names: Vec<String> = group
            .variants
            .iter()
            .map(|&variant| name(variant))
            .collect();
        let text = format!(
            "{}, in {} of {} trials: {}",
            names.join("; "),
            group.seen,
            group.trials,
            first.text
        );
        Some(ExperimentFinding {
            finding: Finding {
                severity,
                text,
                ..first
            },
            variants: group.variants,
        })
    });
    found.collect()
}

/// A finding and the variants that share it.
#[derive(Default)]
struct FindingGroup {
    variants: Vec<usize>,
    seen: usize,
    trials: usize,
    first: Option<Finding>,
}

fn of_variant(results: &[TrialResult], variant: usize) -> Vec<&Record> {
    let trials = results.iter().filter(|result| result.variant == variant);
    trials.filter_map(|result| result.record.as_ref()).collect()
}

/// Collects the trials' findings about services. Each finding is reported once per variant and
/// service.
fn services(results: &[TrialResult], name: &dyn Fn(usize) -> String) -> Vec<ExperimentFinding> {
    let mut found: Vec<ExperimentFinding> = Vec::new();
    for result in results {
        for finding in &result.findings {
            let variants = vec![result.variant];
            let known = |found: &ExperimentFinding| {
                (&found.finding.id, &found.finding.subject) == (&finding.id, &finding.subject)
                    && found.variants == variants
            };
            if found.iter().any(known) {
                continue;
            }
            let text = format!(
                "{}, block {}: {}",
                name(result.variant),
                result.block,
                finding.text
            );
            found.push(ExperimentFinding {
                finding: Finding {
                    text,
                    ..finding.clone()
                },
                variants,
            });
        }
    }
    found
}

/// Reduces findings about cryptographic libraries to notes if another variant that uses TLS doesn't
/// have the finding: the library is then a part of what is compared.
fn note_compared_crypto(found: &mut [ExperimentFinding], results: &[TrialResult], variants: usize) {
    let about_crypto = |it: &ExperimentFinding| it.finding.id == FindingId::CryptoUnaccelerated;
    let slow: BTreeSet<usize> = found
        .iter()
        .filter(|it| about_crypto(it))
        .flat_map(|it| it.variants.iter().copied())
        .collect();
    let uses_tls = |variant: usize| {
        let mut records = of_variant(results, variant).into_iter();
        records.any(|record| record.negotiated.tls.is_some())
    };
    let is_compared = (0..variants).any(|it| !slow.contains(&it) && uses_tls(it));
    for one in found
        .iter_mut()
        .filter(|it| is_compared && about_crypto(it))
    {
        one.finding.severity = Severity::Note;
    }
}

/// Finds variants with a service that ran on different machines in different trials, for example
/// because another agent now has the label.
fn machine_changed(
    results: &[TrialResult],
    variants: usize,
    name: &dyn Fn(usize) -> String,
) -> Vec<ExperimentFinding> {
    let of = |variant: usize| {
        let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for result in results.iter().filter(|result| result.variant == variant) {
            for (service, host) in &result.hosts {
                hosts.entry(service).or_default().insert(host);
            }
        }
        let (service, hosts) = hosts.into_iter().find(|(_, hosts)| hosts.len() > 1)?;
        let changed = MachineChanged {
            variant: name(variant),
            agents: hosts.into_iter().map(str::to_owned).collect(),
        };
        let subject = Subject::Service(service.to_owned());
        Some(ExperimentFinding {
            finding: Finding::about(subject, Severity::Error, &changed),
            variants: vec![variant],
        })
    };
    (0..variants).filter_map(of).collect()
}

/// Finds variants whose load was not generated by the same agents in all trials.
fn agents_changed(
    results: &[TrialResult],
    variants: usize,
    name: &dyn Fn(usize) -> String,
) -> Option<ExperimentFinding> {
    let mut changed = Vec::new();
    let mut first = None;
    for variant in 0..variants {
        let records = of_variant(results, variant).into_iter();
        let makers = records.filter_map(|record| {
            let agents = record.fleet.as_ref()?.agents.iter();
            Some(agents.map(|agent| agent.name.as_str()).collect())
        });
        let makers: BTreeSet<Vec<&str>> = makers.collect();
        if makers.len() > 1 {
            changed.push(variant);
            first.get_or_insert(makers);
        }
    }
    let group = |agents: Vec<&str>| agents.into_iter().map(str::to_owned).collect();
    let figures = AgentsChanged {
        variants: changed.iter().map(|&variant| name(variant)).collect(),
        groups: first?.into_iter().map(group).collect(),
    };
    Some(ExperimentFinding::about(
        changed,
        Severity::Warning,
        &figures,
    ))
}

/// Returns the protocols of each variant's first trial; `None` without a successful response.
fn protocols_of(results: &[TrialResult], variants: usize) -> Vec<Option<Protocols>> {
    let of_record = |record: &Record| {
        (record.totals.ok > 0).then(|| Protocols::new(&record.load, &record.negotiated))
    };
    let first = |variant: usize| {
        let of = results.iter().find(|result| result.variant == variant);
        of.and_then(|result| result.record.as_ref())
            .and_then(of_record)
    };
    (0..variants).map(first).collect()
}

fn server_idle(
    results: &[TrialResult],
    variants: usize,
    name: &dyn Fn(usize) -> String,
) -> Option<ExperimentFinding> {
    let mut idle = Vec::new();
    let mut used = Vec::new();
    for variant in 0..variants {
        let all: Vec<&TrialResult> = results.iter().filter(|it| it.variant == variant).collect();
        // A known limit explains why the services were idle.
        let limit = why::limit_of(&name(variant), &all).kind;
        let is_known = !matches!(limit, BottleneckKind::Waiting | BottleneckKind::Unknown);
        if is_known || why::has_delayed_acks(&all) {
            continue;
        }
        let trials = all
            .into_iter()
            .filter(|result| result.telemetry.services_cores > 0)
            .filter(|result| result.record.as_ref().is_some_and(can_show_idleness))
            .filter(|result| lost_percent(result) < CROWDED_PERCENT);
        let shares = trials.map(|result| {
            result.telemetry.services_percent / 100.0 / result.telemetry.services_cores as f64
        });
        if let Some(share) = median(shares.collect()).filter(|&share| share < IDLE_SHARE_MAX) {
            idle.push(variant);
            let variant = name(variant);
            used.push(VariantShare { variant, share });
        }
    }
    if idle.is_empty() {
        return None;
    }
    let of_idle = results.iter().filter(|it| idle.contains(&it.variant));
    let figures = ServerIdle {
        used,
        writes_to_disk: why::writes_to_disk(&of_idle.collect::<Vec<_>>()),
    };
    Some(ExperimentFinding::about(idle, Severity::Warning, &figures))
}

/// Returns true if the load was long enough and waited only for the server.
fn can_show_idleness(record: &Record) -> bool {
    is_closed(record) && record.totals.elapsed_s >= CPU_LOAD_S_MIN
}

fn is_closed(record: &Record) -> bool {
    record.load.is_saturating()
}

fn not_stationary(
    results: &[TrialResult],
    variants: usize,
    name: &dyn Fn(usize) -> String,
) -> Option<ExperimentFinding> {
    let mut unsettled = Vec::new();
    let mut changes = Vec::new();
    for variant in 0..variants {
        let of_trials = of_variant(results, variant).into_iter().filter_map(drift);
        let Some(drift) = median(of_trials.collect()).filter(|drift| drift.abs() > DRIFT_MAX)
        else {
            continue;
        };
        unsettled.push(variant);
        changes.push(VariantShare {
            variant: name(variant),
            share: drift,
        });
    }
    if unsettled.is_empty() {
        return None;
    }
    let figures = NotStationary { changes };
    Some(ExperimentFinding::about(
        unsettled,
        Severity::Warning,
        &figures,
    ))
}

/// Returns the relative change of a closed loop's rate from the first third of the load to the
/// last.
fn drift(record: &Record) -> Option<f64> {
    // The last slice may be shorter than the others.
    let whole = &record.series[..record.series.len().saturating_sub(1)];
    if !is_closed(record) || whole.len() < DRIFT_SLICES_MIN {
        return None;
    }
    let third = whole.len() / 3;
    let sum = |slices: &[prony_record::HalfSecond]| slices.iter().map(|s| s.ok as f64).sum::<f64>();
    let (first, last) = (sum(&whole[..third]), sum(&whole[whole.len() - third..]));
    (first > 0.0).then(|| last / first - 1.0)
}

fn few_blocks(blocks: u32) -> Option<ExperimentFinding> {
    let severity = match blocks {
        FEW_BLOCKS.. => return None,
        INTERVAL_BLOCKS_MIN.. => Severity::Note,
        _ => Severity::Warning,
    };
    let few = FewBlocks {
        blocks,
        wanted: FEW_BLOCKS,
        interval_min: INTERVAL_BLOCKS_MIN,
    };
    Some(ExperimentFinding::of_all(severity, &few))
}

/// Withholds the verdicts that findings with severity `error` may have distorted.
pub(crate) fn withhold(evaluation: &mut Evaluation, design: &Design, found: &[ExperimentFinding]) {
    let errors = found
        .iter()
        .filter(|found| found.finding.severity == Severity::Error);
    for error in errors {
        // A trial stored by another version may have a finding that this version doesn't know. Such
        // a finding may have distorted any verdict.
        let info = error.finding.info();
        let withholds = info.map_or(WithheldVerdicts::All, |info| info.withholds);
        let about = |levels: &Levels| {
            error
                .variants
                .iter()
                .any(|&variant| design.variants[variant] == *levels)
        };
        evaluation.withhold(
            |comparison| {
                let (this, other) = (about(&comparison.levels), about(&comparison.against));
                distorts(withholds, comparison, this, other)
            },
            &WithheldBecause::Finding(error.finding.id.clone()),
        );
    }
}

/// Returns true if a finding may have distorted the comparison. `withholds` are the verdicts that
/// the finding withholds, `this` is true if it concerns the variant, and `other` if it concerns the
/// baseline.
fn distorts(withholds: WithheldVerdicts, comparison: &Comparison, this: bool, other: bool) -> bool {
    let is_speed = comparison.metric.is_rate() || comparison.metric.is_time();
    match withholds {
        // `noise::apply` withholds the selected verdicts.
        WithheldVerdicts::Nothing | WithheldVerdicts::Selected => false,
        WithheldVerdicts::Speed => is_speed && (this || other),
        WithheldVerdicts::SpeedUnlessFaster => {
            is_speed
                && match comparison.verdict {
                    Verdict::Faster => other,
                    Verdict::Slower => this,
                    _ => this || other,
                }
        }
        // A higher number of failures is a result, not a distortion.
        WithheldVerdicts::AllButFailures => {
            comparison.metric != Metric::FailedShare && (this || other)
        }
        WithheldVerdicts::All => this || other,
    }
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
