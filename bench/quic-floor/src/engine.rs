//! Event loop that keeps requests in flight on all connections.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polling::{Event, Events, PollMode, Poller};
use quinn_proto::{
    ClientConfig, ConnectionIdGenerator, EndpointConfig, RandomConnectionIdGenerator,
    TransportConfig, VarInt,
};

use super::arguments::Job;
use super::connection::{Buffers, FloorConnection};
use super::tls;

/// Flow control windows, the same size as prony's.
const STREAM_WINDOW_BYTES: VarInt = VarInt::from_u32(4 * 1024 * 1024);
const CONNECTION_WINDOW_BYTES: VarInt = VarInt::from_u32(16 * 1024 * 1024);
/// Largest UDP payload that QUIC permits (RFC 9000 §18.2).
const PAYLOAD_BYTES_MAX: u16 = 65_527;

/// Keeps a constant number of requests in flight until the job's duration is over. Returns the
/// number of complete responses.
///
/// # Errors
///
/// A connection or a system call fails.
pub(crate) fn run(job: &Job) -> Result<u64, String> {
    let text = |error: io::Error| error.to_string();
    let mut endpoint = EndpointConfig::default();
    endpoint
        .cid_generator(|| -> Box<dyn ConnectionIdGenerator> {
            Box::new(RandomConnectionIdGenerator::new(0))
        })
        .max_udp_payload_size(PAYLOAD_BYTES_MAX)
        .map_err(|error| error.to_string())?;
    let endpoint = Arc::new(endpoint);
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(STREAM_WINDOW_BYTES)
        .receive_window(CONNECTION_WINDOW_BYTES)
        .send_fairness(false);
    let mut client = ClientConfig::new(tls::client()?);
    client.transport_config(Arc::new(transport));
    let poller = Poller::new().map_err(text)?;
    let mut connections = Vec::new();
    for index in 0..job.connections {
        let now = Instant::now();
        let mut connection = FloorConnection::connect(job.server, &endpoint, &client, now)?;
        let event = Event::readable(index);
        // SAFETY: the poller is dropped before the connections, which are never removed.
        let added = unsafe { poller.add_with_mode(&connection.socket, event, PollMode::Level) };
        added.map_err(text)?;
        let timer = connection.transmit(now).map_err(text)?;
        connections.push((connection, timer));
    }
    let responses = exchange(job, &poller, &mut connections);
    for (connection, _) in &connections {
        // Removing a socket that was added can't fail.
        let _ = poller.delete(&connection.socket);
    }
    responses
}

fn exchange(
    job: &Job,
    poller: &Poller,
    connections: &mut [(FloorConnection, Option<Instant>)],
) -> Result<u64, String> {
    let text = |error: io::Error| error.to_string();
    let request = job.request();
    let mut buffers = Buffers::new();
    let mut events = Events::new();
    let mut responses = 0;
    let end = Instant::now() + Duration::from_secs(job.seconds);
    loop {
        let now = Instant::now();
        if now >= end {
            return Ok(responses);
        }
        let timer = connections.iter().filter_map(|(_, timer)| *timer).min();
        let until = timer.map_or(end, |timer| timer.min(end));
        events.clear();
        let time = until.saturating_duration_since(now);
        poller.wait(&mut events, Some(time)).map_err(text)?;
        let now = Instant::now();
        for event in events.iter() {
            let (connection, timer) = &mut connections[event.key];
            connection.receive(&mut buffers, now).map_err(text)?;
            responses += connection.proceed(&request, job.streams)?;
            *timer = connection.transmit(now).map_err(text)?;
        }
        for (connection, timer) in connections.iter_mut() {
            if timer.is_some_and(|timer| timer <= now) {
                connection.expire(now);
                responses += connection.proceed(&request, job.streams)?;
                *timer = connection.transmit(now).map_err(text)?;
            }
        }
    }
}
