//! Connections that only stay open while a load runs.
//!
//! A separate thread opens them before the load begins, as a worker opens connections early. It
//! handles what arrives on them, such as pings, and opens lost ones again.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use prony_record::{IdleUse, Nanos};

use super::progress::Control;
use super::worker::Worker;
use crate::carrier::{ByteTransport, StreamTransport, Transport};
use crate::quic::QuicClient;
use crate::socket::{Backend, PollSockets, QuicSockets, UdpDatagrams, UringSockets};
use crate::spec::{LoadSpec, LoopModel};
use crate::tls;
use crate::values::shard::ShardRange;

/// Maximum time in which the connections are opened.
const OPENING_TIME_MAX: Nanos = Nanos::from_secs(120);
/// Interval at which lost connections are looked for.
const REOPEN_INTERVAL: Nanos = Nanos::from_secs(1);
/// Maximum number of lost connections that are opened at the same time.
const REOPENED_MAX: u32 = 256;

/// The connections of a load that only stay open.
pub(crate) struct IdleConnections {
    spec: LoadSpec,
    has_ended: AtomicBool,
}

/// Ends the idle connections when it is dropped.
pub(crate) struct EndIdleOnDrop<'a>(pub(crate) Option<&'a IdleConnections>);

impl Drop for EndIdleOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(idle) = self.0 {
            idle.has_ended.store(true, Ordering::Relaxed);
        }
    }
}

impl IdleConnections {
    /// Returns the idle connections of a load; `None` if it has none. They all lead to the load's
    /// first target.
    pub(crate) fn of(spec: &LoadSpec) -> Option<IdleConnections> {
        if spec.idle == 0 {
            return None;
        }
        let mut spec = spec.clone();
        spec.connections = spec.idle;
        spec.placement.shards = ShardRange::whole(1);
        spec.targets.truncate(1);
        spec.requests.retain(|request| request.target == 0);
        spec.transport.preconnect = true;
        spec.transport.keepalive = true;
        spec.transport.tcp_only = false;
        spec.transport.requests_per_connection = u64::MAX;
        spec.transport.connection_lifetime = None;
        spec.transport.protocols.streams = 1;
        spec.span.requests = None;
        spec.model = LoopModel::Closed;
        spec.long_list = None;
        spec.templates = None;
        spec.think = None;
        spec.journey = None;
        spec.script = None;
        spec.has_cookies = false;
        spec.fan_out = None;
        Some(IdleConnections {
            spec,
            has_ended: AtomicBool::new(false),
        })
    }

    /// Opens the connections, sends `ready`, and keeps them open until the load ends.
    pub(crate) fn run(&self, control: &Control, ready: mpsc::Sender<()>) -> io::Result<IdleUse> {
        let spec = &self.spec;
        if spec.tls.is_some() {
            tls::seed_random_numbers();
        }
        let slots = spec.connections as usize;
        if spec.transport.protocols.is_http3() {
            let transport = quic_sockets(spec, slots).map(StreamTransport)?;
            return self.hold(transport, control, ready);
        }
        match spec.placement.backend {
            Backend::Uring => {
                let transport = UringSockets::new(slots).map(ByteTransport)?;
                self.hold(transport, control, ready)
            }
            Backend::Poll => {
                let transport = PollSockets::new(slots).map(ByteTransport)?;
                self.hold(transport, control, ready)
            }
            // Not reached: such a load is refused.
            Backend::Xdp => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn hold<'run, T: Transport<'run>>(
        &'run self,
        transport: T,
        control: &Control,
        ready: mpsc::Sender<()>,
    ) -> io::Result<IdleUse> {
        let mut worker = Worker::new(&self.spec, self.spec.shard(0), transport);
        worker.preconnect_within(control, OPENING_TIME_MAX)?;
        let mut used = IdleUse {
            wanted: self.spec.connections.into(),
            open_at_begin: worker.open_count().into(),
            ..IdleUse::default()
        };
        // The receiver waits for all threads of the load.
        let _ = ready.send(());
        drop(ready);
        let mut looked = Nanos::ZERO;
        while !self.has_ended.load(Ordering::Relaxed) {
            let now = worker.maintain(Duration::from_millis(50).into())?;
            if now.since(looked) >= REOPEN_INTERVAL {
                looked = now;
                used.reopened += u64::from(worker.reopen(REOPENED_MAX, now));
            }
        }
        used.open_at_end = worker.open_count().into();
        used.reasons = worker.preconnect_reasons();
        worker.close_websockets();
        Ok(used)
    }
}

/// Creates the backend of a load over QUIC.
pub(crate) fn quic_sockets(spec: &LoadSpec, slots: usize) -> io::Result<QuicSockets<UdpDatagrams>> {
    let tls = spec.tls.as_ref().map(|tls| tls.client(slots));
    let client = tls.as_ref().and_then(QuicClient::new);
    // Not reached: a load over QUIC uses TLS, whose library has the cipher suite.
    let client = client.ok_or(io::ErrorKind::Unsupported)?;
    Ok(QuicSockets::new(UdpDatagrams::new(slots)?, client, slots))
}
