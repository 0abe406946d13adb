//! Changes of a plan between the start of an experiment and its resumption.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use prony_plan::Plan;
use prony_record::finding::{AcceptedChange, PlanChanged};
use prony_record::{Finding, Severity, read_stored};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum number of changes that are listed.
const CHANGES_MAX: usize = 8;
/// Maximum length of a quoted line in characters.
const LINE_CHARS_MAX: usize = 80;

/// A plan as it ran: the text of plan.toml, and a digest of each file that the plan names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanCopy {
    text: String,
    files: BTreeMap<String, String>,
}

impl PlanCopy {
    /// Reads the current plan of an experiment's folder.
    ///
    /// # Errors
    /// plan.toml can't be read, or a file that it names exists but can't be read.
    pub(crate) fn read(plan: &Plan, dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for name in plan.frozen_names() {
            let digest = match fs::read(dir.join(&name)) {
                Ok(bytes) => format!("{:x}", Sha256::digest(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "missing".to_owned(),
                Err(error) => return Err(error),
            };
            files.insert(name.display().to_string(), digest);
        }
        Ok(Self {
            text: read_stored(&dir.join("plan.toml"))?,
            files,
        })
    }

    /// Returns the differences between this plan and `now`, each as one phrase. Comments and blank
    /// lines are ignored.
    pub(crate) fn changes(&self, now: &PlanCopy) -> Vec<String> {
        let mut changes = lines_changed(&self.text, &now.text);
        let names: BTreeSet<&String> = self.files.keys().chain(now.files.keys()).collect();
        for name in names {
            match (self.files.get(name), now.files.get(name)) {
                (Some(one), Some(other)) if one != other => {
                    changes.push(format!("{name} has different contents"));
                }
                // If a file was added or removed, a line of the plan has changed too.
                _ => {}
            }
        }
        if changes.len() > CHANGES_MAX {
            let more = changes.len() - CHANGES_MAX;
            changes.truncate(CHANGES_MAX);
            changes.push(format!("{more} more"));
        }
        changes
    }
}

/// Returns the `plan-changed` finding for an experiment that was resumed with a changed plan.
pub(crate) fn finding(accepted: &[AcceptedChange]) -> Option<Finding> {
    let changed = PlanChanged {
        accepted: accepted.to_vec(),
    };
    (!accepted.is_empty()).then(|| Finding::of(Severity::Warning, &changed))
}

/// A nonblank line with its line number.
type NumberedLine<'a> = (usize, &'a str);

fn meaningful(text: &str) -> Vec<NumberedLine<'_>> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| (index + 1, line)).collect()
}

/// Returns the differences between two texts. A removed line and an added line at the same position
/// are reported as one change.
fn lines_changed(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (meaningful(before), meaningful(after));
    let mut changes = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (kept_old, kept_new) in kept(&before, &after) {
        pair(&before[old..kept_old], &after[new..kept_new], &mut changes);
        (old, new) = (kept_old + 1, kept_new + 1);
    }
    pair(&before[old..], &after[new..], &mut changes);
    changes
}

fn pair(before: &[NumberedLine<'_>], after: &[NumberedLine<'_>], changes: &mut Vec<String>) {
    for index in 0..before.len().max(after.len()) {
        changes.push(match (before.get(index), after.get(index)) {
            (Some((_, old)), Some((number, new))) => {
                format!("line {number}: `{}`, was `{}`", shown(new), shown(old))
            }
            (None, Some((number, new))) => format!("line {number}: `{}` is new", shown(new)),
            (Some((_, old)), None) => format!("`{}` was removed", shown(old)),
            (None, None) => continue,
        });
    }
}

fn shown(line: &str) -> String {
    let mut chars = line.chars();
    let shown: String = chars.by_ref().take(LINE_CHARS_MAX).collect();
    match chars.next() {
        Some(_) => format!("{shown}…"),
        None => shown,
    }
}

/// Returns the index pairs of a longest common subsequence, in ascending order. If the inputs are
/// larger than any real plan, only a common prefix and suffix are found.
fn kept(before: &[NumberedLine<'_>], after: &[NumberedLine<'_>]) -> Vec<(usize, usize)> {
    const CELLS_MAX: usize = 4_000_000;
    let same = |i: usize, j: usize| before[i].1 == after[j].1;
    let shorter = before.len().min(after.len());
    let head = (0..shorter).take_while(|&i| same(i, i)).count();
    let from_end = |i: usize| (before.len() - 1 - i, after.len() - 1 - i);
    let tail = (0..shorter - head)
        .take_while(|&i| same(from_end(i).0, from_end(i).1))
        .count();
    let (rows, columns) = (before.len() - head - tail, after.len() - head - tail);
    let mut kept: Vec<(usize, usize)> = (0..head).map(|i| (i, i)).collect();
    if rows * columns <= CELLS_MAX {
        // For each pair of indexes, the length of the longest common subsequence from there to the
        // end.
        let mut longest = vec![vec![0_u32; columns + 1]; rows + 1];
        for i in (0..rows).rev() {
            for j in (0..columns).rev() {
                longest[i][j] = if same(head + i, head + j) {
                    longest[i + 1][j + 1] + 1
                } else {
                    longest[i + 1][j].max(longest[i][j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < rows && j < columns {
            if same(head + i, head + j) {
                kept.push((head + i, head + j));
                (i, j) = (i + 1, j + 1);
            } else if longest[i + 1][j] >= longest[i][j + 1] {
                i += 1;
            } else {
                j += 1;
            }
        }
    }
    kept.extend((0..tail).rev().map(from_end));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "name = \"x\"\n\n[trials]\nblocks = 3\nduration = \"1s\"\n[load]\nc = 1\n";

    #[test]
    fn changed_new_and_lost_lines_are_named() {
        let after = "name = \"x\"\n# A comment.\n[trials]\nblocks = 3\nduration = \"2s\"\n\
            warmup = \"1s\"\n[load]\n";
        assert_eq!(
            lines_changed(BEFORE, after),
            [
                "line 5: `duration = \"2s\"`, was `duration = \"1s\"`",
                "line 6: `warmup = \"1s\"` is new",
                "`c = 1` was removed"
            ]
        );
    }

    #[test]
    fn comments_and_blank_lines_are_no_change() {
        let after = format!("# Why.\n{}", BEFORE.replace('\n', "\n\n"));
        assert_eq!(lines_changed(BEFORE, &after), Vec::<String>::new());
        assert_eq!(lines_changed("", ""), Vec::<String>::new());
    }

    #[test]
    fn the_list_of_changes_is_limited_and_long_lines_are_cut() {
        let copy = |text: String| PlanCopy {
            text,
            files: BTreeMap::new(),
        };
        let lines = |of: &str| (0..20).map(|n| format!("k{n} = \"{of}\"\n")).collect();
        let changes = copy(lines("a")).changes(&copy(lines(&"b".repeat(500))));
        assert_eq!(changes.len(), CHANGES_MAX + 1);
        assert_eq!(changes[CHANGES_MAX], "12 more");
        assert!(changes[0].chars().count() < 3 * LINE_CHARS_MAX);
    }

    #[test]
    fn a_file_with_other_contents_is_named() {
        let copy = |digest: &str| PlanCopy {
            text: BEFORE.to_owned(),
            files: [("includes/nginx.conf".to_owned(), digest.to_owned())].into(),
        };
        assert_eq!(
            copy("aa").changes(&copy("bb")),
            ["includes/nginx.conf has different contents"]
        );
        assert_eq!(copy("aa").changes(&copy("aa")), Vec::<String>::new());
    }
}
