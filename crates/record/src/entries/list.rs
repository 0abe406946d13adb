//! Names of the entries of a load.

use serde::{Deserialize, Serialize};

/// Entries of a load. The number of an entry is its position in `each`. All entries in `other`
/// share the next number after the last position.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryList {
    /// Property that the requests of an entry have in common.
    pub grouping: EntryGrouping,
    /// Entries that have results of their own.
    pub each: Vec<EntryInfo>,
    /// The remaining entries, which have no results of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<OtherEntries>,
}

/// Property that the requests of an entry have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryGrouping {
    /// Requests with the same method and URL.
    #[default]
    Url,
    /// Requests of the same step of a journey.
    Step,
    /// Requests with the same method and path. They may differ in the query, and in numbers and
    /// identifiers within the path.
    Path,
}

/// An entry of a load.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryInfo {
    /// Method and URL or path, such as `GET /users/{id}`.
    pub name: String,
    /// Number of list lines that belong to the entry.
    pub lines: u64,
}

/// Entries that have no results of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OtherEntries {
    /// Number of entries that have no results of their own.
    pub entries: u64,
    /// Number of list lines that belong to these entries.
    pub lines: u64,
}

impl EntryList {
    /// Returns the number of results that a recorder keeps: one for each entry in `each`, and one
    /// for all other entries together.
    pub fn results(&self) -> usize {
        self.each.len() + 1
    }
}
