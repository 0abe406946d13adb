//! Sentences about searches for a slower commit.

use prony_stats::bisection::{BisectedCommit, BisectionDocument, BisectionStep, CommitVerdict};

/// Digits of a commit that are shown.
const COMMIT_DIGITS: usize = 12;

/// Returns the verdict on a commit as one word or phrase.
pub fn verdict_word(verdict: CommitVerdict) -> &'static str {
    match verdict {
        CommitVerdict::Slower => "bad",
        CommitVerdict::NotSlower => "good",
        CommitVerdict::Skipped => "skipped",
    }
}

/// Returns the result of a search that ended.
pub fn result(document: &BisectionDocument, end: BisectionStep) -> String {
    let name = |commit: &BisectedCommit| {
        let hash = commit.hash.get(..COMMIT_DIGITS).unwrap_or(&commit.hash);
        format!("{hash} \"{}\"", commit.subject)
    };
    let good = name(&document.good);
    let last = document.commits.last().map(name).unwrap_or_default();
    let text_of = |commit: usize| {
        let mut steps = document.steps.iter();
        let step = steps.find(|step| step.commit == commit);
        step.map(|step| step.text.clone()).unwrap_or_default()
    };
    match end {
        BisectionStep::Found { first, last } if first == last => {
            let commit = name(&document.commits[last - 1]);
            format!("The first bad commit is {commit}: {}", text_of(last))
        }
        BisectionStep::Found { first, last } => {
            let commits: Vec<String> = document.commits[first - 1..last].iter().map(name).collect();
            format!(
                "The first bad commit is one of these, because the others between {good} and \
                 {last} could not be judged:\n  {}",
                commits.join("\n  "),
                last = name(&document.commits[last - 1]),
            )
        }
        BisectionStep::NotReproduced => {
            format!("{last} is not worse than {good}, so there is nothing to search for")
        }
        BisectionStep::EndSkipped | BisectionStep::Compare(_) => format!(
            "{last} could not be compared with {good}: {}",
            text_of(document.commits.len())
        ),
    }
}
