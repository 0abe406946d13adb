//! Findings that qualify the results of a run.

use std::collections::BTreeMap;

use prony_record::finding::{
    AgentLoss, AgentLost, IncompletePart, LossReason, LostPart, NegotiatedBy, NegotiatingSides,
    NegotiationDiffers, Partial, Shortcoming, Subject,
};
use prony_record::{Finding, Negotiated, Outcome, Severity};

use super::clock_recheck::ClockRecheck;
use super::collector::{ReceivedPart, ResultCollector};
use super::schedule::RequestQuota;
use super::server_contact::Outage;
use super::{schedule, start_times, summary};
use crate::names::{AgentName, RunId};
use crate::wire::{EndReason, RunManifest};

/// Returns all findings: first those about incomplete parts, then those about doubtful results,
/// then the agents' own.
pub(super) fn all_findings(
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
    let agents: Vec<String> = parts.map(|(name, _)| name.to_string()).collect();
    let lost = AgentLost {
        loss: AgentLoss::LeaseExpired {
            of: collector.parts.len() as u64,
            agents: agents.clone(),
        },
        outage: collector.outage.as_ref().map(Outage::figures),
    };
    (!agents.is_empty()).then(|| Finding::of(Severity::Error, &lost))
}

fn agent_lost(
    (run, name): (&RunId, &AgentName),
    part: &ReceivedPart,
    collector: &ResultCollector,
    in_flight: Option<u64>,
) -> Option<Finding> {
    let reason = part.lost.filter(|why| *why != LossReason::LeftBehind)?;
    let span = collector.ledger.agent(name.as_str()).and_then(|it| it.span);
    let outage = collector.outage.as_ref();
    let lost = AgentLost {
        loss: AgentLoss::Incomplete(LostPart {
            reason,
            run: run.to_string(),
            until_s: span.map(|(_, end)| end.as_secs_f64()),
            missing_messages: collector.ledger.missing(name.as_str()),
            in_flight: in_flight.unwrap_or(0),
        }),
        outage: outage
            .filter(|_| reason == LossReason::ServerAway)
            .map(Outage::figures),
    };
    let subject = Subject::Agent(name.to_string());
    Some(Finding::about(subject, Severity::Error, &lost))
}

fn partial(manifest: &RunManifest, collector: &ResultCollector) -> Option<Finding> {
    let quota = RequestQuota::of(manifest);
    let parts = collector.parts.iter();
    let incomplete = parts.filter_map(|(name, part)| {
        Some(IncompletePart {
            agent: name.to_string(),
            shortcoming: shortcoming(manifest, collector, &quota, (name, part))?,
        })
    });
    let partial = Partial {
        run: manifest.run.to_string(),
        incomplete: incomplete.collect(),
        agents: collector.parts.len() as u64,
        uncounted_messages: collector.parts.values().map(|part| part.refused).sum(),
    };
    let is_partial = !partial.incomplete.is_empty() || partial.uncounted_messages > 0;
    is_partial.then(|| Finding::of(Severity::Error, &partial))
}

/// Returns the reason why an agent did not complete its share of the load as ordered.
fn shortcoming(
    manifest: &RunManifest,
    collector: &ResultCollector,
    quota: &RequestQuota,
    (name, part): (&AgentName, &ReceivedPart),
) -> Option<Shortcoming> {
    if let Some(lost) = part.lost {
        return Some(Shortcoming::Lost(lost));
    }
    let Some(end) = &part.end else {
        return Some(Shortcoming::Lost(LossReason::NoEnd));
    };
    match end.reason {
        EndReason::LeaseEnded => return Some(Shortcoming::LeaseExpired),
        EndReason::Failed => return Some(Shortcoming::Failed),
        EndReason::AgentEnded => return Some(Shortcoming::Stopped),
        EndReason::Stopped if !collector.is_stopped => return Some(Shortcoming::StoppedUnasked),
        EndReason::Stopped | EndReason::Done => {}
    }
    if !collector.agrees(name) {
        return Some(Shortcoming::Inconsistent);
    }
    if end.reason == EndReason::Stopped {
        return None;
    }
    let counted = collector.ledger.agent(name.as_str())?;
    if let Some(planned) = schedule::time_limit(manifest)
        && end.span.1 < planned.0 - planned.0 / 20
    {
        return Some(Shortcoming::EndedEarly {
            after_s: end.span.1 as f64 / 1e9,
            planned_s: planned.as_secs_f64(),
        });
    }
    let quota = manifest.parts.get(name).and_then(|it| quota.part(it.shard));
    let begun = counted.started.saturating_sub(counted.unmeasured);
    let due = begun.saturating_add(counted.outcomes.get(Outcome::Unstarted));
    match quota {
        Some(share) if due < share => Some(Shortcoming::FewRequests {
            accounted: due,
            share,
        }),
        None if counted.started == 0 => Some(Shortcoming::NoRequests),
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
    let negotiated = seen.iter().map(|(negotiated, name)| NegotiatedBy {
        name: name.to_string(),
        negotiated: Negotiated::clone(negotiated),
    });
    let differs = NegotiationDiffers {
        sides: NegotiatingSides::Agents,
        negotiated: negotiated.collect(),
    };
    (seen.len() > 1).then(|| Finding::of(Severity::Warning, &differs))
}
