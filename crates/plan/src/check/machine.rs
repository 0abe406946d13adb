//! Checks that the machine that runs the plan has the necessary programs, folders, cores and
//! places.

use std::fs;
use std::path::Path;

use super::variants::render_all;
use crate::diagnostic::{DiagnosticKind, Diagnostics};
use crate::machine::{ImageRefused, PlanMachine};
use crate::model::{Plan, io_error_words};
use crate::render::VariantLayout;
use crate::render::context::{MachineNeed, MachineNeedKind};
use crate::render::load::check_load;
use crate::render::networks::report_setting;
use crate::service::{ContainerSpec, PlaceKind};
use crate::syntax::PlanReader;

/// Reports everything that any variant needs but this machine lacks.
pub(super) fn check_machine(plan: &Plan, diagnostics: &mut Diagnostics) {
    let machine = &*plan.machine;
    // Fetching an image takes long, and so does each failure.
    let mut images = Vec::new();
    render_all(plan, diagnostics, |layout, rendered, found| {
        let mut reader = PlanReader {
            file: &plan.origin,
            diagnostics: found,
        };
        check_networks(layout, machine, &mut reader);
        for need in &rendered.needs {
            check_need(need, machine, &mut images, &mut reader);
        }
        if let Some(load) = &rendered.load {
            check_load(load, layout, machine, &mut reader);
        }
    });
}

/// Images that were looked for, with the result.
type FetchedImages = Vec<(ContainerSpec, Result<(), ImageRefused>)>;

fn check_need(
    need: &MachineNeed,
    machine: &dyn PlanMachine,
    images: &mut FetchedImages,
    reader: &mut PlanReader<'_>,
) {
    let line = need.line;
    match &need.kind {
        MachineNeedKind::Program {
            owner,
            name,
            hint,
            package,
        } => {
            let message = format!("{owner}: the program \"{name}\" is not installed");
            reader.report_with_hint(DiagnosticKind::NotInstalled, line, message, hint.as_str());
            if let Some(package) = package {
                reader.diagnostics.add_missing_package(package);
            }
        }
        MachineNeedKind::Cores { owner, cores } => {
            check_cores(owner, cores, line, machine, reader);
        }
        MachineNeedKind::Folder { subject, path } => check_folder(subject, path, line, reader),
        MachineNeedKind::Place { owner, place } => {
            check_place(owner, *place, line, machine, reader);
        }
        MachineNeedKind::Image { owner, container } => {
            let known = images
                .iter()
                .find(|(known, _)| known.is_same_image(container));
            let fetched = match known {
                Some((_, fetched)) => fetched.clone(),
                None => {
                    let fetched = machine.fetch_image(container);
                    images.push((container.clone(), fetched.clone()));
                    fetched
                }
            };
            if let Err(refused) = fetched {
                report_image(owner, container, &refused, line, reader);
            }
        }
        MachineNeedKind::Volume { subject, path } => {
            if let Err(error) = fs::metadata(path) {
                let problem = io_error_words(&error);
                let message = format!("{subject}: {} {problem}", path.display());
                let hint = "relative paths are resolved against the plan's folder";
                reader.report_with_hint(DiagnosticKind::Machine, line, message, hint);
            }
        }
        MachineNeedKind::Limit { owner, key, limits } => {
            // Each limit of a service is a need of its own, so that the error has its line.
            if let Err((refused, reason)) = machine.check_limits(limits)
                && refused == *key
            {
                let key = key.name();
                let message = format!("{key} of {owner} can't be limited here: {reason}");
                reader.report(DiagnosticKind::Machine, line, message);
            }
        }
    }
}

fn report_image(
    owner: &str,
    container: &ContainerSpec,
    refused: &ImageRefused,
    line: usize,
    reader: &mut PlanReader<'_>,
) {
    match refused {
        ImageRefused::NoRuntime(programs) => {
            let message = format!("{owner}: {} is not installed", programs.join(" or "));
            let hint = format!("apt install {}", programs.first().unwrap_or(&""));
            reader.report_with_hint(DiagnosticKind::NotInstalled, line, message, hint);
        }
        ImageRefused::Failed(reason) => {
            let message = format!("{owner}: image \"{}\": {reason}", container.image);
            reader.report(DiagnosticKind::Machine, line, message);
        }
    }
}

