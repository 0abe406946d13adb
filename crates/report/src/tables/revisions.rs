//! The table of the revisions that an experiment built.

use prony_stats::{BuiltRevision, VerdictDocument};

use crate::number;
use crate::table::Table;

/// Digits of a commit that are shown.
const COMMIT_DIGITS: usize = 12;

/// The revisions, each with its commit, subject and changes; `None` if nothing was built.
pub(crate) fn revisions_table(verdict: &VerdictDocument) -> Option<Table> {
    let mut shown: Vec<&BuiltRevision> = Vec::new();
    for one in &verdict.revisions {
        let is_same = |it: &&BuiltRevision| {
            (&it.service, &it.revision, &it.command) == (&one.service, &one.revision, &one.command)
        };
        if !shown.iter().any(is_same) {
            shown.push(one);
        }
    }
    if shown.is_empty() {
        return None;
    }
    let has_several = shown.iter().any(|it| it.service != shown[0].service);
    let mut table = Table::of(shown);
    if has_several {
        table = table.left("service", |it| it.service.as_str());
    }
    let table = table
        .left("revision", |it| it.revision.as_str())
        .left("commit", |it| {
            it.commit
                .get(..COMMIT_DIGITS)
                .unwrap_or(&it.commit)
                .to_owned()
        })
        .left("subject", |it| it.subject.as_str())
        .left("files", changes_text);
    Some(table.build())
}

/// Describes how the files differed from the commit.
fn changes_text(revision: &BuiltRevision) -> String {
    match revision.worktree {
        None => "as committed".to_owned(),
        Some(changes) if !changes.is_dirty() => "working tree, as committed".to_owned(),
        Some(changes) => {
            let files = number::plural(changes.changed as u64, "changed file", "changed files");
            format!("working tree, {files}, {} untracked", changes.untracked)
        }
    }
}
