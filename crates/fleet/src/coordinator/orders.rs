//! Sends orders and clock requests to agents.

use std::thread;
use std::time::Duration;

use super::error::FleetError;
use crate::clock::{Clock, ClockExchange, ClockOffset, ClockReply};
use crate::link::{LinkError, NatsLink};
use crate::names::{AgentName, RunId};
use crate::wire::{AgentOrder, Command, Reply, SenderVersion};

/// Number of exchanges per clock comparison.
const CLOCK_EXCHANGES: usize = 24;
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of clocks that are compared at the same time.
const CONCURRENT_CLOCKS: usize = 8;

/// Sends each agent its order, and waits for the replies.
///
/// # Errors
///
/// For each agent that didn't reply, returns the reason.
pub(super) fn send(
    link: &NatsLink,
    run: &RunId,
    orders: Vec<(&AgentName, Command)>,
    within: Duration,
    is_given_up: &dyn Fn(usize) -> bool,
) -> Vec<Result<Reply, LinkError>> {
    send_for(link, (run, None), orders, within, is_given_up)
}

/// Like [`send`], for a run that belongs to an experiment, which may have reserved the agents.
///
/// # Errors
///
/// See [`send`].
pub(super) fn send_for(
    link: &NatsLink,
    (run, experiment): (&RunId, Option<&RunId>),
    orders: Vec<(&AgentName, Command)>,
    within: Duration,
    is_given_up: &dyn Fn(usize) -> bool,
) -> Vec<Result<Reply, LinkError>> {
    let requests = orders.into_iter().map(|(agent, command)| {
        let order = AgentOrder {
            sender: SenderVersion::own(),
            run: run.clone(),
            experiment: experiment.cloned(),
            command,
        };
        let json = serde_json::to_vec(&order).expect("strings, numbers and lists of them");
        (agent.orders_subject(), json.into())
    });
    let responses = link.request_all(requests.collect(), within, is_given_up);
    let read = |response: Result<bytes::Bytes, LinkError>| {
        let response = response?;
        serde_json::from_slice(&response)
            .map_err(|error| LinkError::Refused(format!("invalid reply: {error}")))
    };
    responses.into_iter().map(read).collect()
}

/// Sends all agents the same order, and waits for the replies.
///
/// # Errors
///
/// See [`send`].
pub(super) fn send_all(
    link: &NatsLink,
    run: &RunId,
    agents: &[&AgentName],
    command: &Command,
    within: Duration,
) -> Vec<Result<Reply, LinkError>> {
    let orders = agents
        .iter()
        .map(|agent| (*agent, command.clone()))
        .collect();
    send(link, run, orders, within, &|_| false)
}

/// Measures the offset of each agent's clock.
///
/// # Errors
///
/// For each agent whose clock can't be compared, returns the reason.
pub(super) fn clocks(
    link: &NatsLink,
    clock: &Clock,
    agents: &[&AgentName],
) -> Vec<Result<ClockOffset, FleetError>> {
    let mut offsets = Vec::new();
    for group in agents.chunks(CONCURRENT_CLOCKS) {
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

fn compare(link: &NatsLink, clock: &Clock, agent: &AgentName) -> Result<ClockOffset, FleetError> {
    let mut exchanges = Vec::new();
    let mut failed = None;
    // One lost exchange is tolerated.
    let mut losses = 0;
    while exchanges.len() < CLOCK_EXCHANGES && losses < 2 {
        let request_sent = clock.now();
        let response = link.request(
            &agent.clock_subject(),
            request_sent.to_be_bytes().to_vec(),
            EXCHANGE_TIMEOUT,
        );
        let reply_received = clock.now();
        match response.map(|bytes| ClockReply::of_bytes(&bytes)) {
            Ok(Some(reply)) => exchanges.push(ClockExchange {
                request_sent,
                request_received: reply.received,
                reply_sent: reply.sent,
                reply_received,
            }),
            Ok(None) => {
                let text = "its reply to a clock request can't be read".to_owned();
                let agent = agent.clone();
                return Err(FleetError::Agent { agent, text });
            }
            Err(error) => {
                losses += 1;
                failed = Some(error);
            }
        }
    }
    match (ClockOffset::best(&exchanges), failed) {
        (Some(offset), _) if exchanges.len() >= CLOCK_EXCHANGES => Ok(offset),
        (_, Some(error)) => Err(FleetError::of_silence(agent, error)),
        _ => Err(FleetError::Agent {
            agent: agent.clone(),
            text: "its clock readings contradict each other".to_owned(),
        }),
    }
}
