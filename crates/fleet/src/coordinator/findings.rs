//! What qualifies a run's figures.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, Negotiated, Outcome, Severity};

use super::afterwards::Afterwards;
use super::gathering::{Gathering, Lost, Part};
use super::schedule::Quota;
use super::server_contact::Outage;
use super::{schedule, starts, sums};
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
    findings.extend(partial(manifest, gathering));
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

/// Agents that ended their parts because nobody renewed their leases.
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
        FindingId::AgentLost,
        Severity::Error,
        format!(
            "{names} heard nothing of the coordinator for as long as the lease and stopped the load; \
             what was measured until then is counted.{}",
            gathering.outage.as_ref().map_or(String::new(), outage)
        ),
    ))
}

/// The server's outage, and the option with which agents load on through one.
fn outage(outage: &Outage) -> String {
    format!(
        " The NATS server {} was away for {:.1} s, and the lease is {} s; a longer one (--lease) lets \
         agents load on.",
        outage.server,
        outage.lasted.as_secs_f64(),
        outage.lease.as_secs_f64()
    )
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
    let away = match (part.lost, &gathering.outage) {
        (Some(Lost::ServerAway), Some(known)) => outage(known),
        _ => String::new(),
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
        FindingId::AgentLost,
        Severity::Error,
        format!("Agent {name} {why}. {until}{missing}{unfinished}.{away}{keeps}"),
    ))
}

fn partial(manifest: &Manifest, gathering: &Gathering) -> Option<Finding> {
    let run = &manifest.run;
    let quota = Quota::of(manifest);
    let parts = gathering.parts.iter();
    let lacking: Vec<String> = parts
        .filter_map(|(name, part)| {
            let why = shortcoming(manifest, gathering, &quota, (name, part))?;
            Some(format!("{name} {why}"))
        })
        .collect();
    let refused: u64 = gathering.parts.values().map(|part| part.refused).sum();
    if lacking.is_empty() && refused == 0 {
        return None;
    }
    let mut text = format!(
        "{} of {} agents did not complete its part",
        lacking.len(),
        gathering.parts.len()
    );
    if !lacking.is_empty() {
        text += &format!(": {}", sums::shorten(&lacking, usize::MAX));
    }
    if refused > 0 {
        text += &format!("; {refused} messages could not be counted");
    }
    let is_left = |part: &Part| part.lost == Some(Lost::LeftBehind);
    if gathering.parts.values().any(is_left) {
        text += &format!(
            ". The load was ended without waiting for them; `prony fleet collect {run}` fetches the \
             rest. Until then the figures cover only what had arrived."
        );
        return Some(Finding::new(FindingId::Partial, Severity::Error, text));
    }
    text += ". The load was lighter than asked for, and the figures cover only what was measured.";
    Some(Finding::new(FindingId::Partial, Severity::Error, text))
}

/// Why an agent's part is not what the order asked for, as the predicate of a sentence.
fn shortcoming(
    manifest: &Manifest,
    gathering: &Gathering,
    quota: &Quota,
    (name, part): (&AgentName, &Part),
) -> Option<String> {
    if let Some(lost) = part.lost {
        return Some(lost.to_string());
    }
    let Some(end) = &part.end else {
        return Some("sent no end of its part".to_owned());
    };
    match end.because {
        Because::LeaseEnded => {
            return Some("stopped when it lost contact with the coordinator".to_owned());
        }
        Because::Failed => return Some("failed".to_owned()),
        Because::AgentEnded => return Some("was told to exit on its own machine".to_owned()),
        Because::Stopped if !gathering.is_stopped => {
            return Some("stopped although no coordinator told it to".to_owned());
        }
        Because::Stopped | Because::Done => {}
    }
    if !gathering.agrees(name) {
        return Some("sent counts that contradict each other".to_owned());
    }
    if end.because == Because::Stopped {
        return None;
    }
    let counted = gathering.ledger.agent(name.as_str())?;
    if let Some(planned) = schedule::time_limit(manifest)
        && end.span.1 < planned.0 - planned.0 / 20
    {
        return Some(format!(
            "ended after {:.1} s of {:.1} s",
            end.span.1 as f64 / 1e9,
            planned.as_secs_f64()
        ));
    }
    let quota = manifest
        .parts
        .get(name)
        .and_then(|it| quota.part(it.stretch));
    let begun = counted.started.saturating_sub(counted.unmeasured);
    let due = begun.saturating_add(counted.outcomes.get(Outcome::Unstarted));
    match quota {
        Some(quota) if due < quota => Some(format!(
            "accounted for {due} of the {quota} requests of its part"
        )),
        None if counted.started == 0 => Some("reported no request".to_owned()),
        _ => None,
    }
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
        FindingId::NegotiationDiffers,
        Severity::Warning,
        format!(
            "Not all agents agreed on the same with the server ({}): their requests did not cost the \
             same. Name what is to be spoken with --http, --tls-min, --tls-max or --ciphers.",
            each.join("; ")
        ),
    ))
}
