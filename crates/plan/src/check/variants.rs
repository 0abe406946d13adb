//! Renders every variant once with placeholder endpoints, before anything starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use prony_load::{LoadSettings, has_streamed_responses};
use prony_stats::Metric;

use super::placeholders::placeholder_endpoints;
use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError};
use crate::model::{Plan, frozen_files, trials};
use crate::reference::PlanTable;
use crate::render::networks;
use crate::render::{
    self, LoadModel, RenderedVariant, ResolvedVariant, VariantLayout, load, machine_context,
};
use crate::syntax::{PlanReader, TomlNode};

impl Plan {
    /// Returns the script files that generate the requests of the plan's loads.
    pub fn scripts(&self) -> BTreeSet<PathBuf> {
        // If a variant can't be rendered, its trials report that.
        let variants = self.with_placeholders().unwrap_or_default();
        let scripts = variants.into_iter().map(|it| it.load.settings.script);
        scripts.flatten().collect()
    }

    /// Renders every variant with placeholder endpoints, without DNS lookups.
    ///
    /// # Errors
    /// A variant renders differently from when the plan was read.
    pub fn with_placeholders(&self) -> Result<Vec<ResolvedVariant>, PlanError> {
        let mut diagnostics = Diagnostics::default();
        let all = render_all(self, &mut diagnostics, |_, _, _| {});
        diagnostics
            .into_result()
            .map_err(|errors| errors.first().clone())?;
        let resolved = all.into_iter().map(|(_, rendered)| {
            let load = rendered.load.ok_or_else(|| {
                PlanError::unexplained(&self.origin, "the load of a variant can't be rendered")
            })?;
            Ok(ResolvedVariant {
                topology: rendered.topology,
                services: rendered.services,
                load,
                telemetry: rendered.telemetry,
            })
        });
        resolved.collect()
    }

    /// Returns the number of cores of the machine for which the plan was read.
    pub fn machine_cores(&self) -> usize {
        self.machine.cores().len()
    }

    /// Creates the error for a value of `interleave` with which the plan can't run. If the plan
    /// sets the key, the error names its line.
    pub fn interleave_error(&self, message: String, hint: &str) -> PlanError {
        let line = self.interleave_line;
        PlanError::new(DiagnosticKind::Structure, &self.origin, line, message).with_hint(hint)
    }
}

/// Renders every variant. Then adds to the plan the parts that depend on all variants: default
/// metrics, the files that the plan names, and notes.
pub(super) fn check_variants(
    plan: &mut Plan,
    metrics: Option<&TomlNode>,
    diagnostics: &mut Diagnostics,
) {
    report_unknown_keys(plan, diagnostics);
    let all = render_all(plan, diagnostics, |_, _, _| {});
    let references = all
        .iter()
        .flat_map(|(_, rendered)| rendered.references.clone())
        .collect();
    plan.frozen_files = frozen_files(&references, &plan.folder);
    plan.notes = notes(&all);
    plan.notes
        .extend(networks::former_keys(&plan.links, &plan.origin));
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    plan.metrics = match metrics {
        Some(node) => trials::read_metrics(node, &mut reader),
        None => default_metrics(&all, plan.load.line, &mut reader),
    };
    let metrics_line = metrics.map_or(plan.load.line, |node| node.line);
    plan.goals = goals(&all, plan.load.line, &mut reader);
    check_capacity_metrics(plan, &all, metrics_line, diagnostics);
}

/// Reports unknown keys of services, the load and telemetry, even if no variant can be rendered.
fn report_unknown_keys(plan: &Plan, diagnostics: &mut Diagnostics) {
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    for service in &plan.services {
        let owner = format!("service \"{}\"", service.name);
        reader.report_unknown_keys(&service.table, &owner, &PlanTable::Service.names());
    }
    load::report_unknown_keys(&plan.load, &mut reader);
    if let Some(table) = &plan.telemetry {
        reader.report_unknown_keys(table, "[telemetry]", &PlanTable::Telemetry.names());
    }
}

