//! Findings that qualify the results of a run.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, Negotiated, Outcome, Severity};

use super::clock_recheck::ClockRecheck;
use super::collector::{ReceivedPart, ResultCollector};
use super::loss::LossReason;
use super::schedule::RequestQuota;
use super::server_contact::Outage;
use super::{schedule, start_times, summary};
use crate::names::{AgentName, RunId};
use crate::wire::{EndReason, RunManifest};

/// Returns all findings: first those about incomplete parts, then those about doubtful results,
/// then the agents' own.
pub(super) fn all(
    manifest: &RunManifest,
    collector: &ResultCollector,
    in_flight: BTreeMap<AgentName, u64>,
    after: &ClockRecheck,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(without_coordinator(collector));
    for (name, part) in &collector.parts {
        findings.extend(agent_lost(
            (&manifest.run, name),
            part,
            collector,
            in_flight.get(name).copied(),
        ));
    }
    findings.extend(partial(manifest, collector));
    findings.extend(start_times::late(manifest, collector));
    findings.extend(after.findings(manifest));
    findings.extend(negotiation_differs(collector));
    let reported = collector.parts.iter().filter_map(|(name, part)| {
        let end = part.end.as_ref()?;
        Some((name.as_str(), end.findings.as_slice()))
    });
    findings.extend(summary::findings(reported, collector.parts.len()));
    findings
}

/// Returns the finding about agents whose leases expired.
fn without_coordinator(collector: &ResultCollector) -> Option<Finding> {
    let is_so = |part: &ReceivedPart| {
        let because = part.end.as_ref().map(|end| end.reason);
        part.lost.is_none() && because == Some(EndReason::LeaseEnded)
    };
    let parts = collector.parts.iter().filter(|(_, part)| is_so(part));
    let names: Vec<&str> = parts.map(|(name, _)| name.as_str()).collect();
    let names = match names.len() {
        0 => return None,
        all if all == collector.parts.len() && all > 1 => format!("All {all} agents"),
        1 => format!("Agent {}", names[0]),
        _ => format!("Agents {}", names.join(", ")),
    };
    Some(Finding::new(
        FindingId::AgentLost,
        Severity::Error,
        format!(
            "{names} lost contact with the coordinator for the length of the lease and stopped generating load. Results until then are counted.{}",
            collector.outage.as_ref().map_or(String::new(), outage)
        ),
    ))
}

/// Describes an outage of the server, and names the option that lets agents continue through it.
fn outage(outage: &Outage) -> String {
    format!(
        " The NATS server {} was unreachable for {:.1} s, and the lease is {} s. With a longer lease (--lease), agents continue through such an outage.",
        outage.server,
        outage.lasted.as_secs_f64(),
        outage.lease.as_secs_f64()
    )
}

