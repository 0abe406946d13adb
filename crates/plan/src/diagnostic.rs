//! Errors in a plan, each with file, line, cause and hint.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use prony_record::truncated;
use serde::{Deserialize, Serialize};

/// Maximum number of problems that one check reports. The remaining problems are only counted.
const DIAGNOSTICS_MAX: usize = 50;

/// Maximum number of characters of a printed message or hint.
const MESSAGE_CHARS_MAX: usize = 1000;

/// Similarity, from 0 to 1, above which a known word is suggested in place of an unknown one.
const SUGGESTION_SIMILARITY: f64 = 0.8;

/// Kind of problem that a [`PlanError`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosticKind {
    /// The plan, or a file that it names, can't be read.
    File,
    /// The text is not valid TOML, or a template has a syntax error.
    Syntax,
    /// The plan has a key that does not exist.
    UnknownKey,
    /// A required key is missing.
    MissingKey,
    /// A value has a type that its key doesn't accept.
    WrongType,
    /// A value has the right type but is out of range or malformed.
    BadValue,
    /// A template uses a name that is not defined.
    Undefined,
    /// Each part of the plan is valid, but together they don't form an experiment.
    Structure,
    /// The plan is valid, but a program that it starts is not installed.
    NotInstalled,
    /// The plan is valid, but this machine lacks a core, a folder or a privilege that the plan
    /// needs.
    Machine,
}

/// One problem: its location, cause and hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// Kind of problem.
    pub kind: DiagnosticKind,
    /// File that contains the problem, as named by the user.
    pub file: PathBuf,
    /// Line number in that file, from 1; `None` if the problem is not on a specific line.
    pub line: Option<usize>,
    /// The problem, as a clause without a period.
    pub message: String,
    /// Hint for fixing the problem, if one is known.
    pub hint: Option<String>,
    /// IDs of the variants that have the problem; empty if all of them do.
    pub variants: Vec<String>,
}

impl PlanError {
    /// Creates an error without a hint. Line 0 means no specific line.
    pub(crate) fn new(
        kind: DiagnosticKind,
        file: &Path,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            file: file.to_path_buf(),
            line: (line > 0).then_some(line),
            message: message.into(),
            hint: None,
            variants: Vec::new(),
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates an error for an unexpected state: a step failed without reporting a reason.
    pub(crate) fn unexplained(file: &Path, message: &str) -> Self {
        Self::new(DiagnosticKind::Structure, file, 0, message)
    }

    fn is_same_problem(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.file == other.file
            && self.line == other.line
            && self.message == other.message
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", truncated(&self.message, MESSAGE_CHARS_MAX))?;
        match self.variants.as_slice() {
            [] => {}
            [one] => write!(f, ", in variant {one}")?,
            [first, rest @ ..] => {
                write!(f, ", in variant {first} and {} more", rest.len())?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({})", truncated(hint, MESSAGE_CHARS_MAX))?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

/// All problems found in a plan, ordered by file and line. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanErrors {
    reported: Vec<PlanError>,
    /// Number of problems beyond [`DIAGNOSTICS_MAX`], which are counted but not listed.
    omitted: usize,
    missing_packages: BTreeSet<&'static str>,
}

impl PlanErrors {
    /// Debian packages that contain the programs that are not installed, in alphabetical order.
    pub fn missing_packages(&self) -> impl Iterator<Item = &'static str> {
        self.missing_packages.iter().copied()
    }

    /// Iterates over the reported problems in order.
    pub fn iter(&self) -> impl Iterator<Item = &PlanError> {
        self.reported.iter()
    }

    /// Returns the first problem.
    pub fn first(&self) -> &PlanError {
        &self.reported[0]
    }
}

impl From<PlanError> for PlanErrors {
    fn from(error: PlanError) -> Self {
        Self {
            reported: vec![error],
            omitted: 0,
            missing_packages: BTreeSet::new(),
        }
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.reported.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

/// Collects the problems of a plan; all of them are reported together.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    reported: Vec<PlanError>,
    omitted: usize,
    count: usize,
    missing_packages: BTreeSet<&'static str>,
}

impl Diagnostics {
    /// Adds a problem, unless an identical one was added before.
    pub(crate) fn push(&mut self, error: PlanError) {
        self.count += 1;
        if self
            .reported
            .iter()
            .any(|known| known.is_same_problem(&error))
        {
            return;
        }
        if self.reported.len() < DIAGNOSTICS_MAX {
            self.reported.push(error);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds the package of a program that is not installed.
    pub(crate) fn add_missing_package(&mut self, package: &'static str) {
        self.missing_packages.insert(package);
    }

    /// Returns the number of calls to [`Diagnostics::push`], including duplicates. Callers compare
    /// the counts before and after a step to check if the step reported a problem.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds the problems of one variant. A problem that several variants share is reported once.
    pub(crate) fn add_variant(&mut self, variant: &str, found: Self) {
        for mut error in found.reported {
            let known = self
                .reported
                .iter_mut()
                .find(|known| known.is_same_problem(&error));
            if let Some(known) = known {
                known.variants.push(variant.to_owned());
            } else {
                error.variants.push(variant.to_owned());
                self.push(error);
            }
        }
        self.omitted = self.omitted.max(found.omitted);
        self.missing_packages.extend(found.missing_packages);
    }

    /// Clears the variant list of each problem that occurs in all `variant_count` variants.
    pub(crate) fn clear_common_variants(&mut self, variant_count: usize) {
        for error in &mut self.reported {
            if error.variants.len() >= variant_count {
                error.variants.clear();
            }
        }
    }

    pub(crate) fn into_result(mut self) -> Result<(), PlanErrors> {
        if self.reported.is_empty() {
            return Ok(());
        }
        self.reported
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Err(PlanErrors {
            reported: self.reported,
            omitted: self.omitted,
            missing_packages: self.missing_packages,
        })
    }
}

/// Returns a hint that suggests the known word most similar to `text`, or lists all known words if
/// none is similar.
pub(crate) fn did_you_mean_or_list<'a>(
    text: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    list: &str,
) -> String {
    did_you_mean(text, known.clone()).unwrap_or_else(|| {
        let known: Vec<&str> = known.into_iter().collect();
        format!("{list}: {}", known.join(", "))
    })
}

/// Returns the hint `did you mean "…"?` with the known word most similar to `text`; `None` if no
/// known word is similar enough.
pub(crate) fn did_you_mean<'a>(
    text: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(similarity, _)| *similarity > SUGGESTION_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!("did you mean \"{name}\"?"))
}
