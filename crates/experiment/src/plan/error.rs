//! What is wrong with a plan, said so that its author can mend it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What kind of mistake a [`PlanError`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The plan, or a file that it names, can't be read.
    File,
    /// The text is no TOML, or a template no template.
    Syntax,
    /// A key that plans don't have.
    UnknownKey,
    /// A key that must be there and isn't.
    MissingKey,
    /// A value of another type than its key takes.
    WrongType,
    /// A value of the right type that its key can't take.
    BadValue,
    /// A template names something that isn't there.
    Undefined,
    /// Each part is right and together they make no experiment.
    Structure,
    /// The plan is right, and a program that it starts isn't installed here.
    NotInstalled,
    /// The plan is right, and this machine can't run it: a core, a folder, a privilege is missing.
    Machine,
}

/// One mistake: where it is, what it is, and what would mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// What kind of mistake it is.
    pub fault: Fault,
    /// The file it is in, as the user named it.
    pub file: PathBuf,
    /// The line in that file, from 1, where there is one to name.
    pub line: Option<usize>,
    /// What is wrong, as a clause without a full stop.
    pub what: String,
    /// What would mend it, where that is known.
    pub mend: Option<String>,
    /// The variants in which it shows; empty where it shows in all of them.
    pub variants: Vec<String>,
}

impl PlanError {
    pub(crate) fn new(fault: Fault, file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self {
            fault,
            file: file.to_path_buf(),
            line: (line > 0).then_some(line),
            what: what.into(),
            mend: None,
            variants: Vec::new(),
        }
    }

    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    fn same_mistake(&self, other: &Self) -> bool {
        self.fault == other.fault
            && self.file == other.file
            && self.line == other.line
            && self.what == other.what
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)?;
        match self.variants.as_slice() {
            [] => {}
            [one] => write!(f, ", in variant {one}")?,
            [first, rest @ ..] => {
                write!(f, ", in variant {first} and {} more", rest.len())?;
            }
        }
        if let Some(mend) = &self.mend {
            write!(f, " ({mend})")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

/// The most mistakes that are told; whoever mends so many will have the others told next time.
const MOST_TOLD: usize = 50;

/// Everything found wrong with a plan, in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanErrors {
    told: Vec<PlanError>,
    untold: usize,
}

impl PlanErrors {
    /// The mistakes, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &PlanError> {
        self.told.iter()
    }

    /// The first of them.
    pub fn first(&self) -> &PlanError {
        &self.told[0]
    }
}

impl From<PlanError> for PlanErrors {
    fn from(error: PlanError) -> Self {
        Self {
            told: vec![error],
            untold: 0,
        }
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.told.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        if self.untold > 0 {
            write!(f, "\nand {} more", self.untold)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

/// Collects mistakes while the plan is read, so that all are told at once.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    told: Vec<PlanError>,
    untold: usize,
    made: usize,
}

impl Mistakes {
    pub(crate) fn push(&mut self, error: PlanError) {
        self.made += 1;
        if self.told.iter().any(|known| known.same_mistake(&error)) {
            return;
        }
        if self.told.len() < MOST_TOLD {
            self.told.push(error);
        } else {
            self.untold += 1;
        }
    }

    /// How many were made, those included that were the same as others: whether this number has
    /// grown tells whether something was refused in between.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// Adds what was found in one variant; what other variants showed too is told once.
    pub(crate) fn add_variant(&mut self, variant: &str, found: Self) {
        for mut error in found.told {
            let known = self
                .told
                .iter_mut()
                .find(|known| known.same_mistake(&error));
            if let Some(known) = known {
                known.variants.push(variant.to_owned());
            } else {
                error.variants.push(variant.to_owned());
                self.push(error);
            }
        }
        self.untold = self.untold.max(found.untold);
    }

    /// Forgets the variants of mistakes that show in all `total` of them.
    pub(crate) fn forget_common(&mut self, total: usize) {
        for error in &mut self.told {
            if error.variants.len() >= total {
                error.variants.clear();
            }
        }
    }

    pub(crate) fn into_result(mut self) -> Result<(), PlanErrors> {
        if self.told.is_empty() {
            return Ok(());
        }
        self.told
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Err(PlanErrors {
            told: self.told,
            untold: self.untold,
        })
    }
}

/// `did you mean "…"?` for the nearest of `known`, if one is near enough to be meant.
pub(crate) fn did_you_mean<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .filter(|(near, _)| *near > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!("did you mean \"{name}\"?"))
}
