//! Charts of the probes of capacity searches.

use prony_record::goals_phrase;
use prony_record::number::RateUnit;
use prony_stats::Metric;
use prony_stats::capacity::Goal;

use crate::chart::{self, GoalAxis, ProbePoints, palette};
use crate::document::Figure;
use crate::tables::level;
use crate::{Experiment, number};

/// A figure for each goal that was probed, with the probes of all variants.
pub(crate) fn probes(experiment: &Experiment) -> Vec<Figure> {
    let goals = experiment.verdict.goals.iter();
    goals.filter_map(|goal| of_goal(experiment, goal)).collect()
}

fn of_goal(experiment: &Experiment, text: &str) -> Option<Figure> {
    let goal = Goal::parse(text).ok()?;
    let verdict = &experiment.verdict;
    let first = experiment.trials.first();
    let unit = first.map_or(RateUnit::Requests, |it| it.record.load.rate_unit());
    let capacity = Metric::capacity_of(unit);
    let variants: Vec<ProbePoints> = (0..verdict.variants.len())
        .map(|variant| ProbePoints {
            name: verdict.variants[variant].name.clone(),
            color: palette::variant(variant),
            points: points(experiment, variant, text),
            capacity: level(verdict, variant, capacity),
        })
        .collect();
    if variants.iter().all(|variant| variant.points.is_empty()) {
        return None;
    }
    let phrase = goals_phrase(&[text.to_owned()]);
    let metric = phrase.split(' ').next().unwrap_or_default().to_owned();
    let axis = GoalAxis {
        goal: phrase,
        limit: goal.limit(),
        unit,
        mark: match goal.limit_s() {
            Some(_) => number::time,
            None => number::share,
        },
        metric,
    };
    let capacities = variants.iter().map(|variant| match variant.capacity {
        Some(capacity) => format!("{} {}", variant.name, unit.rate(capacity)),
        None => format!("{} unknown", variant.name),
    });
    let label = format!(
        "Scatter chart of {} against the offered rate, with a point for each probe. Capacities: {}.",
        axis.metric,
        capacities.collect::<Vec<_>>().join(", ")
    );
    Some(Figure {
        name: format!("probes {text}"),
        title: format!("{} against the offered rate", axis.metric),
        caption: None,
        chart: chart::probes(label, &axis, &variants),
    })
}

/// Offered rate and value of a goal's metric in each probe of a variant.
fn points(experiment: &Experiment, variant: usize, goal: &str) -> Vec<(f64, f64)> {
    let trials = experiment.trials_of(variant).into_iter();
    let probes = trials.filter_map(|trial| trial.search.as_ref());
    let probes = probes.flat_map(|search| &search.probes);
    let points = probes.filter_map(|probe| {
        let value = probe.goals.iter().find(|reading| reading.goal == goal)?;
        Some((probe.rate_per_s?, value.value))
    });
    points.collect()
}
