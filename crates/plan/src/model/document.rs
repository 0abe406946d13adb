//! Converts the tree of a plan to a [`Plan`], without rendering its variants.

use std::path::Path;
use std::sync::Arc;

use super::factors::{self, PlanFactor};
use super::folder::PlanFolder;

use super::{CertificateCache, Plan, baseline, bodies, hosts, sections, trials, variants};
use crate::diagnostic::{DiagnosticKind, Diagnostics};
use crate::machine::PlanMachine;
use crate::reference::PlanTable;
use crate::syntax::{PlanReader, TomlNode, TomlTable};

/// Maximum length of a plan's name in bytes.
const NAME_BYTES_MAX: usize = 100;

/// Reads everything that is common to all variants. Parts that are missing or can't be read are
/// empty, so that the other parts are checked, too.
pub(crate) fn read_plan(
    text: &str,
    table: &TomlTable,
    origin: &Path,
    machine: Arc<dyn PlanMachine>,
    diagnostics: &mut Diagnostics,
) -> Plan {
    let mut reader = PlanReader {
        file: origin,
        diagnostics,
    };
    reader.report_unknown_keys(table, "a plan", &PlanTable::TopLevel.names());
    let all_factors = read_all_factors(table, machine.cores().len(), &mut reader);
    let (constants, factors) = factors::split_constants(all_factors);
    let listed = table.get("variants");
    let factors_line = table.line_of(if listed.is_some() {
        "variants"
    } else {
        "factors"
    });
    if factors.is_empty()
        && let Some(constant) = constants.first()
    {
        factors::report_single_level(constant.line, &constant.name, &mut reader);
    }
    let variants = variants::read_variants(listed, &factors, factors_line, &mut reader);
    let chosen = table
        .get("baseline")
        .map(|node| baseline::chosen_baseline(node, &constants));
    let baseline = baseline::read_baseline(chosen.as_ref(), &factors, &variants, &mut reader);
    let trial_settings = trials::read_trials(table.get("trials"), &mut reader);
    let margin = trials::read_margin(table.get("margin"), &mut reader);
    let services = sections::read_services(table, &factors, &constants, &mut reader);
    let places = sections::read_networks("place", table, &mut reader);
    let links = sections::read_networks("link", table, &mut reader);
    let hosts = hosts::read_hosts(table, &mut reader);
    let load = match table.get("load") {
        Some(node) => reader.table(node, "load"),
        None => {
            let hint = "add [load] with a target";
            reader.report_with_hint(DiagnosticKind::MissingKey, 0, "the plan has no load", hint);
            None
        }
    };
    let telemetry = table.get("telemetry");
    let telemetry = telemetry.and_then(|node| reader.table(node, "telemetry").cloned());
    let bodies = load.map(|load| bodies::read_bodies(load, &mut reader));
    let trial_table = table.get("trials").and_then(TomlNode::as_table);
    let trial_keys = trial_table.map(|trials| trials.keys().map(str::to_owned).collect());
    let interleave = trial_table.and_then(|trials| trials.get("interleave"));
    Plan {
        name: read_name(table, origin, &mut reader),
        question: table
            .get("question")
            .and_then(|node| reader.text(node, "question"))
            .unwrap_or_default(),
        baseline: baseline.unwrap_or_default(),
        margin,
        metrics: Vec::new(),
        goals: Vec::new(),
        trials: trial_settings,
        bodies: bodies.unwrap_or_default(),
        factors,
        variants,
        notes: Vec::new(),
        origin: origin.to_path_buf(),
        text: text.to_owned(),
        folder: read_folder(table, origin, &mut reader),
        machine,
        constants,
        certificates: CertificateCache::default(),
        services,
        places,
        links,
        hosts,
        load: load.cloned().unwrap_or_default(),
        telemetry,
        interleave_line: interleave.map_or(0, |node| node.line),
        trial_keys: trial_keys.unwrap_or_default(),
        frozen_files: Vec::new(),
    }
}

/// Reads the factors. Returns none if `factors` is not a table.
fn read_all_factors(
    plan: &TomlTable,
    cores: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<PlanFactor> {
    let Some(node) = plan.get("factors") else {
        report_no_factors(0, reader);
        return Vec::new();
    };
    let Some(table) = reader.table(node, "factors") else {
        return Vec::new();
    };
    if table.entries.is_empty() {
        report_no_factors(node.line, reader);
    }
    let baseline = plan.get("baseline").map(baseline::merged_baselines);
    factors::read_factors(table, baseline.as_ref(), cores, reader)
}

fn report_no_factors(line: usize, reader: &mut PlanReader<'_>) {
    let hint = "add [factors] with something to compare: socket = [\"tcp\", \"unix\"]";
    reader.report_with_hint(
        DiagnosticKind::MissingKey,
        line,
        "the plan has no factors",
        hint,
    );
}

/// Reads `name`, which is also the name of the experiment's folder. The default is the name of the
/// plan's file.
fn read_name(table: &TomlTable, origin: &Path, reader: &mut PlanReader<'_>) -> String {
    let node = table.get("name");
    let name = node.and_then(|node| Some((reader.text(node, "name")?, node.line)));
    let Some((name, line)) = name else {
        let stem = origin.file_stem().map(|stem| stem.to_string_lossy());
        return match stem {
            Some(stem) if !stem.is_empty() => stem.into_owned(),
            _ => "plan".to_owned(),
        };
    };
    let is_usable = !name.trim().is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains('/')
        && !name.chars().any(char::is_control);
    if !is_usable {
        let message = "name can't be used as a folder name";
        let hint =
            format!("use 1 to {NAME_BYTES_MAX} bytes on one line, with no / and no leading dot");
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
    }
    name
}

/// Reads the folder against which relative paths are resolved. It is the folder that contains the
/// plan or, for the copy in an experiment's folder, the folder of the original plan.
fn read_folder(table: &TomlTable, origin: &Path, reader: &mut PlanReader<'_>) -> PlanFolder {
    let parent = origin
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let own = std::path::absolute(parent).unwrap_or_else(|_| parent.to_path_buf());
    let mut path = |key: &str| {
        let text = table.get(key).and_then(|node| reader.text(node, key))?;
        Some(own.join(text))
    };
    let (folder, includes) = (path("folder"), path("includes"));
    PlanFolder {
        base: folder.unwrap_or_else(|| own.clone()),
        includes,
    }
}
