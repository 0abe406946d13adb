//! A plan file in, checked set-ups out.
//!
//! Reading goes in three steps: TOML to a tree that knows its lines ([`node`]), the parts that are
//! the same for every variant ([`factors`], [`trials`]), then every variant rendered with made-up
//! endpoints ([`survey`]), so that what is wrong shows before anything starts. The runner later
//! renders a variant again with the endpoints that the host picked ([`Plan::resolve`]).

mod certificate;
mod error;
mod factors;
mod files;
mod folder;
mod freeze;
mod hosts;
mod load;
mod machine;
mod node;
mod ranges;
mod reader;
pub mod reference;
mod services;
mod shape;
mod survey;
mod telemetry;
mod template;
#[cfg(test)]
mod tests;
mod topology;
mod trials;
mod units;
mod variant;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prony_stats::Metric;

use crate::place::topology::Topology;
use crate::service::{Allocated, Allocation};
use certificate::Certificates;
use error::Mistakes;
use folder::Folder;
use node::{Table, Value};
use reader::Reader;
use shape::Section;

pub use error::{Fault, PlanError, PlanErrors};
pub use factors::{Factor, Level, Levels, MOST_VARIANTS, Variant};
pub use freeze::forget_secrets;
pub use hosts::{About, Objection, Wanted};
pub use load::{BodyComparison, LoadOption, Model, ResolvedLoad, Scheme};
pub use machine::Machine;
pub use services::{Ready, ResolvedService};
pub use telemetry::Telemetry;
pub use trials::{Trials, metric_to_judge};

/// The plan that `prony init` writes.
pub const STARTER: &str = include_str!("starter.toml");

/// The keys of a plan.
const KEYS: &[&str] = &[
    "name",
    "question",
    "notes",
    "baseline",
    "margin",
    "metrics",
    "trials",
    "factors",
    "variants",
    "service",
    "place",
    "link",
    "load",
    "telemetry",
    "folder",
    "includes",
];

/// The most services of one plan.
const MOST_SERVICES: usize = 64;

/// The largest plan that is read, in bytes.
const LARGEST_PLAN: u64 = 1 << 20;

/// A plan that has been checked: what is compared, how, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name; the file's own where it gives none.
    pub name: String,
    /// The question that it answers, in the author's words; may be empty.
    pub question: String,
    /// The levels that every comparison is with; it may leave factors open, and comparisons then
    /// run within each of their cells.
    pub baseline: Levels,
    /// A share: within it two variants count as equivalent.
    pub margin: f64,
    /// What the verdict is about, at least one.
    pub metrics: Vec<Metric>,
    /// How often and how long.
    pub trials: Trials,
    /// How the variants' response bodies have to agree.
    pub bodies: BodyComparison,
    /// What is varied.
    pub factors: Vec<Factor>,
    /// The set-ups, at least two, in the order in which results show them.
    pub variants: Vec<Variant>,
    /// What should be known before it runs and no mistake is made of: what the plan itself says,
    /// variants that are the same set-up, cores that load and servers share.
    pub notes: Vec<String>,
    origin: PathBuf,
    text: String,
    folder: Folder,
    machine: Machine,
    /// Factors of one level, which templates know and results don't.
    constants: Vec<Factor>,
    certificates: Certificates,
    services: Vec<Section>,
    places: Vec<Section>,
    links: Vec<Section>,
    load: Table,
    telemetry: Option<Table>,
    trial_keys: Vec<String>,
    frozen: Vec<freeze::FrozenFile>,
    /// The lines, from 1, that the frozen copy replaces.
    replaced_lines: Vec<usize>,
}

/// One variant with its endpoints in place.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The named places, and the links between them.
    pub topology: Topology,
    /// The services in the order in which they start.
    pub services: Vec<ResolvedService>,
    /// The load.
    pub load: ResolvedLoad,
    /// How the machines are watched.
    pub telemetry: Telemetry,
}

