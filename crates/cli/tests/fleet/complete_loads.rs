//! Loads on four agents, without faults.

use crate::accounting::{Files, expect_answered, expect_sum, expect_whole, part};
use crate::testbed::{Testbed, name};

#[test]
fn four_agents_divide_a_load_exactly_and_the_record_is_the_sum_of_their_files() {
    let mut testbed = Testbed::new(4);
    let all: Vec<String> = (0..4).map(name).collect();

    // Prime numbers of requests and connections, so that they can't be divided evenly.
    let mut load = testbed.load("--requests 1201 --rate 600 --connections 7 --threads 2");
    let record = load.record();
    expect_whole(&record);
    assert_eq!(record.totals.started, 1201);
    assert_eq!(record.totals.ok, 1201);
    let agents = all.iter().map(|name| part(&record, name));
    assert_eq!(agents.clone().map(|it| it.connections).sum::<u64>(), 7);
    assert_eq!(agents.clone().map(|it| it.started).sum::<u64>(), 1201);
    // Of the seven workers, the last agent has one and the others have two. Each worker has 171 or
    // 172 requests.
    for (agent, workers) in agents.zip([2, 2, 2, 1]) {
        let share = 171 * workers..=172 * workers;
        assert!(share.contains(&agent.started), "{agent:?}");
    }
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 4);
    expect_sum(&record, &files);
    expect_answered(&testbed.answered(), &files, &all);
    let answered: u64 = testbed.answered().values().sum();
    assert_eq!(answered, files.sum.started, "warm-up included");
    assert_eq!(testbed.files_left(), 0, "collected results are deleted");
    // All connections were opened half a second before the start, as soon as the last agent was
    // ready. Therefore, none were opened in the measured part.
    assert_eq!(record.totals.connections_opened, 0);
    let ages = testbed.ages();
    assert_eq!(ages.len(), 7, "{ages:?}");
    assert!(ages.iter().all(|age| *age > 0.25), "{ages:?}");

    // The second load is a closed loop with a duration.
    let before = testbed.answered();
    let mut load = testbed.load("--duration 1s --connections 4 --threads 1");
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    let mut answered = testbed.answered();
    answered
        .iter_mut()
        .for_each(|(name, count)| *count -= before[name]);
    expect_answered(&answered, &files, &all);
    testbed.expect_quiet();
}