fn check_cores(
    owner: &str,
    cores: &[usize],
    line: usize,
    machine: &dyn PlanMachine,
    reader: &mut PlanReader<'_>,
) {
    let list = |cores: &[&usize]| {
        let cores: Vec<String> = cores.iter().map(|core| core.to_string()).collect();
        cores.join(", ")
    };
    let existing = machine.cores();
    let missing: Vec<&usize> = cores
        .iter()
        .filter(|core| !existing.contains(core))
        .collect();
    if missing.is_empty() {
        return;
    }
    let noun = if missing.len() == 1 { "core" } else { "cores" };
    let message = format!(
        "{owner} uses {noun} {}, which this machine lacks",
        list(&missing)
    );
    let hint = match existing {
        [only] => format!("it has only core {only}"),
        [first, .., last] if last - first + 1 == existing.len() => {
            format!("it has cores {first} to {last}")
        }
        several => format!("it has cores {}", list(&several.iter().collect::<Vec<_>>())),
    };
    reader.report_with_hint(DiagnosticKind::Machine, line, message, hint);
}

fn check_folder(subject: &str, path: &Path, line: usize, reader: &mut PlanReader<'_>) {
    let problem = match fs::read_dir(path) {
        Ok(_) => return,
        Err(_) if path.is_file() => "is not a folder".to_owned(),
        Err(error) => io_error_words(&error),
    };
    let message = format!("{subject}: {} {problem}", path.display());
    let hint = "relative paths are resolved against the plan's folder";
    reader.report_with_hint(DiagnosticKind::Machine, line, message, hint);
}

fn check_place(
    owner: &str,
    place: PlaceKind,
    line: usize,
    machine: &dyn PlanMachine,
    reader: &mut PlanReader<'_>,
) {
    if let Err(reason) = machine.check_place(place) {
        let message = format!("{owner} can't run in a {place} here: {reason}");
        reader.report(DiagnosticKind::Machine, line, message);
    }
}

/// Checks the places and links that the plan defines.
fn check_networks(layout: &VariantLayout, machine: &dyn PlanMachine, reader: &mut PlanReader<'_>) {
    for (named, (line, settings_line)) in layout.topology.places.iter().zip(&layout.place_lines) {
        let name = &named.name;
        if let Err(reason) = machine.check_place(PlaceKind::Named(0)) {
            let message = format!("place \"{name}\" is not possible here: {reason}");
            reader.report(DiagnosticKind::Machine, *line, message);
            continue;
        }
        match machine.sort_settings(&named.settings) {
            Ok(sorted) if !named.where_possible => {
                for (setting, reason) in &sorted.not_applicable {
                    report_setting(name, setting, reason, *settings_line, reader);
                }
            }
            Ok(_) => {}
            Err(reason) => {
                let message = format!("place \"{name}\" can't have settings here: {reason}");
                reader.report(DiagnosticKind::Machine, *settings_line, message);
            }
        }
    }
    if let Some(line) = layout.link_needs.rate_line
        && let Err(reason) = machine.check_rates()
    {
        let message = format!("can't limit the rate of links on this machine: {reason}");
        reader.report(DiagnosticKind::Machine, line, message);
    }
    if let Some(line) = layout.link_needs.loss_line
        && let Err(reason) = machine.check_losses()
    {
        let message = format!("links can't lose packets here: {reason}");
        reader.report(DiagnosticKind::Machine, line, message);
    }
    for &(emulator, line) in &layout.link_needs.emulators {
        if let Err(reason) = machine.check_emulator(emulator) {
            let message = format!("links can't be emulated here: {reason}");
            reader.report(DiagnosticKind::Machine, line, message);
        }
    }
    for (owner, core, line) in &layout.link_needs.relay_cores {
        check_cores(owner, &[*core], *line, machine, reader);
    }
}
