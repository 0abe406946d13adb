//! What qualifies a run's figures.

use std::collections::BTreeMap;

use prony_record::{Finding, Negotiated, Severity};

use super::afterwards::Afterwards;
use super::gathering::{Gathering, Lost, Part};
use super::{starts, sums};
use crate::messages::{Because, Manifest};
use crate::names::{AgentName, RunId};

/// What is not whole, what is doubtful, then what agents say.
pub(super) fn all(
    manifest: &Manifest,
    gathering: &Gathering,
    under_way: BTreeMap<AgentName, u64>,
    after: &Afterwards,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(without_coordinator(gathering));
    for (name, part) in &gathering.parts {
        findings.extend(agent_lost(
            (&manifest.run, name),
            part,
            gathering,
            under_way.get(name).copied(),
        ));
    }
    findings.extend(partial(&manifest.run, gathering));
    findings.extend(starts::late(manifest, gathering));
    findings.extend(after.findings(manifest));
    findings.extend(negotiation_differs(gathering));
    let told = gathering.parts.iter().filter_map(|(name, part)| {
        let end = part.end.as_ref()?;
        Some((name.as_str(), end.findings.as_slice()))
    });
    findings.extend(sums::findings(told, gathering.parts.len()));
    findings
}

/// Who ended its part because nobody renewed its lease.
fn without_coordinator(gathering: &Gathering) -> Option<Finding> {
    let is_so = |part: &Part| {
        let because = part.end.as_ref().map(|end| end.because);
        part.lost.is_none() && because == Some(Because::LeaseEnded)
    };
    let parts = gathering.parts.iter().filter(|(_, part)| is_so(part));
    let names: Vec<&str> = parts.map(|(name, _)| name.as_str()).collect();
    let names = match names.len() {
        0 => return None,
        all if all == gathering.parts.len() && all > 1 => format!("All {all} agents"),
        1 => format!("Agent {}", names[0]),
        _ => format!("Agents {}", names.join(", ")),
    };
    Some(Finding::new(
        "agent-lost",
        Severity::Error,
        format!(
            "{names} heard nothing of the coordinator for as long as the lease and stopped the load; \
             what was measured until then is counted."
        ),
    ))
}

fn agent_lost(
    (run, name): (&RunId, &AgentName),
    part: &Part,
    gathering: &Gathering,
    under_way: Option<u64>,
) -> Option<Finding> {
    let why = part.lost.filter(|why| *why != Lost::LeftBehind)?;
    let until = gathering.ledger.agent(name.as_str()).and_then(|it| it.span);
    let until = match until {
        Some((_, end)) => format!(
            "What it measured until {:.1} s is counted",
            end.as_secs_f64()
        ),
        None => "Nothing that it measured has come".to_owned(),
    };
    let missing = match gathering.ledger.missing(name.as_str()) {
        0 => String::new(),
        1 => ", but for 1 message that is missing in between".to_owned(),
        n => format!(", but for {n} messages that are missing in between"),
    };
    let unfinished = match under_way.unwrap_or(0) {
        0 => String::new(),
        n => format!("; {n} requests under way then count as unfinished, without a time"),
    };
    let keeps = match part.lost {
        Some(Lost::Restarted | Lost::Silent | Lost::Missing | Lost::ServerAway) => {
            format!(
                " Its own file may hold more: `prony fleet collect {run}` brings that in when it is back."
            )
        }
        _ => String::new(),
    };
    Some(Finding::new(
        "agent-lost",
        Severity::Error,
        format!("Agent {name} {why}. {until}{missing}{unfinished}.{keeps}"),
    ))
}

fn partial(run: &RunId, gathering: &Gathering) -> Option<Finding> {
    let is_part = |part: &Part, name: &AgentName| {
        let because = part.end.as_ref().map(|end| end.because);
        part.lost.is_some()
            || !gathering.agrees(name)
            || matches!(because, Some(Because::LeaseEnded | Because::Failed))
    };
    let parts = gathering.parts.iter();
    let lacking: Vec<&str> = parts
        .filter(|(name, part)| is_part(part, name))
        .map(|(name, _)| name.as_str())
        .collect();
    let refused: u64 = gathering.parts.values().map(|part| part.refused).sum();
    if lacking.is_empty() && refused == 0 {
        return None;
    }
    let mut text = format!(
        "The parts of {} of {} agents are not whole",
        lacking.len(),
        gathering.parts.len()
    );
    if !lacking.is_empty() {
        text += &format!(" ({})", lacking.join(", "));
    }
    if refused > 0 {
        text += &format!("; {refused} messages could not be counted");
    }
    let is_left = |part: &Part| part.lost == Some(Lost::LeftBehind);
    if gathering.parts.values().any(is_left) {
        text += &format!(
            ". The load was ended without waiting for them: `prony fleet collect {run}` brings in the \
             rest, and until then the figures are of what was there."
        );
        return Some(Finding::new("partial", Severity::Error, text));
    }
    text += ". The load was lighter than asked for, and the figures are of what was measured.";
    Some(Finding::new("partial", Severity::Error, text))
}

/// What one agent agreed on with the server and another did not.
fn negotiation_differs(gathering: &Gathering) -> Option<Finding> {
    let mut seen: Vec<(&Negotiated, &AgentName)> = Vec::new();
    for (name, part) in &gathering.parts {
        let Some(end) = part.end.as_ref() else {
            continue;
        };
        let negotiated = &end.negotiated;
        // A resumed session tells no group; it is not another agreement.
        let alike = |other: &Negotiated| {
            (&other.http, &other.tls, &other.cipher, &other.alpn)
                == (
                    &negotiated.http,
                    &negotiated.tls,
                    &negotiated.cipher,
                    &negotiated.alpn,
                )
        };
        if *negotiated != Negotiated::default() && !seen.iter().any(|(other, _)| alike(other)) {
            seen.push((negotiated, name));
        }
    }
    if seen.len() < 2 {
        return None;
    }
    let each = seen.iter().map(|(negotiated, name)| {
        let parts = [&negotiated.http, &negotiated.tls, &negotiated.cipher];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        format!("{name}: {}", parts.join(" "))
    });
    let each: Vec<String> = each.collect();
    Some(Finding::new(
        "negotiation-differs",
        Severity::Warning,
        format!(
            "Not all agents agreed on the same with the server ({}): their requests did not cost the \
             same. Name what is to be spoken with --http, --tls-min, --tls-max or --ciphers.",
            each.join("; ")
        ),
    ))
}
