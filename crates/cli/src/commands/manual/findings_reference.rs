//! The registry of findings as Markdown, for docs/findings.md, and `prony man findings` as a manual page.

use prony_record::{
    FindingId, FindingInfo, FindingScope, Severity, TrialFolding, WithheldVerdicts,
};

const INTRODUCTION: &str = "\
A finding qualifies a result: it states what was observed, what it means, and what to do. \
Findings of a load are stored in its record, those of an experiment in `verdict.json`.

| severity | meaning |
|---|---|
| note | good to know |
| warning | read the result with care |
| error | withholds the verdicts that it may have distorted, and no others |
";

/// Returns an introduction, an index, and one section for each finding.
pub(crate) fn markdown() -> String {
    let mut text = format!("{INTRODUCTION}\n{}\n", folding());
    text.push_str("| finding | severity | withholds verdicts on |\n|---|---|---|\n");
    for id in FindingId::ALL {
        let severities: Vec<&str> = severities(id.info()).collect();
        text.push_str(&format!(
            "| [`{id}`](#{id}) | {} | {} |\n",
            severities.join(", "),
            withheld(id.info().withholds)
        ));
    }
    for scope in FindingScope::ALL {
        text.push_str(&format!("\n## {}\n", scope_title(scope)));
        let of_scope = FindingId::ALL.iter().filter(|id| id.info().scope == scope);
        for id in of_scope {
            text.push_str(&section(*id));
        }
    }
    text
}

fn scope_title(scope: FindingScope) -> &'static str {
    match scope {
        FindingScope::Load => "Findings of a load",
        FindingScope::FleetLoad => "Findings of a load by several agents",
        FindingScope::Trial => "Findings of a trial",
        FindingScope::Experiment => "Findings of an experiment",
    }
}

/// Returns a paragraph that explains how the findings of trials are combined into findings of the
/// experiment.
fn folding() -> String {
    let worst: Vec<String> = FindingId::ALL
        .iter()
        .filter(|id| id.info().folding == TrialFolding::Worst)
        .map(|id| format!("`{id}`"))
        .collect();
    format!(
        "In an experiment, a finding about one variant's loads is reported once, with the severity \
         that it has in at least half of the variant's trials. A finding in fewer trials is at \
         most a warning. These findings have the severity of the worst trial instead: {}.\n",
        worst.join(", ")
    )
}

fn severities(info: &FindingInfo) -> impl Iterator<Item = &'static str> {
    info.severities.iter().map(|(severity, _)| severity.name())
}

fn withheld(withholds: WithheldVerdicts) -> &'static str {
    match withholds {
        WithheldVerdicts::Nothing => "",
        WithheldVerdicts::Speed => "rate and response times",
        WithheldVerdicts::SpeedUnlessFaster => {
            "rate and response times, unless only the faster variant is affected"
        }
        WithheldVerdicts::AllButFailures => "everything except the share of failed requests",
        WithheldVerdicts::All => "everything",
        WithheldVerdicts::Selected => {
            "rate and response times, where noise may have caused the \
            difference"
        }
    }
}

fn section(id: FindingId) -> String {
    let info = id.info();
    let mut text = format!("\n### `{id}`\n\n{}\n", info.seen);
    match info.severities {
        [(severity, _)] => text.push_str(&format!("\nSeverity: {}.\n", severity.name())),
        several => {
            text.push_str("\nSeverity:\n\n");
            for (severity, when) in several {
                text.push_str(&format!("- {}: {when}\n", severity.name()));
            }
        }
    }
    text.push_str(&format!("\nMeaning: {}\n", info.meaning));
    text.push_str(&format!("\nWhat to do: {}\n", info.action));
    if info.can_have(Severity::Error) {
        let withheld = withheld(info.withholds);
        text.push_str(&format!("\nAn error withholds verdicts on {withheld}.\n"));
    }
    if info.incomplete_load {
        text.push_str(&format!(
            "\nThe finding makes `prony load` exit with status 1. It can be used as a condition: \
                `--fail-if {id}`.\n"
        ));
    }
    for former in id.former_ids() {
        text.push_str(&format!(
            "\nEarlier versions called the finding `{former}`.\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn workspace() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn every_finding_has_a_heading_in_the_documentation() {
        let page = fs::read_to_string(workspace().join("docs/findings.md")).unwrap();
        for id in FindingId::ALL {
            let heading = format!("### `{id}`");
            assert!(page.lines().any(|line| line == heading), "{heading}");
            let index = format!("[`{id}`](#{id})");
            assert!(page.contains(&index), "{index}");
        }
    }
}