fn agent_lost(
    (run, name): (&RunId, &AgentName),
    part: &ReceivedPart,
    collector: &ResultCollector,
    in_flight: Option<u64>,
) -> Option<Finding> {
    let why = part.lost.filter(|why| *why != LossReason::LeftBehind)?;
    let until = collector.ledger.agent(name.as_str()).and_then(|it| it.span);
    let until = match until {
        Some((_, end)) => format!("Its results up to {:.1} s are counted", end.as_secs_f64()),
        None => "None of its results have arrived".to_owned(),
    };
    let missing = match collector.ledger.missing(name.as_str()) {
        0 => String::new(),
        1 => ", except for 1 missing message".to_owned(),
        n => format!(", except for {n} missing messages"),
    };
    let unfinished = match in_flight.unwrap_or(0) {
        0 => String::new(),
        n => format!("; {n} requests in flight at that time count as unfinished"),
    };
    let away = match (part.lost, &collector.outage) {
        (Some(LossReason::ServerAway), Some(known)) => outage(known),
        _ => String::new(),
    };
    let keeps = match part.lost {
        Some(
            LossReason::Restarted
            | LossReason::Silent
            | LossReason::Missing
            | LossReason::ServerAway,
        ) => {
            format!(
                " It may have more results on disk; when it is back, fetch them with `prony fleet collect {run}`."
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

fn partial(manifest: &RunManifest, collector: &ResultCollector) -> Option<Finding> {
    let run = &manifest.run;
    let quota = RequestQuota::of(manifest);
    let parts = collector.parts.iter();
    let lacking: Vec<String> = parts
        .filter_map(|(name, part)| {
            let why = shortcoming(manifest, collector, &quota, (name, part))?;
            Some(format!("{name} {why}"))
        })
        .collect();
    let refused: u64 = collector.parts.values().map(|part| part.refused).sum();
    if lacking.is_empty() && refused == 0 {
        return None;
    }
    let mut text = format!(
        "{} of {} agents did not complete their parts",
        lacking.len(),
        collector.parts.len()
    );
    if !lacking.is_empty() {
        text += &format!(": {}", summary::shorten(&lacking, usize::MAX));
    }
    if refused > 0 {
        text += &format!("; {refused} messages could not be counted");
    }
    let is_left = |part: &ReceivedPart| part.lost == Some(LossReason::LeftBehind);
    if collector.parts.values().any(is_left) {
        text += &format!(
            ". The load was ended without waiting for them; `prony fleet collect {run}` fetches the rest. The figures cover only the results that had arrived."
        );
        return Some(Finding::new(FindingId::Partial, Severity::Error, text));
    }
    text += ". The load was lighter than requested, and the figures cover only what was measured.";
    Some(Finding::new(FindingId::Partial, Severity::Error, text))
}

/// Returns the reason why an agent did not complete its share of the load as ordered, as the
/// predicate of a sentence.
fn shortcoming(
    manifest: &RunManifest,
    collector: &ResultCollector,
    quota: &RequestQuota,
    (name, part): (&AgentName, &ReceivedPart),
) -> Option<String> {
    if let Some(lost) = part.lost {
        return Some(lost.to_string());
    }
    let Some(end) = &part.end else {
        return Some("sent no final message".to_owned());
    };
    match end.reason {
        EndReason::LeaseEnded => {
            return Some("stopped when it lost contact with the coordinator".to_owned());
        }
        EndReason::Failed => return Some("failed".to_owned()),
        EndReason::AgentEnded => return Some("was stopped on its own machine".to_owned()),
        EndReason::Stopped if !collector.is_stopped => {
            return Some("stopped without a request from the coordinator".to_owned());
        }
        EndReason::Stopped | EndReason::Done => {}
    }
    if !collector.agrees(name) {
        return Some("sent inconsistent counts".to_owned());
    }
    if end.reason == EndReason::Stopped {
        return None;
    }
    let counted = collector.ledger.agent(name.as_str())?;
    if let Some(planned) = schedule::time_limit(manifest)
        && end.span.1 < planned.0 - planned.0 / 20
    {
        return Some(format!(
            "ended after {:.1} s of {:.1} s",
            end.span.1 as f64 / 1e9,
            planned.as_secs_f64()
        ));
    }
    let quota = manifest.parts.get(name).and_then(|it| quota.part(it.shard));
    let begun = counted.started.saturating_sub(counted.unmeasured);
    let due = begun.saturating_add(counted.outcomes.get(Outcome::Unstarted));
    match quota {
        Some(quota) if due < quota => Some(format!(
            "accounted for {due} of the {quota} requests in its share"
        )),
        None if counted.started == 0 => Some("reported no requests".to_owned()),
        _ => None,
    }
}

/// Returns the finding about agents that negotiated different protocol parameters.
fn negotiation_differs(collector: &ResultCollector) -> Option<Finding> {
    let mut seen: Vec<(&Negotiated, &AgentName)> = Vec::new();
    for (name, part) in &collector.parts {
        let Some(end) = part.end.as_ref() else {
            continue;
        };
        let negotiated = &end.negotiated;
        // Key-exchange groups are not compared, because a resumed session has none.
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
            "Agents negotiated different protocol parameters with the server ({}), so their requests differ in cost. Fix the parameters with --http, --tls-min, --tls-max or --ciphers.",
            each.join("; ")
        ),
    ))
}
