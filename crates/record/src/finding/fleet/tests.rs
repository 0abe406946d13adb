use super::*;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::{Finding, FindingKind, Severity, Subject};

fn about_agent<F: FindingKind>(severity: Severity, figures: &F) -> String {
    Finding::about(Subject::Agent("a".to_owned()), severity, figures).text
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("a{n}")).collect()
}

#[test]
fn the_ways_of_losing_an_agent_are_described() {
    let lost = |loss| AgentLost { loss, outage: None };
    let part = LostPart {
        reason: LossReason::Silent,
        run: "r1".to_owned(),
        until_s: Some(2.04),
        missing_messages: 1,
        in_flight: 3,
    };
    assert_eq!(
        about_agent(Error, &lost(AgentLoss::Incomplete(part.clone()))),
        "Agent a stopped responding. Its results up to 2.0 s are counted, except for 1 missing \
         message; 3 requests in flight at that time count as unfinished. It may have more results \
         on disk; when it is back, fetch them with `prony fleet collect r1`."
    );
    let outage = ServerOutage {
        server: "nats://127.0.0.1".to_owned(),
        lasted_s: 31.26,
        lease_s: 30.0,
    };
    let away = AgentLost {
        loss: AgentLoss::Incomplete(LostPart {
            reason: LossReason::Endless,
            until_s: None,
            missing_messages: 0,
            in_flight: 0,
            ..part
        }),
        outage: Some(outage.clone()),
    };
    assert_eq!(
        about_agent(Error, &away),
        "Agent a did not finish by the planned end of the load. None of its results have arrived. \
         The NATS server nats://127.0.0.1 was unreachable for 31.3 s, and the lease is 30 s. With a \
         longer lease (--lease), agents continue through such an outage."
    );
    let expired = |agents, of| lost(AgentLoss::LeaseExpired { agents, of });
    for (agents, expected) in [(1, "Agent a0"), (2, "Agents a0, a1"), (3, "All 3 agents")] {
        let text = Finding::of(Error, &expired(names(agents), 3)).text;
        let expected = format!(
            "{expected} lost contact with the coordinator for the length of the lease and stopped \
             generating load. Results until then are counted."
        );
        assert_eq!(text, expected);
    }
    assert_eq!(
        about_agent(Error, &lost(AgentLoss::Stopped)),
        "Agent a was stopped on its own machine in the middle of the load, for example by SIGTERM. \
         Its figures end there."
    );
    assert_eq!(
        about_agent(Error, &lost(AgentLoss::Killed)),
        "Agent a was killed, or its machine went down, in the middle of its load. Its figures end \
         with the last results that it had written to disk."
    );
    assert_eq!(
        about_agent(Error, &lost(AgentLoss::Host(HostLoss::Silent(18)))),
        "The agent of host a was lost: its agent has not responded for 18 s. Its services ended \
         with it, or end when its lease expires. The results don't show the speed of the variant."
    );
}

#[test]
fn incomplete_parts_are_listed_with_their_reasons() {
    let part = |agent: &str, shortcoming| IncompletePart {
        agent: agent.to_owned(),
        shortcoming,
    };
    let early = Shortcoming::EndedEarly {
        after_s: 3.0,
        planned_s: 10.0,
    };
    let few = Shortcoming::FewRequests {
        accounted: 7,
        share: 10,
    };
    let mut partial = Partial {
        run: "r1".to_owned(),
        incomplete: vec![part("a", early), part("b", few)],
        agents: 3,
        uncounted_messages: 4,
    };
    assert_eq!(
        Finding::of(Error, &partial).text,
        "2 of 3 agents did not complete their parts: a ended after 3.0 s of 10.0 s, b accounted for \
         7 of the 10 requests in its share; 4 messages could not be counted. The load was lighter \
         than requested, and the figures cover only what was measured."
    );
    partial.uncounted_messages = 0;
    let left = Shortcoming::Lost(LossReason::LeftBehind);
    partial.incomplete = vec![part("a", left); 8];
    let text = Finding::of(Error, &partial).text;
    assert!(
        text.ends_with(
            "a had not finished when the coordinator stopped waiting and 2 more. The load was ended \
             without waiting for them; `prony fleet collect r1` fetches the rest. The figures cover \
             only the results that had arrived."
        ),
        "{text}"
    );
}

#[test]
fn failures_of_an_agent_are_described() {
    let reason = "no memory".to_owned();
    assert_eq!(
        about_agent(Error, &AgentFailed { reason }),
        "Agent a could not generate its share of the load: no memory."
    );
    let mismatch = AccountingMismatch {
        sent: 9,
        measured: 10,
    };
    assert_eq!(
        about_agent(Error, &mismatch),
        "The results that agent a sent differ from those that it measured. This is a bug in prony; \
         the agent's own file contains the results that were sent."
    );
    let error = "disk full".to_owned();
    assert_eq!(
        about_agent(Warning, &SpoolFailed { error }),
        "Agent a could not keep its own copy of all results (disk full). Results that the server \
         loses can't be sent again."
    );
    let error = "refused".to_owned();
    assert_eq!(
        Finding::of(Warning, &TargetUnreachable { error }).text,
        "The target could not be reached before the load: refused. Check that it is running."
    );
}

#[test]
fn clocks_and_late_starts_are_described() {
    let unexplained_ms = 1.5;
    assert_eq!(
        about_agent(Warning, &ClockDoubtful { unexplained_ms }),
        "Agent a: its clock changed during the load by 1.500 ms more than drift and measurement \
         errors explain. Usually, the clock was set, or the machine was suspended. The start time \
         of its part and the start skew are uncertain."
    );
    let unchecked = |reason, count| UncheckedClocks {
        reason,
        agents: names(count),
    };
    let unchecked = ClockUnchecked {
        unchecked: vec![
            unchecked(UncheckedReason::LongAgo(10), 2),
            unchecked(UncheckedReason::Gone, 1),
        ],
    };
    assert_eq!(
        Finding::of(Note, &unchecked).text,
        "Clock changes during the load could not be ruled out: a0, a1 (the load ended more than 10 \
         min ago), a0 (not connected)."
    );
    let late = |agent: &str, late_ms| LateAgent {
        agent: agent.to_owned(),
        late_ms,
    };
    let late = LateStart {
        late: vec![late("a", 2_500.0), late("b", 20.0)],
        bound_ms: 10.0,
        warmup_s: 1.0,
        is_open: false,
    };
    assert_eq!(
        Finding::of(Warning, &late).text,
        "Agents started more than 10.0 ms (--clock-bound) later than ordered: a by 2500.0 ms, b by \
         20.0 ms. The start order may have arrived late, the machine may have been busy, or \
         connecting may have taken too long. In the first 1.5 s of the measured part, some agents \
         had not started, so the load was lighter."
    );
}
