//! Revisions of Git repositories that an experiment built.

use serde::{Deserialize, Serialize};

/// A revision that was built for a service of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltRevision {
    /// Name of the variant.
    pub variant: String,
    /// Name of the service.
    pub service: String,
    /// The revision as written in the plan, such as a branch.
    pub revision: String,
    /// Commit of the revision; for the working tree, the commit that is checked out.
    pub commit: String,
    /// First line of the commit's message.
    pub subject: String,
    /// Shell command that built the revision.
    pub command: String,
    /// Changes since the commit, if the working tree was built as it was; `None` for a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeChanges>,
}

/// Changes of a working tree since its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeChanges {
    /// Number of tracked files that differ from the commit.
    pub changed: usize,
    /// Number of untracked files and folders that are not ignored.
    pub untracked: usize,
}

impl WorktreeChanges {
    /// Returns true if anything differs from the commit.
    pub fn is_dirty(&self) -> bool {
        self.changed + self.untracked > 0
    }
}
