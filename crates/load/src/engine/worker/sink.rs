//! Collects everything that a worker counts and records.

use prony_record::{
    Exchange, MeasuredPart, Nanos, Negotiated, Outcome, QuicUse, Recorder, StreamedEvents,
    TlsHandshake, WebSocketUse, XdpUse,
};

use super::body_waits::BodyWaits;
use super::preconnect_report::PreconnectReport;
use super::refusals::Refusals;
use super::syn_retries::ConnectCounts;
use crate::carrier::Reason;
use crate::engine::findings::ClosedConnections;
use crate::engine::reasons::Reasons;
use crate::request::protocols::StreamsLimit;
use crate::target::addresses::AddressCounts;
use crate::target::source::SourceCounts;

/// The counts and records of a worker. The sinks of all workers merge into one.
pub(crate) struct Sink {
    pub(crate) recorder: Recorder,
    /// Reasons for measured failures.
    pub(crate) reasons: Reasons,
    pub(crate) negotiated: Option<Negotiated>,
    /// Start of the first request.
    pub(crate) first_start: Option<Nanos>,
    /// Number of times that bytes arrived while no request was in flight.
    pub(crate) unsolicited: u64,
    pub(crate) sources: SourceCounts,
    /// Counts by address of the server, if connections use several or changing ones.
    pub(crate) addresses: AddressCounts,
    /// The lowest limit on concurrent streams that kept requests waiting.
    pub(crate) streams_limit: Option<StreamsLimit>,
    /// Report on the connections that were opened before the load began.
    pub(crate) preconnect: PreconnectReport,
    /// Refused connection attempts.
    pub(crate) refusals: Refusals,
    pub(crate) closed: ClosedConnections,
    /// Messages of WebSockets besides responses.
    pub(crate) websocket: WebSocketUse,
    /// Time at which the sockets failed, and the system's message.
    pub(crate) sockets_failed: Option<(Nanos, String)>,
    /// TCP connection attempts in the measured part.
    pub(crate) connects: ConnectCounts,
    /// Times from the first to the last byte of responses.
    pub(crate) body_waits: BodyWaits,
    /// Number of times that a connection passed from one recorded client to another.
    pub(crate) handovers: u64,
    /// Counts of QUIC packets and system calls.
    pub(crate) quic: Option<QuicUse>,
    /// Counts of AF_XDP packets and drops.
    pub(crate) xdp: Option<XdpUse>,
}

/// Durations and properties of a new connection.
pub(super) struct OpenedConnection {
    pub(super) connect: Nanos,
    pub(super) handshake: Option<TlsHandshake>,
    /// True if the connection uses TCP. Connects to UNIX sockets send no SYN.
    pub(super) is_tcp: bool,
}

impl Sink {
    /// Creates an empty sink for up to `sources` sources. It counts by entry if the load has
    /// several entries.
    pub(super) fn new(measured: MeasuredPart, sources: u64, entries: usize) -> Sink {
        let mut recorder = Recorder::new(measured);
        recorder.count_entries(entries);
        Sink {
            recorder,
            reasons: Reasons::default(),
            negotiated: None,
            first_start: None,
            unsolicited: 0,
            sources: SourceCounts::new(sources),
            addresses: AddressCounts::default(),
            streams_limit: None,
            sockets_failed: None,
            preconnect: PreconnectReport::default(),
            refusals: Refusals::default(),
            closed: ClosedConnections::default(),
            websocket: WebSocketUse::default(),
            connects: ConnectCounts::default(),
            body_waits: BodyWaits::default(),
            handovers: 0,
            quic: None,
            xdp: None,
        }
    }

