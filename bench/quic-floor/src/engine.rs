//! Event loop that keeps requests in flight on all connections.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    ClientConfig, ConnectionIdGenerator, EndpointConfig, RandomConnectionIdGenerator,
    TransportConfig, VarInt,
};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::arguments::Job;
use super::connection::{Buffers, FloorConnection};
use super::tls;

/// Flow control windows, the same size as prony's.
const STREAM_WINDOW_BYTES: VarInt = VarInt::from_u32(4 * 1024 * 1024);
const CONNECTION_WINDOW_BYTES: VarInt = VarInt::from_u32(16 * 1024 * 1024);
/// Maximum number of events per wait.
const EVENTS_MAX: usize = 1024;
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
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
    let mut connections = Vec::new();
    for index in 0..job.connections {
        let now = Instant::now();
        let mut connection = FloorConnection::connect(job.server, &endpoint, &client, now)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poller, &connection.socket, data, epoll::EventFlags::IN)
            .map_err(|error| error.to_string())?;
        let timer = connection.transmit(now).map_err(text)?;
        connections.push((connection, timer));
    }
    exchange(job, &poller, &mut connections)
}

fn exchange(
    job: &Job,
    poller: &OwnedFd,
    connections: &mut [(FloorConnection, Option<Instant>)],
) -> Result<u64, String> {
    let text = |error: io::Error| error.to_string();
    let request = job.request();
    let mut buffers = Buffers::new();
    let mut events = Vec::with_capacity(EVENTS_MAX);
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
        let time = Timespec::try_from(time).map_err(|error| error.to_string())?;
        match epoll::wait(poller, spare_capacity(&mut events), Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let now = Instant::now();
        for event in &events {
            let (connection, timer) = &mut connections[event.data.u64() as usize];
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
