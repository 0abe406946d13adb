//! Orders to agents, and the time asked of them.

use std::thread;
use std::time::Duration;

use super::error::FleetError;
use crate::clock::{Clock, Exchange, Offset, Told};
use crate::link::{Link, LinkError};
use crate::messages::{Order, Reply, VERSION, What};
use crate::names::{AgentName, RunId};

/// Exchanges that a clock is compared by.
const EXCHANGES: usize = 24;
/// How long one of them may take.
const EXCHANGE: Duration = Duration::from_secs(2);
/// Clocks that are compared at once.
const AT_ONCE: usize = 8;

/// Gives each agent its order of one run, and waits for what they say.
///
/// # Errors
///
/// For each agent, why there is no reply.
pub(super) fn give(
    link: &Link,
    run: &RunId,
    orders: Vec<(&AgentName, What)>,
    within: Duration,
    is_given_up: &dyn Fn(usize) -> bool,
) -> Vec<Result<Reply, LinkError>> {
    give_for(link, (run, None), orders, within, is_given_up)
}

/// The same for a run that belongs to an experiment, which may have reserved the agents.
///
/// # Errors
///
/// As [`give`].
pub(super) fn give_for(
    link: &Link,
    (run, experiment): (&RunId, Option<&RunId>),
    orders: Vec<(&AgentName, What)>,
    within: Duration,
    is_given_up: &dyn Fn(usize) -> bool,
) -> Vec<Result<Reply, LinkError>> {
    let questions = orders.into_iter().map(|(agent, what)| {
        let order = Order {
            version: VERSION.to_owned(),
            run: run.clone(),
            experiment: experiment.cloned(),
            what,
        };
        let json = serde_json::to_vec(&order).expect("strings, numbers and lists of them");
        (agent.orders(), json.into())
    });
    let answers = link.ask_all(questions.collect(), within, is_given_up);
    let read = |answer: Result<bytes::Bytes, LinkError>| {
        let answer = answer?;
        serde_json::from_slice(&answer)
            .map_err(|error| LinkError::Refused(format!("an answer that is none: {error}")))
    };
    answers.into_iter().map(read).collect()
}

/// Gives all the same order, and waits for what they say.
///
/// # Errors
///
/// As [`give`].
pub(super) fn give_all(
    link: &Link,
    run: &RunId,
    agents: &[&AgentName],
    what: &What,
    within: Duration,
) -> Vec<Result<Reply, LinkError>> {
    let orders = agents.iter().map(|agent| (*agent, what.clone())).collect();
    give(link, run, orders, within, &|_| false)
}

/// How far each agent's clock is from this machine's.
///
/// # Errors
///
/// For each agent, why its clock can't be compared.
pub(super) fn clocks(
    link: &Link,
    clock: &Clock,
    agents: &[&AgentName],
) -> Vec<Result<Offset, FleetError>> {
    let mut offsets = Vec::new();
    for group in agents.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let threads: Vec<_> = group
                .iter()
                .map(|agent| scope.spawn(|| compare(link, clock, agent)))
                .collect();
            offsets.extend(threads.into_iter().map(|thread| match thread.join() {
                Ok(offset) => offset,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
        });
    }
    offsets
}

fn compare(link: &Link, clock: &Clock, agent: &AgentName) -> Result<Offset, FleetError> {
    let mut exchanges = Vec::new();
    let mut failed = None;
    // One that was lost says nothing of the others; two do.
    let mut losses = 0;
    while exchanges.len() < EXCHANGES && losses < 2 {
        let asked = clock.now();
        let answer = link.ask(&agent.clock(), asked.to_be_bytes().to_vec(), EXCHANGE);
        let learned = clock.now();
        match answer.map(|bytes| Told::of_bytes(&bytes)) {
            Ok(Some(told)) => exchanges.push(Exchange {
                asked,
                heard: told.heard,
                answered: told.answered,
                learned,
            }),
            Ok(None) => {
                let text = "it doesn't tell the time as this version does".to_owned();
                let agent = agent.clone();
                return Err(FleetError::Agent { agent, text });
            }
            Err(error) => {
                losses += 1;
                failed = Some(error);
            }
        }
    }
    match (Offset::best(&exchanges), failed) {
        (Some(offset), _) if exchanges.len() >= EXCHANGES => Ok(offset),
        (_, Some(error)) => Err(FleetError::of_silence(agent, error)),
        _ => Err(FleetError::Agent {
            agent: agent.clone(),
            text: "what its clock shows contradicts itself".to_owned(),
        }),
    }
}
