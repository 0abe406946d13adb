//! Four agents, and nothing that goes wrong.

use crate::books::{Files, expect_answered, expect_sum, expect_whole, part};
use crate::rig::{Rig, name};

#[test]
fn four_agents_divide_a_load_exactly_and_the_record_is_the_sum_of_their_files() {
    let mut rig = Rig::new(4);
    let all: Vec<String> = (0..4).map(name).collect();

    // An odd number over an odd number of workers, which nothing divides evenly.
    let mut load = rig.load("--requests 1201 --rate 600 --connections 7 --threads 2");
    let record = load.record();
    expect_whole(&record);
    assert_eq!(record.totals.started, 1201);
    assert_eq!(record.totals.ok, 1201);
    let agents = all.iter().map(|name| part(&record, name));
    assert_eq!(agents.clone().map(|it| it.connections).sum::<u64>(), 7);
    assert_eq!(agents.clone().map(|it| it.started).sum::<u64>(), 1201);
    // The last agent has one of the seven workers; the others have two. A worker has 171 or 172.
    for (agent, workers) in agents.zip([2, 2, 2, 1]) {
        let share = 171 * workers..=172 * workers;
        assert!(share.contains(&agent.started), "{agent:?}");
    }
    let files = Files::read(&load.kept);
    assert_eq!(files.each.len(), 4);
    expect_sum(&record, &files);
    expect_answered(&rig.answered(), &files, &all);
    let answered: u64 = rig.answered().values().sum();
    assert_eq!(answered, files.sum.started, "warm-up included");
    assert_eq!(rig.files_left(), 0, "what is collected is kept no longer");
    // All were there when the last agent said that it is ready, and the start is half a second after that.
    assert_eq!(record.totals.connections_opened, 0);
    let ages = rig.ages();
    assert_eq!(ages.len(), 7, "{ages:?}");
    assert!(ages.iter().all(|age| *age > 0.25), "{ages:?}");

    // A closed loop that time ends.
    let before = rig.answered();
    let mut load = rig.load("--duration 1s --connections 4 --threads 1");
    let record = load.record();
    expect_whole(&record);
    let files = Files::read(&load.kept);
    expect_sum(&record, &files);
    let mut answered = rig.answered();
    answered
        .iter_mut()
        .for_each(|(name, count)| *count -= before[name]);
    expect_answered(&answered, &files, &all);
    rig.expect_quiet();
}