impl Plan {
    /// Reads a plan and checks it whole, this machine's programs and cores included.
    ///
    /// # Errors
    /// Everything that is wrong, each with file and line.
    pub fn read(path: &Path) -> Result<Self, PlanErrors> {
        let text = freeze::with_secrets(read_text(path)?, path)?;
        let plan = Self::from_str(&text, path, Machine::this())?;
        plan.check_machine()?;
        Ok(plan)
    }

    /// Reads a plan's text as if it stood in the file `origin`, whose folder its relative paths
    /// start from. The files that it names are read; programs, folders and cores are left to
    /// [`Plan::check_machine`].
    ///
    /// # Errors
    /// Everything that is wrong, each with file and line.
    pub fn from_str(text: &str, origin: &Path, machine: Machine) -> Result<Self, PlanErrors> {
        let mut mistakes = Mistakes::default();
        let plan = node::parse(text, origin, &mut mistakes).and_then(|table| {
            let mut plan = read_plan(text, &table, origin, machine, &mut mistakes)?;
            survey::survey(&mut plan, table.get("metrics"), &mut mistakes);
            let own = survey::own_notes(&plan, table.get("notes"), &mut mistakes);
            plan.notes.splice(0..0, own);
            Some(plan)
        });
        mistakes.into_result()?;
        plan.ok_or_else(|| {
            // Every way to `None` leaves a mistake behind; this one is for a slip in that.
            PlanError::new(Fault::Structure, origin, 0, "this plan can't be understood").into()
        })
    }

    /// Looks for what the plan needs of this machine: programs, folders, cores, places.
    ///
    /// # Errors
    /// Everything that is missing, each with how to get it.
    pub fn check_machine(&self) -> Result<(), PlanErrors> {
        let mut mistakes = Mistakes::default();
        survey::on_machine(self, &mut mistakes);
        mistakes.into_result()
    }

    /// The file that the plan was read from, as it was named.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// The variant that `variant` is compared with, which is itself for a baseline. Variants with
    /// the same answer must return the same bytes.
    ///
    /// # Panics
    /// If there are not that many variants.
    pub fn baseline_of(&self, variant: usize) -> usize {
        // A plan in which a variant has no baseline is refused when it is read.
        factors::baseline_of(
            &self.baseline,
            &self.variants,
            &self.variants[variant].levels,
        )
        .unwrap_or(variant)
    }

    /// The variant's levels with their factors: `socket = unix, cores = 2`.
    ///
    /// # Panics
    /// If there are not that many variants.
    pub fn variant_name(&self, variant: usize) -> String {
        let levels = self.variants[variant].levels.iter();
        let levels: Vec<String> = levels
            .map(|(factor, level)| format!("{factor} = {level}"))
            .collect();
        levels.join(", ")
    }

    /// What the host has to make before the services of a variant can be rendered, in the order in
    /// which they start. Remote services are not among them.
    ///
    /// # Errors
    /// The plan was checked when it was read, so that only a template that behaves differently now
    /// is left.
    ///
    /// # Panics
    /// If there are not that many variants.
    pub fn allocations(&self, variant: usize) -> Result<Vec<Allocation>, PlanError> {
        let layout = variant::layout_again(self, &self.variants[variant])?;
        let shapes = layout.shapes.iter();
        let own = shapes.filter(|shape| shape.remote.is_none());
        Ok(own.map(shape::Shape::allocation).collect())
    }

    /// The named places of a variant and the links between them, which the host has to make together
    /// with what [`Plan::allocations`] names.
    ///
    /// # Errors
    /// As [`Plan::allocations`].
    ///
    /// # Panics
    /// If there are not that many variants.
    pub fn topology(&self, variant: usize) -> Result<Topology, PlanError> {
        Ok(variant::layout_again(self, &self.variants[variant])?.topology)
    }

    /// Renders a variant with what the host allocated for it.
    ///
    /// # Errors
    /// A remote server's name that can't be resolved, a file that changed since the plan was read,
    /// a service without its allocation.
    ///
    /// # Panics
    /// If there are not that many variants.
    pub fn resolve(
        &self,
        variant: usize,
        allocated: &BTreeMap<String, Allocated>,
    ) -> Result<Resolved, PlanError> {
        variant::resolve(self, &self.variants[variant], allocated)
    }
}

