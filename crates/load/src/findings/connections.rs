//! Findings about connections and about the limits that the server sets on them.

use prony_record::number;
use prony_record::{Finding, FindingId, Outcome, Record, Severity};

use super::ClosedConnections;
use crate::ports;
use crate::protocols::StreamsLimit;

/// Reports that the server, not `--streams`, limited the number of requests on a connection.
pub(crate) fn streams_limited(record: &Record, limit: StreamsLimit) -> Finding {
    let wanted = record.load.streams;
    let (seen, action) = match limit {
        StreamsLimit::Settings(0) => (
            "The server allows no streams on a connection, at least temporarily \
             (SETTINGS_MAX_CONCURRENT_STREAMS is 0)"
                .to_owned(),
            "Raise the server's limit.".to_owned(),
        ),
        StreamsLimit::Settings(limit) => (
            format!(
                "The server allows {limit} concurrent stream{} on a connection \
                 (SETTINGS_MAX_CONCURRENT_STREAMS)",
                if limit == 1 { "" } else { "s" }
            ),
            format!("Raise the server's limit, use more connections, or use --streams {limit}."),
        ),
        StreamsLimit::Quic(0) => (
            "The server allows no streams on a QUIC connection, at least temporarily \
             (MAX_STREAMS is 0)"
                .to_owned(),
            "Raise the server's limit.".to_owned(),
        ),
        StreamsLimit::Quic(limit) => (
            format!(
                "The server allowed no more than {limit} concurrent stream{} on a QUIC connection \
                 (MAX_STREAMS)",
                if limit == 1 { "" } else { "s" }
            ),
            format!("Raise the server's limit, use more connections, or use --streams {limit}."),
        ),
        StreamsLimit::Http1 => (
            "The server chose HTTP/1.1, which carries one request at a time".to_owned(),
            "Enable HTTP/2 on the server (--http 2 requires it), or use more connections."
                .to_owned(),
        ),
    };
    Finding::new(
        FindingId::StreamsLimited,
        Severity::Warning,
        format!(
            "{seen}, but {wanted} were requested. The load had fewer requests in flight \
             than intended. {action}"
        ),
    )
}

/// Share of lost packets above which the loss is reported.
const PACKETS_LOST_SHARE: f64 = 0.01;
/// Minimum number of sent packets for judging the share of lost packets.
const PACKETS_SENT_MIN: u64 = 1_000;

pub(super) fn packets_lost(record: &Record) -> Option<Finding> {
    let (lost, sent, kind, place) = match (&record.quic, &record.generator.xdp) {
        (Some(quic), _) => (
            quic.packets_lost,
            quic.packets_sent,
            "QUIC packets",
            "in the server's UDP buffers",
        ),
        (None, Some(xdp)) => (
            xdp.retransmitted,
            xdp.packets_sent,
            "packets",
            "in the server's network interface",
        ),
        (None, None) => return None,
    };
    let share = lost as f64 / sent.max(1) as f64;
    if sent < PACKETS_SENT_MIN || share <= PACKETS_LOST_SHARE {
        return None;
    }
    Some(Finding::new(
        FindingId::PacketsLost,
        Severity::Warning,
        format!(
            "{} of the {} {kind} that the load sent were lost ({}). Their data was sent \
             again after a delay. Look for drops on the path and {place}.",
            number::count(lost),
            number::count(sent),
            number::share(share)
        ),
    ))
}

pub(super) fn frames_dropped(record: &Record) -> Option<Finding> {
    let xdp = record.generator.xdp.as_ref()?;
    let drops = [
        (
            xdp.receive_drops,
            "when received (ring full or frame too large)",
        ),
        (xdp.transmit_drops, "when sent (rejected)"),
        (xdp.exchange_dropped, "between two workers (inbox full)"),
    ];
    let drops: Vec<String> = drops
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", number::count(count)))
        .collect();
    if drops.is_empty() {
        return None;
    }
    Some(Finding::new(
        FindingId::FramesDropped,
        Severity::Warning,
        format!(
            "Some of the load's frames were dropped on this machine: {}. The data was sent again \
                after a delay. Use more workers, fewer connections or a lower rate. If frames \
                were too large, turn off segmentation offload at the server's end of a virtual \
                link.",
            drops.join(", ")
        ),
    ))
}

pub(super) fn udp_buffer_small(record: &Record) -> Option<Finding> {
    let quic = record.quic.as_ref()?;
    if quic.datagrams_dropped == 0 {
        return None;
    }
    Some(Finding::new(
        FindingId::UdpBufferSmall,
        Severity::Warning,
        format!(
            "{} of {} datagrams that arrived were dropped because the load's receive buffers were \
             full. Raise net.core.rmem_max, or use more workers or fewer streams.",
            number::count(quic.datagrams_dropped),
            number::count(quic.datagrams_received + quic.datagrams_dropped)
        ),
    ))
}

pub(super) fn port_exhaustion(record: &Record) -> Option<Finding> {
    let lost = *record.outcomes.get(&Outcome::NoLocalPort)?;
    Some(Finding::new(
        FindingId::PortExhaustion,
        Severity::Error,
        format!(
            "{} requests failed because no local port was free: {}. The side that closes a \
                connection first holds the port for another minute. Use more source addresses \
                (--source), or fewer connections at the same time.",
            number::count(lost),
            ports::described()
        ),
    ))
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
    let mut causes = Vec::new();
    if by_server > 0 {
        causes.push(format!("the server closed {}", number::count(by_server)));
    }
    if for_other_target > 0 {
        causes.push(format!(
            "prony replaced {} because a request went to another server",
            number::count(for_other_target)
        ));
    }
    let action = match by_server > expected {
        true => "Check the server's keep-alive limits.",
        false => "To avoid these connects, load each server alone.",
    };
    Some(Finding::new(
        FindingId::ConnectionsNotReused,
        Severity::Note,
        format!(
            "Keep-alive was requested, but {} connections were opened for {} requests: {}. The \
             figures include the cost of connecting. {action}",
            number::count(totals.connections_opened),
            number::count(totals.started),
            causes.join(", and ")
        ),
    ))
}

pub(super) fn unsolicited_bytes(times: u64) -> Option<Finding> {
    (times > 0).then(|| {
        Finding::new(
            FindingId::UnaskedBytes,
            Severity::Warning,
            format!(
                "The server sent bytes {} times while no request was in flight; each time, \
                    the connection was closed. The responses may be longer than their \
                    Content-Length. Check the Content-Length that the server sends.",
                number::count(times)
            ),
        )
    })
}
