//! Findings about connections and about the limits that the server sets on them.

use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};
use crate::number;

const BASE: FindingInfo = FindingInfo::BASE;

pub(in crate::finding) const PORT_EXHAUSTION: FindingInfo = FindingInfo {
    seen: "Requests failed because no local port was free.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::Speed,
    meaning: "Each source address has a limited number of ports per server address. The side that \
        closes a connection first keeps its port for another minute.",
    action: "Use more source addresses (`--source`), or fewer concurrent connections.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// Requests without a local port.
    PortExhaustion {
        /// Number of requests that failed.
        failed: u64 = sum,
        /// The local ports of this machine, in words.
        ports: String = same,
    }
    |it, _subject| format!(
        "{} requests failed because no local port was free: {}. The side that closes a connection \
         first holds the port for another minute. Use more source addresses (--source), or fewer \
         connections at the same time.",
        number::count(it.failed),
        it.ports
    )
}

pub(in crate::finding) const CONNECTIONS_NOT_REUSED: FindingInfo = FindingInfo {
    seen: "Keep-alive was requested, but the load opened many connections.",
    severities: &[(Note, "")],
    meaning: "The number of connections that ended between requests exceeds the sum of the configured \
              connections, 5% of the requests, and one for each failure. The finding names the \
              side that ended them: the server, or prony, because a redirect or a list led to \
              another server. The figures include the cost of connecting.",
    action: "Check the server's keep-alive limits, unless they are what you are comparing. To avoid \
             connects to other servers, load each server alone.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// Connections that were opened although keep-alive was requested.
    ConnectionsNotReused {
        /// Number of opened connections.
        opened: u64 = sum,
        /// Number of requests.
        started: u64 = sum,
        /// Number of connections that the server closed.
        by_server: u64 = sum,
        /// Number of connections that the load replaced, because a request went to another server.
        for_other_target: u64 = sum,
        /// Number of connections that a load with keep-alive needs.
        expected: u64 = sum,
    }
    |it, _subject| {
        let mut causes = Vec::new();
        if it.by_server > 0 {
            causes.push(format!("the server closed {}", number::count(it.by_server)));
        }
        if it.for_other_target > 0 {
            causes.push(format!(
                "prony replaced {} because a request went to another server",
                number::count(it.for_other_target)
            ));
        }
        let action = if it.by_server > it.expected { "Check the server's keep-alive limits." } else { "To avoid these connects, load each server alone." };
        format!(
            "Keep-alive was requested, but {} connections were opened for {} requests: {}. The \
             figures include the cost of connecting. {action}",
            number::count(it.opened),
            number::count(it.started),
            causes.join(", and ")
        )
    }
}

pub(in crate::finding) const STREAMS_LIMITED: FindingInfo = FindingInfo {
    seen: "The server allows fewer requests per connection than `--streams` asks for.",
    severities: &[(Warning, "")],
    meaning: "Its SETTINGS_MAX_CONCURRENT_STREAMS (HTTP/2) or MAX_STREAMS (QUIC) is lower, or \
        HTTP/1.1 was negotiated. The load was lighter than configured.",
    action: "Raise the server's limit, use more connections, or reduce `--streams`.",
    explains_difference: true,
    ..BASE
};

/// The limit on concurrent requests of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitSource {
    /// SETTINGS_MAX_CONCURRENT_STREAMS of HTTP/2.
    Settings,
    /// MAX_STREAMS of QUIC.
    Quic,
    /// HTTP/1.1 carries one request at a time.
    Http1,
}

figures! {
    /// A server's limit on streams.
    StreamsLimited {
        /// Source of the limit.
        source: LimitSource = same,
        /// Streams that the server allows on a connection.
        limit: u64 = least,
        /// Streams that were requested.
        wanted: u64 = same,
    }
    |it, _subject| {
        let limit = it.limit;
        let s = if limit == 1 { "" } else { "s" };
        let seen = match (it.source, limit) {
            (LimitSource::Settings, 0) => "The server allows no streams on a connection, at least \
                temporarily (SETTINGS_MAX_CONCURRENT_STREAMS is 0)".to_owned(),
            (LimitSource::Settings, _) => format!(
                "The server allows {limit} concurrent stream{s} on a connection \
                 (SETTINGS_MAX_CONCURRENT_STREAMS)"
            ),
            (LimitSource::Quic, 0) => "The server allows no streams on a QUIC connection, at \
                least temporarily (MAX_STREAMS is 0)".to_owned(),
            (LimitSource::Quic, _) => format!(
                "The server allowed no more than {limit} concurrent stream{s} on a QUIC \
                 connection (MAX_STREAMS)"
            ),
            (LimitSource::Http1, _) => {
                "The server chose HTTP/1.1, which carries one request at a time".to_owned()
            }
        };
        let action = match (it.source, limit) {
            (LimitSource::Http1, _) => "Enable HTTP/2 on the server (--http 2 requires it), or use \
                more connections.".to_owned(),
            (_, 0) => "Raise the server's limit.".to_owned(),
            _ => format!(
                "Raise the server's limit, use more connections, or use --streams {limit}."
            ),
        };
        format!(
            "{seen}, but {} were requested. The load had fewer requests in flight than intended. \
             {action}",
            it.wanted
        )
    }
}

