//! What was counted in several places, compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use prony_fleet::agent::spool;
use prony_fleet::messages::Because;
use prony_record::{Delta, FleetAgent, Nanos, Outcome, Record};

/// What the agents' own files hold.
#[derive(Default)]
pub(crate) struct Files {
    /// Of all agents.
    pub(crate) sum: Delta,
    /// Of each.
    pub(crate) each: BTreeMap<String, Delta>,
    /// Why each ended, as far as it says.
    pub(crate) ends: BTreeMap<String, Because>,
}

impl Files {
    pub(crate) fn read(paths: &[PathBuf]) -> Files {
        let mut files = Files::default();
        for path in paths {
            let mut numbers = BTreeSet::new();
            for message in spool::read(path).unwrap() {
                assert!(
                    numbers.insert(message.sequence),
                    "a number twice in {path:?}"
                );
                let name = message.agent.to_string();
                let own = files.each.entry(name.clone()).or_default();
                message.packed.add_to(own).unwrap();
                message.packed.add_to(&mut files.sum).unwrap();
                files
                    .ends
                    .extend(message.end.map(|end| (name, end.because)));
            }
            let count = numbers.len() as u64;
            assert!(numbers.iter().copied().eq(0..count), "numbers in {path:?}");
        }
        files
    }
}

/// Fails unless a record holds the very counts and distributions of what the agents' files add up to.
pub(crate) fn expect_sum(record: &Record, files: &Files) {
    let span = (Nanos::ZERO, Nanos::ZERO);
    let expected = Record::build(record.load.clone(), &files.sum, span, None);
    assert_eq!(record.outcomes, expected.outcomes);
    assert_eq!(record.status, expected.status);
    let mut totals = expected.totals.clone();
    totals.elapsed_s = record.totals.elapsed_s;
    assert_eq!(record.totals, totals);
    // Bit for bit.
    assert_eq!(record.histograms, expected.histograms);
    for name in ["response_time", "service_time"] {
        assert!(record.histograms.contains_key(name), "{name}");
    }
    assert_eq!(record.response_time_us, expected.response_time_us);
    assert_eq!(record.first_byte_us, expected.first_byte_us);
    assert_eq!(record.generator.late_us, expected.generator.late_us);
    for (name, own) in &files.each {
        let told = part(record, name);
        assert_eq!(told.started, own.started - own.unmeasured, "{name}");
        assert_eq!(told.ok, own.outcomes.get(Outcome::Ok), "{name}");
    }
}

/// Fails unless nginx answered just what agents that got all their answers began, warm-up included.
pub(crate) fn expect_answered(answered: &BTreeMap<String, u64>, files: &Files, agents: &[String]) {
    expect_answered_but(0, answered, files, agents);
}

/// The same where up to so many requests of each agent may have had no answer, as those that were under
/// way when it was stopped.
pub(crate) fn expect_answered_but(
    most: u64,
    answered: &BTreeMap<String, u64>,
    files: &Files,
    agents: &[String],
) {
    for name in agents {
        let own = &files.each[name];
        let began = own.started;
        // What was under way when the load ended was asked, and its answer not waited for.
        let unfinished = own.outcomes.get(Outcome::Unfinished) + most;
        let answered = answered.get(name).copied().unwrap_or(0);
        assert!(
            answered <= began && began <= answered + unfinished,
            "{name} began {began}, of which {unfinished} were unfinished; nginx answered {answered}"
        );
    }
}

/// Requests that the schedule of a load had. On a busy machine some of them are not begun when it ends.
pub(crate) fn due(record: &Record) -> u64 {
    record.totals.started + record.totals.unstarted
}

/// An agent's part of a record.
pub(crate) fn part<'a>(record: &'a Record, name: &str) -> &'a FleetAgent {
    let fleet = record.fleet.as_ref().unwrap();
    fleet.agents.iter().find(|it| it.name == name).unwrap()
}

/// What findings a record has.
pub(crate) fn findings(record: &Record) -> Vec<&str> {
    record.findings.iter().map(|it| it.id.as_str()).collect()
}

/// Whether a record says that something is amiss with its agents.
pub(crate) fn has(record: &Record, finding: &str) -> bool {
    findings(record).contains(&finding)
}

/// Fails unless every agent's part is whole.
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
