//! What `prony doctor` saw, as its JSON holds it, in the order in which people read it.

use serde::Deserialize;

/// A document of the format `prony.doctor/1`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Doctor {
    /// Servers, then the machine.
    pub subjects: Vec<Subject>,
}

/// A server, or the machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Subject {
    /// What to call it.
    pub name: String,
    /// What was seen.
    pub lines: Vec<Line>,
    /// What could not be found out.
    pub unknown: Vec<Unknown>,
}

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// It can limit a load.
    Warning,
    /// It does.
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// Its stable name.
    pub id: String,
    /// How grave it is.
    pub level: Level,
    /// What was seen.
    pub seen: String,
    /// What would be well.
    pub expected: String,
    /// Why it matters.
    pub why: String,
    /// How to change it.
    pub change: String,
    /// Where that is written.
    pub source: String,
}

/// Something that could not be found out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Unknown {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Doctor {
    /// Reads the JSON.
    ///
    /// # Errors
    /// It isn't such a document.
    pub fn read(json: &str) -> Result<Doctor, serde_json::Error> {
        serde_json::from_str(json)
    }
}

impl Subject {
    /// The lines to show, the gravest first, in their own order within a level; those that are fine
    /// only if `all` are wanted.
    pub(crate) fn shown(&self, all: bool) -> Vec<&Line> {
        let wanted = |line: &&Line| all || line.level > Level::Ok;
        let mut shown: Vec<&Line> = self.lines.iter().filter(wanted).collect();
        shown.sort_by_key(|line| std::cmp::Reverse(line.level));
        shown
    }

    /// How many things are fine.
    pub(crate) fn fine(&self) -> usize {
        let fine = self.lines.iter().filter(|line| line.level == Level::Ok);
        fine.count()
    }
}
