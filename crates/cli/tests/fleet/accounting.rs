//! Compares the counts in the record, in the agents' result files and in nginx's log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use prony_fleet::agent::spool;
use prony_fleet::wire::EndReason;
use prony_record::{Delta, FleetAgent, Nanos, Outcome, Record};

/// Contents of the agents' result files.
#[derive(Default)]
pub(crate) struct Files {
    /// Sum of the results of all agents.
    pub(crate) sum: Delta,
    /// Sum of the results of each agent, by name.
    pub(crate) each: BTreeMap<String, Delta>,
    /// Reason why each agent's part ended, if known.
    pub(crate) ends: BTreeMap<String, EndReason>,
}

impl Files {
    pub(crate) fn read(paths: &[PathBuf]) -> Files {
        let mut files = Files::default();
        for path in paths {
            let mut numbers = BTreeSet::new();
            for message in spool::read_spool(path).unwrap() {
                assert!(
                    numbers.insert(message.sequence),
                    "a sequence number occurs twice in {path:?}"
                );
                let name = message.agent.to_string();
                let own = files.each.entry(name.clone()).or_default();
                message.packed.add_to(own).unwrap();
                message.packed.add_to(&mut files.sum).unwrap();
                files.ends.extend(message.end.map(|end| (name, end.reason)));
            }
            let count = numbers.len() as u64;
            assert!(numbers.iter().copied().eq(0..count), "numbers in {path:?}");
        }
        files
    }
}

/// Checks that the counts and distributions of a record are exactly those of the agents' result
/// files.
pub(crate) fn expect_sum(record: &Record, files: &Files) {
    let span = (Nanos::ZERO, Nanos::ZERO);
    let expected = Record::build(record.load.clone(), &files.sum, span, None);
    assert_eq!(record.outcomes, expected.outcomes);
    assert_eq!(record.status, expected.status);
    let mut totals = expected.totals.clone();
    totals.elapsed_s = record.totals.elapsed_s;
    assert_eq!(record.totals, totals);
    // The histograms must be identical.
    assert_eq!(record.histograms, expected.histograms);
    for name in ["response_time", "service_time"] {
        assert!(record.histograms.contains_key(name), "{name}");
    }
    assert_eq!(record.response_time_us, expected.response_time_us);
    assert_eq!(record.first_byte_us, expected.first_byte_us);
    assert_eq!(record.generator.late_us, expected.generator.late_us);
    for (name, own) in &files.each {
        let part_of_record = part(record, name);
        assert_eq!(
            part_of_record.started,
            own.started - own.unmeasured,
            "{name}"
        );
        assert_eq!(part_of_record.ok, own.outcomes.get(Outcome::Ok), "{name}");
    }
}

/// Checks that nginx responded to every request that the agents started, including the warm-up.
pub(crate) fn expect_answered(answered: &BTreeMap<String, u64>, files: &Files, agents: &[String]) {
    expect_answered_but(0, answered, files, agents);
}

/// Checks the same as [`expect_answered`], but allows up to `most` requests per agent without a
/// response, such as requests in flight when an agent was suspended.
pub(crate) fn expect_answered_but(
    most: u64,
    answered: &BTreeMap<String, u64>,
    files: &Files,
    agents: &[String],
) {
    for name in agents {
        let own = &files.each[name];
        let began = own.started;
        // nginx may have responded to requests that were in flight when the load ended.
        let unfinished = own.outcomes.get(Outcome::Unfinished) + most;
        let answered = answered.get(name).copied().unwrap_or(0);
        assert!(
            answered <= began && began <= answered + unfinished,
            "{name} started {began} requests, of which {unfinished} were unfinished; nginx responded to {answered}"
        );
    }
}

/// Returns the number of requests that were due. On a busy machine, some of these requests may be
/// unstarted at the end.
pub(crate) fn due(record: &Record) -> u64 {
    record.totals.started + record.totals.unstarted
}

/// Returns an agent's entry in a record.
pub(crate) fn part<'a>(record: &'a Record, name: &str) -> &'a FleetAgent {
    let fleet = record.fleet.as_ref().unwrap();
    fleet.agents.iter().find(|it| it.name == name).unwrap()
}

/// Returns the IDs of a record's findings.
pub(crate) fn findings(record: &Record) -> Vec<&str> {
    record.findings.iter().map(|it| it.id.as_str()).collect()
}

pub(crate) fn has(record: &Record, finding: &str) -> bool {
    findings(record).contains(&finding)
}

/// Checks that every agent's part is complete.
pub(crate) fn expect_whole(record: &Record) {
    for bad in [
        "agent-lost",
        "partial",
        "agent-failed",
        "accounting-mismatch",
        "clock-doubtful",
    ] {
        assert!(!has(record, bad), "{:?}", record.findings);
    }
    let fleet = record.fleet.as_ref().unwrap();
    for agent in &fleet.agents {
        assert_eq!(agent.ended_because, "done", "{}", agent.name);
    }
}