fn read_text(path: &Path) -> Result<String, PlanErrors> {
    let refuse = |what: String| PlanError::new(Fault::File, path, 0, what);
    let metadata = std::fs::metadata(path).map_err(|error| {
        let error = refuse(format!("this plan {}", folder::plain_words(&error)));
        error.mend("prony init writes one to start from")
    })?;
    if !metadata.is_file() {
        let inside = path.join("plan.toml");
        let error = refuse("this is no plan file".to_owned());
        return Err(match inside.is_file() {
            true => error.mend(format!("did you mean {}?", inside.display())),
            false => error,
        }
        .into());
    }
    if metadata.len() > LARGEST_PLAN {
        return Err(refuse(format!(
            "this plan is larger than {} KiB",
            LARGEST_PLAN >> 10
        ))
        .into());
    }
    let bytes = std::fs::read(path)
        .map_err(|error| refuse(format!("this plan {}", folder::plain_words(&error))))?;
    let text =
        String::from_utf8(bytes).map_err(|_| refuse("this plan is no text in UTF-8".to_owned()))?;
    Ok(text)
}

/// Reads what is the same for every variant; `None` where the rest can't be told.
fn read_plan(
    text: &str,
    table: &Table,
    origin: &Path,
    machine: Machine,
    mistakes: &mut Mistakes,
) -> Option<Plan> {
    let mut reader = Reader {
        file: origin,
        mistakes,
    };
    reader.known_keys(table, "a plan", KEYS);
    let all_factors = read_all_factors(table, machine.cores.len(), &mut reader)?;
    let (constants, factors) = factors::without_constants(all_factors);
    let listed = table.get("variants");
    let factors_line = table.line_of(if listed.is_some() {
        "variants"
    } else {
        "factors"
    });
    let variants = factors::read_variants(listed, &factors, factors_line, &mut reader);
    let baseline = table.get("baseline");
    let baseline = baseline.map(|node| factors::chosen_baseline(node, &constants));
    let baseline = factors::read_baseline(baseline.as_ref(), &factors, &variants, &mut reader);
    let trials = trials::read_trials(table.get("trials"), &mut reader);
    let margin = trials::read_margin(table.get("margin"), &mut reader);
    let services = read_services(table, &factors, &constants, &mut reader);
    let places = topology::sections("place", table, &mut reader);
    let links = topology::sections("link", table, &mut reader);
    let load = table.get("load");
    if load.is_none() {
        let mend = "add [load] with a target";
        reader.refuse_with(Fault::MissingKey, 0, "this plan has no load", mend);
    }
    let telemetry = table.get("telemetry");
    let telemetry = telemetry.and_then(|node| reader.table(node, "telemetry"));
    let telemetry = telemetry.cloned();
    let bodies = subtable(table, "load");
    let bodies = bodies.map(|load| load::read_bodies(load, &mut reader));
    let trial_keys = subtable(table, "trials")
        .map(|trials| trials.keys().map(str::to_owned).collect())
        .unwrap_or_default();
    Some(Plan {
        name: read_name(table, origin, &mut reader),
        question: table
            .get("question")
            .and_then(|node| reader.text(node, "question"))
            .unwrap_or_default(),
        baseline: baseline.unwrap_or_default(),
        margin,
        metrics: Vec::new(),
        trials,
        bodies: bodies.unwrap_or_default(),
        factors,
        variants,
        notes: Vec::new(),
        origin: origin.to_path_buf(),
        text: text.to_owned(),
        folder: read_folder(table, origin, &mut reader),
        machine,
        constants,
        certificates: Certificates::default(),
        services,
        places,
        links,
        load: load.and_then(|node| reader.table(node, "load")).cloned()?,
        telemetry,
        trial_keys,
        frozen: Vec::new(),
        replaced_lines: ["folder", "includes"]
            .into_iter()
            .filter(|key| table.get(key).is_some())
            .map(|key| table.line_of(key))
            .collect(),
    })
}