pub(in crate::finding) const PACKETS_LOST: FindingInfo = FindingInfo {
    seen: "More than 1% of the packets that the load sent over QUIC or AF_XDP were declared lost.",
    severities: &[(Warning, "")],
    meaning: "Their data was sent again after a delay, and the sender slowed down. The server may have \
              lost packets as well. The results describe the network, or a receiver that was too \
              slow, as much as the server.",
    action: "Look for drops on the path and in the server's UDP buffers (`netstat -su`: receive \
        buffer errors). On a network that loses packets, this is expected.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// Lost packets.
    PacketsLost {
        /// Number of lost packets.
        lost: u64 = sum,
        /// Number of sent packets.
        sent: u64 = sum,
        /// True for QUIC, false for TCP over AF_XDP.
        is_quic: bool = same,
    }
    |it, _subject| {
        let (kind, place) = if it.is_quic { ("QUIC packets", "in the server's UDP buffers") } else { ("packets", "in the server's network interface") };
        format!(
            "{} of the {} {kind} that the load sent were lost ({}). Their data was sent again \
             after a delay. Look for drops on the path and {place}.",
            number::count(it.lost),
            number::count(it.sent),
            number::share(it.lost as f64 / it.sent.max(1) as f64)
        )
    }
}

pub(in crate::finding) const UDP_BUFFER_SMALL: FindingInfo = FindingInfo {
    seen: "Datagrams that had arrived were dropped because the load's receive buffers were full.",
    severities: &[(Warning, "")],
    meaning: "The server had to send them again, so responses were late.",
    action: "Raise the system's limit (`net.core.rmem_max`), or use more workers or fewer streams.",
    ..BASE
};

figures! {
    /// Datagrams that the load's receive buffers couldn't hold.
    UdpBufferSmall {
        /// Number of dropped datagrams.
        dropped: u64 = sum,
        /// Number of datagrams that arrived.
        arrived: u64 = sum,
    }
    |it, _subject| format!(
        "{} of {} datagrams that arrived were dropped because the load's receive buffers were \
         full. Raise net.core.rmem_max, or use more workers or fewer streams.",
        number::count(it.dropped),
        number::count(it.arrived)
    )
}

pub(in crate::finding) const FRAMES_DROPPED: FindingInfo = FindingInfo {
    seen: "Frames were dropped on this machine during a load over AF_XDP: the kernel dropped \
        received frames because a ring was full or a frame was too large, the kernel rejected \
        outgoing frames, or a worker's inbox was full.",
    severities: &[(Warning, "")],
    meaning: "TCP sent the data again after a delay, so responses were late.",
    action: "Use more workers, fewer connections or a lower rate. Frames are too large if the \
        server's end of a virtual link sends frames larger than the MTU (run `ethtool -K NAME tso \
        off gso off` there).",
    ..BASE
};

figures! {
    /// Frames that this machine dropped.
    FramesDropped {
        /// Number of frames dropped when received.
        received: u64 = sum,
        /// Number of frames dropped when sent.
        sent: u64 = sum,
        /// Number of frames dropped between two workers.
        exchanged: u64 = sum,
    }
    |it, _subject| {
        let drops = [
            (it.received, "when received (ring full or frame too large)"),
            (it.sent, "when sent (rejected)"),
            (it.exchanged, "between two workers (inbox full)"),
        ];
        let drops: Vec<String> = drops
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{} {kind}", number::count(count)))
            .collect();
        format!(
            "Some of the load's frames were dropped on this machine: {}. The data was sent again \
             after a delay. Use more workers, fewer connections or a lower rate. If frames were \
             too large, turn off segmentation offload at the server's end of a virtual link.",
            drops.join(", ")
        )
    }
}

pub(in crate::finding) const UNASKED_BYTES: FindingInfo = FindingInfo {
    seen: "The server sent bytes while no request was in flight.",
    severities: &[(Warning, "")],
    meaning: "The connections were closed. The server may send a body that is longer than its \
              Content-Length.",
    action: "Check the Content-Length that the server sends.",
    ..BASE
};

figures! {
    /// Bytes that no request asked for.
    UnaskedBytes {
        /// Number of times that the server sent such bytes.
        times: u64 = sum,
    }
    |it, _subject| format!(
        "The server sent bytes {} times while no request was in flight; each time, the connection \
         was closed. The responses may be longer than their Content-Length. Check the \
         Content-Length that the server sends.",
        number::count(it.times)
    )
}
