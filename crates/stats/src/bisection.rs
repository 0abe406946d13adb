//! Search for the first commit that is slower than an earlier one.
//!
//! The commits are numbered from 1, oldest first; the good end, which all are compared with, is 0.
//! The first comparison checks the last commit. Its effect sets the margin of the others: half of
//! it, so a commit is either significantly slower or equivalent. The comparisons share the error
//! rate equally, because each of them could lead to the wrong commit.

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::design::BLOCKS_MAX;

/// Error rate of the whole search.
const ERROR_RATE: f64 = 0.05;

/// Number of blocks after which a comparison ends undecided.
pub const BISECTION_BLOCKS_MAX: u32 = 100;

/// Limits on the margin of a comparison.
const MARGIN_RANGE: std::ops::RangeInclusive<f64> = 0.001..=0.5;

/// Conclusion about one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitVerdict {
    /// It is slower than the good end.
    Slower,
    /// It is not slower than the good end.
    NotSlower,
    /// It could not be judged.
    Skipped,
}

/// What a search does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectionStep {
    /// Compare this commit with the good end.
    Compare(usize),
    /// The first slower commit is one of these: from the first to the last, inclusive. There are
    /// several if all others could not be judged.
    Found {
        /// First candidate.
        first: usize,
        /// Last candidate, which is slower.
        last: usize,
    },
    /// The last commit is not slower than the good end.
    NotReproduced,
    /// The last commit could not be judged.
    EndSkipped,
}

/// Value of `schema` in new documents.
pub const BISECTION_SCHEMA: &str = "prony.bisection/1";

/// The state and the result of a search (`bisection.json`). Readers ignore unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectionDocument {
    /// Always [`BISECTION_SCHEMA`].
    pub schema: String,
    /// The good end.
    pub good: BisectedCommit,
    /// The commits after it, oldest first. The last one is the bad end.
    pub commits: Vec<BisectedCommit>,
    /// Shell command that builds a commit.
    pub build: String,
    /// Shell command that starts the server.
    pub start: String,
    /// Margin of the comparisons after the first.
    pub margin: Option<f64>,
    /// The comparisons, in the order in which they ran.
    pub steps: Vec<BisectionRecord>,
    /// The result in words; empty until the search ends.
    pub text: String,
}

/// A commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectedCommit {
    /// Its hash.
    pub hash: String,
    /// First line of its message.
    pub subject: String,
}

/// The comparison of a commit with the good end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectionRecord {
    /// Number of the commit, from 1.
    pub commit: usize,
    /// Verdict on the commit.
    pub verdict: CommitVerdict,
    /// Folder of the experiment, next to the document; `None` if there was none.
    pub folder: Option<String>,
    /// Number of complete blocks.
    pub blocks: u32,
    /// The verdict in words.
    pub text: String,
}

/// Returns the next step of a search over `commits` commits. `judged` contains the verdicts so far.
pub fn next_step(commits: usize, judged: &[(usize, CommitVerdict)]) -> BisectionStep {
    let verdict_of = |commit: usize| {
        let mut judged = judged.iter();
        judged.find(|it| it.0 == commit).map(|it| it.1)
    };
    match verdict_of(commits) {
        None => return BisectionStep::Compare(commits),
        Some(CommitVerdict::NotSlower) => return BisectionStep::NotReproduced,
        Some(CommitVerdict::Skipped) => return BisectionStep::EndSkipped,
        Some(CommitVerdict::Slower) => {}
    }
    let with = |verdict| {
        judged
            .iter()
            .filter(move |it| it.1 == verdict)
            .map(|it| it.0)
    };
    let last = with(CommitVerdict::Slower).min().unwrap_or(commits);
    let good = with(CommitVerdict::NotSlower).max().unwrap_or(0);
    // The commit nearest to the middle that was not skipped.
    let middle = usize::midpoint(good, last);
    let open = (good + 1..last).filter(|commit| verdict_of(*commit).is_none());
    match open.min_by_key(|commit| commit.abs_diff(middle)) {
        Some(commit) => BisectionStep::Compare(commit),
        None => BisectionStep::Found {
            first: good + 1,
            last,
        },
    }
}

/// Returns the largest number of comparisons of a search over `commits` commits, if none is
/// skipped.
pub fn comparisons_max(commits: usize) -> u32 {
    1 + commits.max(1).next_power_of_two().ilog2()
}

/// Returns the error rate of each comparison.
pub fn comparison_alpha(commits: usize) -> f64 {
    ERROR_RATE / f64::from(comparisons_max(commits))
}

/// Returns the margin of the comparisons that follow the first: half of the largest effect that
/// the first established. `None` if it established none.
pub fn comparison_margin(first: &[Comparison]) -> Option<f64> {
    let slower = first.iter().filter(|it| it.verdict == Verdict::Slower);
    let effects = slower.filter_map(|it| {
        let effect = match (it.effect.ratio, it.effect.difference) {
            (Some(ratio), _) => ratio.ln(),
            (None, difference) => difference?,
        };
        Some(effect.abs() / 2.0)
    });
    let largest = effects.max_by(f64::total_cmp)?;
    Some(largest.clamp(*MARGIN_RANGE.start(), *MARGIN_RANGE.end()))
}

/// Returns the verdict on a commit from its comparisons with the good end.
pub fn commit_verdict(comparisons: &[Comparison]) -> CommitVerdict {
    let has = |verdict| comparisons.iter().any(|it| it.verdict == verdict);
    if has(Verdict::Slower) {
        CommitVerdict::Slower
    } else if comparisons.is_empty() || has(Verdict::Undecided) || has(Verdict::Withheld) {
        CommitVerdict::Skipped
    } else {
        CommitVerdict::NotSlower
    }
}

const _: () = assert!(BISECTION_BLOCKS_MAX <= BLOCKS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search in which commits from `slow` on are slower, and `skipped` can't be judged.
    fn search(commits: usize, slow: usize, skipped: &[usize]) -> (BisectionStep, usize) {
        let mut judged = Vec::new();
        loop {
            match next_step(commits, &judged) {
                BisectionStep::Compare(commit) => {
                    assert!(judged.iter().all(|it: &(usize, _)| it.0 != commit));
                    let verdict = if skipped.contains(&commit) {
                        CommitVerdict::Skipped
                    } else if commit >= slow {
                        CommitVerdict::Slower
                    } else {
                        CommitVerdict::NotSlower
                    };
                    judged.push((commit, verdict));
                }
                end => return (end, judged.len()),
            }
        }
    }

    #[test]
    fn every_commit_is_found_with_few_comparisons() {
        for commits in [1, 2, 3, 63, 64, 100] {
            for slow in 1..=commits {
                let (end, comparisons) = search(commits, slow, &[]);
                let found = BisectionStep::Found {
                    first: slow,
                    last: slow,
                };
                assert_eq!(end, found);
                assert!(comparisons <= comparisons_max(commits) as usize);
            }
        }
        assert_eq!(comparisons_max(64), 7);
        assert_eq!(search(5, 6, &[]).0, BisectionStep::NotReproduced);
        assert_eq!(search(5, 3, &[5]).0, BisectionStep::EndSkipped);
    }

    #[test]
    fn skipped_commits_are_avoided_or_remain_candidates() {
        let found = |first, last| BisectionStep::Found { first, last };
        assert_eq!(search(8, 6, &[4]).0, found(6, 6));
        assert_eq!(search(8, 6, &[5, 6]).0, found(5, 7));
        assert_eq!(search(8, 8, &[1, 2, 3, 4, 5, 6, 7]).0, found(1, 8));
    }
}