/// Returns the goals of the capacity searches, which must be the same for all variants.
fn goals(
    all: &[(String, RenderedVariant)],
    load_line: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<String> {
    let of = |rendered: &RenderedVariant| match &rendered.load.as_ref()?.model {
        LoadModel::Capacity(capacity) => Some(capacity.goals.goals.clone()),
        LoadModel::Closed | LoadModel::Open => None,
    };
    let rendered = all.iter().map(|(_, rendered)| rendered);
    let mut goals = rendered.filter(|it| it.load.is_some()).map(of);
    let Some(first) = goals.next() else {
        return Vec::new();
    };
    if goals.any(|goals| goals != first) {
        let message = "the variants have different goals, so their capacities can't be compared";
        let hint = "give all variants the same model and goal";
        reader.report_with_hint(DiagnosticKind::Structure, load_line, message, hint);
    }
    let first = first.unwrap_or_default();
    first.iter().map(ToString::to_string).collect()
}

/// Checks the plan's metrics: the only metric of a capacity search is the capacity, and other loads
/// can't measure it.
fn check_capacity_metrics(
    plan: &Plan,
    all: &[(String, RenderedVariant)],
    line: usize,
    diagnostics: &mut Diagnostics,
) {
    let mut models = all
        .iter()
        .filter_map(|(_, rendered)| Some(&rendered.load.as_ref()?.model))
        .peekable();
    // A load that can't be rendered was already reported.
    if models.peek().is_none() {
        return;
    }
    let is_search = models.any(|model| matches!(model, LoadModel::Capacity(_)));
    let is_measured = |metric: &&Metric| metric.is_capacity() == is_search;
    let Some(other) = plan.metrics.iter().find(|metric| !is_measured(metric)) else {
        return;
    };
    let (message, hint) = if is_search {
        (
            format!("a capacity search doesn't measure {other}"),
            "its only metric is capacity",
        )
    } else {
        (
            format!("only a capacity search measures {other}"),
            "set model = \"capacity\" and a goal in [load]",
        )
    };
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
}

/// Returns the metric that gets a verdict by default: the rate of a closed loop, the p99 of an open
/// loop or of a load with think times, or the capacity of a search. For streamed responses, these are
/// the rate of events and the p99 of the time to the first event; for journeys, their rate, the p99
/// of the journey time, and the highest rate of journeys.
fn default_metrics(
    all: &[(String, RenderedVariant)],
    load_line: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<Metric> {
    let models = all.iter().filter_map(|(_, rendered)| {
        let load = rendered.load.as_ref()?;
        Some(match (load.settings.has_pauses(), &load.model) {
            // With think times, the number of users determines the rate.
            (true, LoadModel::Closed) => &LoadModel::Open,
            (_, model) => model,
        })
    });
    let loads: Vec<_> = all
        .iter()
        .filter_map(|(_, rendered)| rendered.load.as_ref())
        .collect();
    let are_all = |is: fn(&LoadSettings) -> bool| {
        !loads.is_empty() && loads.iter().all(|load| is(&load.settings))
    };
    let [rate, p99, capacity] = if are_all(has_streamed_responses) {
        [
            Metric::EventsPerS,
            Metric::FirstEventP99Us,
            Metric::CapacityPerS,
        ]
    } else if are_all(LoadSettings::has_steps) {
        [
            Metric::JourneysPerS,
            Metric::JourneyP99Us,
            Metric::JourneyCapacityPerS,
        ]
    } else {
        [Metric::RatePerS, Metric::P99Us, Metric::CapacityPerS]
    };
    let (mut closed, mut open) = (false, false);
    for model in models {
        match model {
            LoadModel::Closed => closed = true,
            LoadModel::Open => open = true,
            // A mix of searches and other loads is rejected elsewhere.
            LoadModel::Capacity(_) => return vec![capacity],
        }
    }
    match (closed, open) {
        (true, true) => {
            let message = "some variants have a closed loop, others an open one or think times";
            let hint = "choose the metrics that get a verdict: metrics = [\"p99_us\"]";
            reader.report_with_hint(DiagnosticKind::Structure, load_line, message, hint);
            Vec::new()
        }
        (false, true) => vec![p99],
        (_, false) => vec![rate],
    }
}

/// Reads the key `notes` of a plan, whose templates may depend on the machine. Empty notes are
/// ignored.
pub(super) fn read_notes(
    plan: &Plan,
    notes: Option<&TomlNode>,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    let rendered = notes.and_then(|node| machine_context(plan).node(node, &mut reader));
    let texts = rendered.and_then(|node| reader.texts(&node, "notes"));
    let mut texts = texts.unwrap_or_default();
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// Renders every variant and calls `check` for each. Returns the rendered variants with their IDs.
pub(super) fn render_all(
    plan: &Plan,
    diagnostics: &mut Diagnostics,
    mut check: impl FnMut(&VariantLayout, &RenderedVariant, &mut Diagnostics),
) -> Vec<(String, RenderedVariant)> {
    let mut all = Vec::new();
    for variant in &plan.variants {
        let mut found = Diagnostics::default();
        if let Some(layout) = render::layout(plan, variant, &mut found) {
            let endpoints = placeholder_endpoints(&layout.services);
            let rendered = render::render(plan, variant, &layout, &endpoints, &mut found);
            check(&layout, &rendered, &mut found);
            all.push((variant.id.clone(), rendered));
        }
        diagnostics.add_variant(&variant.id, found);
    }
    diagnostics.clear_common_variants(plan.variants.len());
    all
}

fn notes(all: &[(String, RenderedVariant)]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((first, second)) = identical_variants(all) {
        notes.push(format!(
            "variants {first} and {second} have the same setup (an A/A comparison)"
        ));
    }
    let mut shared: BTreeSet<(usize, &str)> = BTreeSet::new();
    for (_, rendered) in all {
        // Loads that agents generate, and services on other hosts, use the cores of other machines.
        let load = rendered.load.as_ref();
        let Some(load) = load.filter(|load| load.agents.is_none()) else {
            continue;
        };
        let load_cores = load
            .settings
            .cores
            .as_ref()
            .map_or(&[][..], |list| list.0.as_slice());
        for service in rendered.services.iter().filter(|it| it.host.is_none()) {
            let cores = service.spec.cores.iter();
            let cores = cores.filter(|core| load_cores.contains(core));
            shared.extend(cores.map(|core| (*core, service.spec.name.as_str())));
        }
    }
    notes.extend(shared.iter().map(|(core, service)| {
        format!("the load and service \"{service}\" share core {core} and slow each other down")
    }));
    notes
}

/// Returns the IDs of the first two variants with the same services, load and networks.
fn identical_variants(all: &[(String, RenderedVariant)]) -> Option<(&str, &str)> {
    let is_same = |a: &RenderedVariant, b: &RenderedVariant| {
        let loads = match (&a.load, &b.load) {
            (Some(a), Some(b)) => {
                let same_origin = a.place == b.place && a.agents == b.agents;
                let same_requests = a.url == b.url && a.settings == b.settings;
                same_origin && same_requests && a.model == b.model
            }
            _ => false,
        };
        loads && a.services == b.services && a.topology == b.topology
    };
    all.iter().enumerate().find_map(|(index, (first, one))| {
        all[index + 1..]
            .iter()
            .find(|(_, other)| is_same(one, other))
            .map(|(second, _)| (first.as_str(), second.as_str()))
    })
}