/// The factors; `None` where `factors` is no table.
fn read_all_factors(table: &Table, cores: usize, reader: &mut Reader<'_>) -> Option<Vec<Factor>> {
    let Some(node) = table.get("factors") else {
        no_factors(0, reader);
        return Some(Vec::new());
    };
    let of_factors = reader.table(node, "factors")?;
    if of_factors.entries.is_empty() {
        no_factors(node.line, reader);
    }
    let baseline = table.get("baseline").map(factors::merged_baselines);
    let baseline = baseline.as_ref();
    Some(factors::read_factors(of_factors, baseline, cores, reader))
}

/// The table under `key`, if there is one.
fn subtable<'a>(table: &'a Table, key: &str) -> Option<&'a Table> {
    match &table.get(key)?.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

fn no_factors(line: usize, reader: &mut Reader<'_>) {
    let mend = "add [factors] with something to compare: socket = [\"tcp\", \"unix\"]";
    reader.refuse_with(Fault::MissingKey, line, "this plan has no factors", mend);
}

/// The plan's name: a line that a folder can be called after.
fn read_name(table: &Table, origin: &Path, reader: &mut Reader<'_>) -> String {
    let stem = || match origin
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
    {
        Some(stem) if !stem.is_empty() => stem,
        _ => "plan".to_owned(),
    };
    let Some(node) = table.get("name") else {
        return stem();
    };
    let Some(name) = reader.text(node, "name") else {
        return stem();
    };
    let fine = !name.trim().is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && !name.contains('/')
        && !name.chars().any(char::is_control);
    if !fine {
        let what = "name can't name a folder";
        let mend = "1 to 100 bytes on one line without /, and no point at its start";
        reader.refuse_with(Fault::BadValue, node.line, what, mend);
    }
    name
}

fn read_services(
    table: &Table,
    factors: &[Factor],
    constants: &[Factor],
    reader: &mut Reader<'_>,
) -> Vec<Section> {
    let Some(node) = table.get("service") else {
        let mend = "add [service.NAME] with a command, or with remote = \"host:port\"";
        reader.refuse_with(Fault::MissingKey, 0, "this plan has no service", mend);
        return Vec::new();
    };
    let Some(of_services) = reader.table(node, "service") else {
        return Vec::new();
    };
    if of_services.entries.len() > MOST_SERVICES {
        let what = format!("this plan has more than {MOST_SERVICES} services");
        reader.refuse(Fault::Structure, node.line, what);
        return Vec::new();
    }
    let mut services = Vec::new();
    for entry in &of_services.entries {
        if !factors::usable_name("service", &entry.key, entry.line, reader) {
            continue;
        }
        let mut factors = factors.iter().chain(constants);
        if factors.any(|factor| factor.name == entry.key) {
            let what = format!("\"{}\" is a factor and a service", entry.key);
            let mend = "templates could not tell them apart; rename one";
            reader.refuse_with(Fault::Structure, entry.line, what, mend);
            continue;
        }
        let owner = format!("service \"{}\"", entry.key);
        let Some(of_service) = reader.table(&entry.node, &owner) else {
            continue;
        };
        services.push(Section {
            name: entry.key.clone(),
            line: entry.line,
            table: of_service.clone(),
        });
    }
    services
}

/// Where relative paths start: the plan's folder, or what an experiment's own copy of it says.
fn read_folder(table: &Table, origin: &Path, reader: &mut Reader<'_>) -> Folder {
    let beside = origin.parent().unwrap_or_else(|| Path::new(""));
    let beside = std::path::absolute(if beside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        beside
    })
    .unwrap_or_else(|_| beside.to_path_buf());
    let mut path = |key: &str| {
        let text = table.get(key).and_then(|node| reader.text(node, key))?;
        Some(beside.join(text))
    };
    let (folder, includes) = (path("folder"), path("includes"));
    Folder {
        base: folder.unwrap_or_else(|| beside.clone()),
        includes,
    }
}
