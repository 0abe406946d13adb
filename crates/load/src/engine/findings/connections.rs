//! Findings about connections and about the limits that the server sets on them.

use prony_record::finding::{
    ConnectionsNotReused, FramesDropped, LimitSource, PacketsLost, PortExhaustion, StreamsLimited,
    UdpBufferSmall, UnaskedBytes,
};
use prony_record::{Finding, Outcome, Record, Severity};

use crate::limits::ports;
use crate::request::protocols::StreamsLimit;

/// Connections of the measured part that ended although later requests could have used them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClosedConnections {
    /// Number of connections that the server closed.
    pub(crate) by_server: u64,
    /// Number of connections that the load replaced with connections to another server.
    pub(crate) for_other_target: u64,
}

/// Reports that the server, not `--streams`, limited the number of requests on a connection.
pub(crate) fn streams_limited(record: &Record, limit: StreamsLimit) -> Finding {
    let (source, limit) = match limit {
        StreamsLimit::Settings(limit) => (LimitSource::Settings, u64::from(limit)),
        StreamsLimit::Quic(limit) => (LimitSource::Quic, u64::from(limit)),
        StreamsLimit::Http1 => (LimitSource::Http1, 1),
    };
    let wanted = u64::from(record.load.streams);
    let figures = StreamsLimited {
        source,
        limit,
        wanted,
    };
    Finding::of(Severity::Warning, &figures)
}

/// Share of lost packets above which the loss is reported.
const PACKETS_LOST_SHARE: f64 = 0.01;
/// Minimum number of sent packets for judging the share of lost packets.
const PACKETS_SENT_MIN: u64 = 1_000;

pub(super) fn packets_lost(record: &Record) -> Option<Finding> {
    let (lost, sent) = match (&record.quic, &record.generator.xdp) {
        (Some(quic), _) => (quic.packets_lost, quic.packets_sent),
        (None, Some(xdp)) => (xdp.retransmitted, xdp.packets_sent),
        (None, None) => return None,
    };
    let share = lost as f64 / sent.max(1) as f64;
    if sent < PACKETS_SENT_MIN || share <= PACKETS_LOST_SHARE {
        return None;
    }
    let is_quic = record.quic.is_some();
    let figures = PacketsLost {
        lost,
        sent,
        is_quic,
    };
    Some(Finding::of(Severity::Warning, &figures))
}

pub(super) fn frames_dropped(record: &Record) -> Option<Finding> {
    let xdp = record.generator.xdp.as_ref()?;
    let figures = FramesDropped {
        received: xdp.receive_drops,
        sent: xdp.transmit_drops,
        exchanged: xdp.exchange_dropped,
    };
    let dropped = figures.received + figures.sent + figures.exchanged;
    (dropped > 0).then(|| Finding::of(Severity::Warning, &figures))
}

pub(super) fn udp_buffer_small(record: &Record) -> Option<Finding> {
    let quic = record.quic.as_ref()?;
    let figures = UdpBufferSmall {
        dropped: quic.datagrams_dropped,
        arrived: quic.datagrams_received + quic.datagrams_dropped,
    };
    (figures.dropped > 0).then(|| Finding::of(Severity::Warning, &figures))
}

pub(super) fn port_exhaustion(record: &Record) -> Option<Finding> {
    let figures = PortExhaustion {
        failed: *record.outcomes.get(&Outcome::NoLocalPort)?,
        ports: ports::described(),
    };
    Some(Finding::of(Severity::Error, &figures))
}

pub(super) fn not_reused(record: &Record, closed: ClosedConnections) -> Option<Finding> {
    let totals = &record.totals;
    let ClosedConnections {
        by_server,
        for_other_target,
    } = closed;
    // Most failures close the connection, so these closes don't show that the server limits
    // keep-alive.
    let expected = u64::from(record.load.connections) + totals.started / 20 + totals.failed;
    if !record.load.keepalive || totals.ok == 0 || by_server + for_other_target <= expected {
        return None;
    }
    let figures = ConnectionsNotReused {
        opened: totals.connections_opened,
        started: totals.started,
        by_server,
        for_other_target,
        expected,
    };
    Some(Finding::of(Severity::Note, &figures))
}

pub(super) fn unsolicited_bytes(times: u64) -> Option<Finding> {
    (times > 0).then(|| Finding::of(Severity::Warning, &UnaskedBytes { times }))
}
