//! Every variant rendered once with made-up endpoints, before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use prony_stats::Metric;

use super::Plan;
use super::error::{Fault, Mistakes};
use super::freeze;
use super::load::Model;
use super::node::Node;
use super::reader::Reader;
use super::shape::{Remote, Shape};
use super::trials;
use super::variant::{self, Rendered};
use crate::service::{Allocated, Endpoint, ListenKind};

/// The first port of the made-up endpoints.
const FIRST_PORT: u16 = 20_000;

/// Renders every variant, and completes the plan with what only that can tell: the metrics that
/// follow from the load's model, the files that it names, and notes for its author.
pub(crate) fn survey(plan: &mut Plan, metrics: Option<&Node>, mistakes: &mut Mistakes) {
    let all = render_all(plan, false, mistakes);
    let references = all
        .iter()
        .flat_map(|(_, rendered)| rendered.references.clone())
        .collect();
    plan.frozen = freeze::files(&references, &plan.folder);
    let models: BTreeSet<bool> = all
        .iter()
        .filter_map(|(_, rendered)| Some(rendered.load.as_ref()?.model == Model::Open))
        .collect();
    let origin = plan.origin.clone();
    let mut reader = Reader {
        file: &origin,
        mistakes,
    };
    plan.metrics = match (metrics, models.contains(&true), models.contains(&false)) {
        (Some(node), _, _) => trials::read_metrics(node, &mut reader),
        (None, true, true) => {
            let what = "some variants have a closed loop, others an open one";
            let mend = "say what decides: metrics = [\"p99_us\"]";
            reader.refuse_with(Fault::Structure, plan.load.line, what, mend);
            Vec::new()
        }
        (None, true, false) => vec![Metric::P99Us],
        (None, false, _) => vec![Metric::RatePerS],
    };
    plan.notes = notes(&all);
}

/// What the plan itself has to say of itself on this machine: `notes`, of which the empty ones don't
/// apply.
pub(crate) fn own_notes(plan: &Plan, notes: Option<&Node>, mistakes: &mut Mistakes) -> Vec<String> {
    let mut reader = Reader {
        file: &plan.origin,
        mistakes,
    };
    let rendered = notes.and_then(|node| variant::of_machine(plan).node(node, &mut reader));
    let texts = rendered.and_then(|node| reader.texts(&node, "notes"));
    let texts = texts.unwrap_or_default();
    texts
        .into_iter()
        .filter(|text| !text.trim().is_empty())
        .collect()
}

/// Renders every variant and looks for what each needs of the machine.
pub(crate) fn on_machine(plan: &Plan, mistakes: &mut Mistakes) {
    render_all(plan, true, mistakes);
}

/// The variants' ids and what each came to.
fn render_all(plan: &Plan, on_machine: bool, mistakes: &mut Mistakes) -> Vec<(String, Rendered)> {
    let mut all = Vec::new();
    for variant in &plan.variants {
        let mut found = Mistakes::default();
        if let Some(layout) = variant::layout(plan, variant, &mut found) {
            let endpoints = made_up(&layout.shapes);
            let rendered =
                variant::render(plan, variant, &layout, &endpoints, on_machine, &mut found);
            all.push((variant.id.clone(), rendered));
        }
        mistakes.add_variant(&variant.id, found);
    }
    mistakes.forget_common(plan.variants.len());
    all
}

/// Endpoints of the right kind that nothing listens on.
pub(crate) fn made_up(shapes: &[Shape]) -> BTreeMap<String, Allocated> {
    let mut ports = FIRST_PORT..;
    let mut tcp = || {
        let port = ports.next().unwrap_or(FIRST_PORT);
        Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    let mut endpoints = BTreeMap::new();
    for shape in shapes {
        let files_dir = PathBuf::from("/nonexistent/prony").join(&shape.name);
        let given = match &shape.remote {
            Some((_, Remote::Unix(path))) => variant::remote_allocated(Endpoint::Unix(path.into())),
            Some((_, Remote::Tcp { port, .. })) => variant::remote_allocated(Endpoint::Tcp(
                SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
            )),
            None => Allocated {
                endpoints: shape
                    .listen
                    .iter()
                    .map(|(name, kind)| {
                        let endpoint = match kind {
                            ListenKind::Tcp => tcp(),
                            ListenKind::Unix => {
                                Endpoint::Unix(files_dir.join(format!("{name}.sock")))
                            }
                        };
                        (name.clone(), endpoint)
                    })
                    .collect(),
                files_dir,
            },
        };
        endpoints.insert(shape.name.clone(), given);
    }
    endpoints
}

fn notes(all: &[(String, Rendered)]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((first, second)) = same_set_up(all) {
        notes.push(format!(
            "variants {first} and {second} are the same set-up (an A/A comparison)"
        ));
    }
    let mut shared: BTreeSet<(usize, &str)> = BTreeSet::new();
    for (_, rendered) in all {
        let Some(load) = &rendered.load else { continue };
        let load_cores = load
            .flags
            .cores
            .as_ref()
            .map_or(&[][..], |list| list.0.as_slice());
        for service in &rendered.services {
            let cores = service
                .spec
                .cores
                .iter()
                .filter(|core| load_cores.contains(core));
            shared.extend(cores.map(|core| (*core, service.spec.name.as_str())));
        }
    }
    notes.extend(shared.iter().map(|(core, service)| {
        format!("the load and service \"{service}\" share core {core}: each slows the other")
    }));
    notes
}

fn same_set_up(all: &[(String, Rendered)]) -> Option<(&str, &str)> {
    let same = |a: &Rendered, b: &Rendered| {
        let loads = match (&a.load, &b.load) {
            (Some(a), Some(b)) => {
                let is_made_alike = a.place == b.place && a.agents == b.agents;
                is_made_alike && a.url == b.url && a.words() == b.words()
            }
            _ => false,
        };
        loads && a.services == b.services && a.topology == b.topology
    };
    all.iter().enumerate().find_map(|(index, (first, one))| {
        all[index + 1..]
            .iter()
            .find(|(_, other)| same(one, other))
            .map(|(second, _)| (first.as_str(), second.as_str()))
    })
}