    /// Adds another worker's sink.
    pub(crate) fn merge(&mut self, other: Sink) {
        self.recorder.merge(&other.recorder);
        self.reasons.merge(other.reasons);
        self.negotiated = self.negotiated.take().or(other.negotiated);
        self.first_start = earliest(self.first_start, other.first_start);
        self.unsolicited += other.unsolicited;
        self.sources.merge(&other.sources);
        self.addresses.merge(&other.addresses);
        self.streams_limit = earliest(self.streams_limit, other.streams_limit);
        self.preconnect.merge(other.preconnect);
        self.refusals.merge(other.refusals);
        self.websocket.merge(&other.websocket);
        self.closed.by_server += other.closed.by_server;
        self.closed.for_other_target += other.closed.for_other_target;
        self.sockets_failed = earliest(self.sockets_failed.take(), other.sockets_failed);
        self.connects.merge(other.connects);
        self.body_waits.merge(other.body_waits);
        self.handovers += other.handovers;
        if let Some(quic) = other.quic {
            self.quic.get_or_insert_default().merge(&quic);
        }
        match (&mut self.xdp, other.xdp) {
            (Some(sum), Some(xdp)) => sum.merge(&xdp),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }

    /// Records the start of a request that belongs to this entry.
    #[inline]
    pub(super) fn request_started(&mut self, entry: u32, now: Nanos) {
        self.first_start.get_or_insert(now);
        self.recorder.started_entry(entry);
    }

    /// Records the end of a request. Returns true if it is measured. If sources are counted,
    /// `source` is called for each measured request.
    #[inline(always)]
    pub(super) fn request_ended(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        reason: Option<&Reason>,
        source: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let is_measured = self.recorder.ended(exchange, outcome);
        if is_measured {
            if self.sources.is_counting()
                && let Some(source) = source()
            {
                self.sources.ended(source, outcome);
            }
            if let Some(reason) = reason {
                self.reasons.add(outcome, Some(reason.clone()));
            }
        }
        is_measured
    }

    /// Records a new connection, with the index of its source address if sources are counted.
    /// Returns true if it is measured.
    pub(super) fn connection_opened(
        &mut self,
        now: Nanos,
        opened: &OpenedConnection,
        source: Option<u64>,
    ) -> bool {
        let is_measured = self
            .recorder
            .connection_opened(now, opened.connect, opened.handshake);
        if !is_measured {
            return false;
        }
        if let Some(source) = source {
            self.sources.connected(source);
        }
        if opened.is_tcp {
            self.connects.add(opened.connect);
        }
        true
    }

    /// Records that the server closed a connection, or ended it with its last response.
    #[inline]
    pub(super) fn closed_by_server(&mut self, now: Nanos) {
        self.closed.by_server += u64::from(self.recorder.is_measured_at(now));
    }

    /// Records a message of a WebSocket that no message of the load awaited.
    pub(super) fn message_unawaited(&mut self, now: Nanos) {
        self.websocket.unawaited += u64::from(self.recorder.is_measured_at(now));
    }

    /// Records that a connection was replaced with one to another server.
    pub(super) fn closed_for_other_target(&mut self, now: Nanos) {
        self.closed.for_other_target += u64::from(self.recorder.is_measured_at(now));
    }

    /// Records that a request of this entry was due at `due` but never started.
    pub(super) fn request_unstarted(
        &mut self,
        entry: u32,
        due: Nanos,
        ended: Nanos,
        is_streamed: bool,
    ) {
        let exchange = Exchange {
            intended: due,
            sent: due,
            first_byte: None,
            ended,
            status: None,
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            is_settling: false,
            entry,
        };
        let outcome = Outcome::Unstarted;
        if self.recorder.ended(&exchange, outcome) && is_streamed {
            let none = StreamedEvents::default();
            self.recorder.stream_ended(&exchange, outcome, none);
        }
    }
}

/// Returns the smaller of two optional values, or the only one present.
fn earliest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sinks_of_all_workers_merge_into_one() {
        let sink = |first_start, limit, unsolicited| {
            let mut sink = Sink::new(MeasuredPart::EndedFrom(Nanos::ZERO), 0, 0);
            sink.first_start = first_start;
            sink.streams_limit = limit;
            sink.unsolicited = unsolicited;
            sink
        };
        let mut all = sink(None, Some(StreamsLimit::Http1), 1);
        all.merge(sink(Some(Nanos(9)), Some(StreamsLimit::Settings(3)), 2));
        all.merge(sink(Some(Nanos(5)), None, 0));
        assert_eq!(all.first_start, Some(Nanos(5)));
        assert_eq!(all.streams_limit, Some(StreamsLimit::Settings(3)));
        assert_eq!(all.unsolicited, 3);
    }
}
