//! Limits on what agents claim in their results.
//!
//! An agent's credentials may be stolen. Nothing that an agent sends may make the coordinator use
//! unbounded memory or time, reach a terminal unfiltered, or produce absurd results.

use prony_record::{
    Finding, Generator, Negotiated, QuicUse, SourceSpread, SourceTotals, SourceUse, Summary, XdpUse,
};

use super::legible::{FINDING_TEXT_MAX, legible, short};
use super::result::PartEnd;

/// Maximum number of findings that are kept from one agent.
const FINDINGS_MAX: usize = 32;
/// Maximum number of source addresses of one agent that are listed individually.
const SOURCES_MAX: usize = 1_000;
/// Maximum plausible number of requests, connections or addresses in one agent's share of a load.
const COUNT_MAX: u64 = 1 << 40;
/// Maximum plausible CPU time of an agent for one load, in seconds.
const CPU_MAX_S: f64 = 1e10;
/// Maximum plausible memory use of an agent, in bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 50;

/// Drops findings with invalid IDs, and limits the number and the length of the others.
pub(crate) fn findings(claimed: Vec<Finding>) -> Vec<Finding> {
    let is_name = |id: &str| {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !id.is_empty() && id.len() <= 64 && id.chars().all(is_good)
    };
    let named = claimed
        .into_iter()
        .filter(|finding| is_name(finding.id.as_str()));
    let bounded = named.take(FINDINGS_MAX).map(|finding| Finding {
        text: legible(&finding.text, FINDING_TEXT_MAX),
        ..finding
    });
    bounded.collect()
}

/// Replaces implausible values in the [`PartEnd`] that an agent claims. The returned bool is false
/// if spans or start times were implausible. `latest_ns` is the latest plausible time since the
/// start of the load.
pub(crate) fn part_end(claimed: PartEnd, latest_ns: u64) -> (PartEnd, bool) {
    let is_possible = claimed.span.0 <= claimed.span.1 && claimed.span.1 <= latest_ns;
    let is_soon = |(at, first): &(i64, i64)| {
        first
            .checked_sub(*at)
            .is_some_and(|after| after.unsigned_abs() <= latest_ns)
    };
    let began = claimed.began.filter(is_soon);
    let is_believed = is_possible && began == claimed.began;
    let is_moment = humantime::parse_rfc3339(&claimed.started_at).is_ok();
    let end = PartEnd {
        reason: claimed.reason,
        began,
        span: if is_possible { claimed.span } else { (0, 0) },
        generator: generator(&claimed.generator),
        response_time_us: claimed
            .response_time_us
            .filter(|times| is_plausible(times, latest_ns)),
        negotiated: negotiated(&claimed.negotiated),
        quic: claimed.quic.as_ref().map(quic),
        sources: claimed.sources.as_ref().map(sources),
        findings: findings(claimed.findings),
        started_at: if is_moment {
            claimed.started_at
        } else {
            String::new()
        },
    };
    (end, is_believed)
}

/// Returns true if no response time is longer than the load.
fn is_plausible(times: &Summary, latest_ns: u64) -> bool {
    let figures = [
        times.min,
        times.mean,
        times.p50,
        times.p90,
        times.p99,
        times.p99_9,
        times.max,
    ];
    let latest_us = latest_ns as f64 / 1e3;
    let is_name = |name: &String| name.len() <= 16 && name.chars().all(|c| c.is_ascii_graphic());
    let figures = figures.iter().all(|us| (0.0..=latest_us).contains(us));
    figures && times.at_least.len() <= 16 && times.at_least.iter().all(is_name)
}

fn generator(claimed: &Generator) -> Generator {
    let between = |value: f64, most: f64| {
        if value.is_nan() {
            0.0
        } else {
            value.clamp(0.0, most)
        }
    };
    Generator {
        cpu_user_s: between(claimed.cpu_user_s, CPU_MAX_S),
        cpu_system_s: between(claimed.cpu_system_s, CPU_MAX_S),
        busy_share: between(claimed.busy_share, 1.0),
        awake_share: between(claimed.awake_share, 1.0),
        queue_share: between(claimed.queue_share, 1.0),
        starved_share: between(claimed.starved_share, 1.0),
        max_rss_bytes: claimed.max_rss_bytes.min(MEMORY_BYTES_MAX),
        xdp: claimed.xdp.as_ref().map(xdp),
        // Delays and gaps are derived from the counts instead.
        ..Generator::default()
    }
}

fn negotiated(claimed: &Negotiated) -> Negotiated {
    let text = |text: &Option<String>| text.as_deref().map(short);
    Negotiated {
        http: text(&claimed.http),
        tls: text(&claimed.tls),
        cipher: text(&claimed.cipher),
        group: text(&claimed.group),
        server_key_bits: claimed.server_key_bits,
        alpn: text(&claimed.alpn),
    }
}

fn xdp(claimed: &XdpUse) -> XdpUse {
    let count = |count: u64| count.min(COUNT_MAX);
    XdpUse {
        mode: short(&claimed.mode),
        zero_copy: claimed.zero_copy,
        queues: count(claimed.queues),
        ring_bytes: count(claimed.ring_bytes),
        packets_sent: count(claimed.packets_sent),
        packets_received: count(claimed.packets_received),
        packets_exchanged: count(claimed.packets_exchanged),
        exchange_dropped: count(claimed.exchange_dropped),
        receive_drops: count(claimed.receive_drops),
        transmit_drops: count(claimed.transmit_drops),
        bad_packets: count(claimed.bad_packets),
        out_of_order: count(claimed.out_of_order),
        retransmitted: count(claimed.retransmitted),
        timeouts: count(claimed.timeouts),
        neighbor_replies: count(claimed.neighbor_replies),
        polls: count(claimed.polls),
        wakes: count(claimed.wakes),
        pauses: count(claimed.pauses),
    }
}

fn quic(claimed: &QuicUse) -> QuicUse {
    let count = |count: u64| count.min(COUNT_MAX);
    QuicUse {
        version: claimed.version,
        packets_sent: count(claimed.packets_sent),
        packets_received: count(claimed.packets_received),
        packets_lost: count(claimed.packets_lost),
        datagrams_sent: count(claimed.datagrams_sent),
        datagrams_received: count(claimed.datagrams_received),
        datagrams_dropped: count(claimed.datagrams_dropped),
        send_calls: count(claimed.send_calls),
        receive_calls: count(claimed.receive_calls),
        mtu_bytes: claimed.mtu_bytes,
        early_data_offered: count(claimed.early_data_offered),
        early_data_accepted: count(claimed.early_data_accepted),
    }
}

fn sources(claimed: &SourceUse) -> SourceUse {
    let count = |count: u64| count.min(COUNT_MAX);
    let totals = |totals: SourceTotals| SourceTotals {
        connections: count(totals.connections),
        ok: count(totals.ok),
        failed: count(totals.failed),
    };
    let spread = |spread: SourceSpread| SourceSpread {
        least: count(spread.least),
        median: count(spread.median),
        most: count(spread.most),
    };
    let mut each: Vec<_> = claimed.each.iter().take(SOURCES_MAX).copied().collect();
    each.iter_mut()
        .for_each(|one| one.totals = totals(one.totals));
    SourceUse {
        kind: short(&claimed.kind),
        order: short(&claimed.order),
        given: count(claimed.given),
        used: count(claimed.used),
        connections: spread(claimed.connections),
        ok: spread(claimed.ok),
        failed: spread(claimed.failed),
        beyond: claimed.beyond.map(totals),
        each,
    }
}

#[cfg(test)]
mod tests {
    use prony_record::Severity;

    use super::super::result::EndReason;
    use super::*;

    fn end() -> PartEnd {
        PartEnd {
            reason: EndReason::Done,
            began: Some((1_000, 2_000)),
            span: (0, 3_000_000_000),
            generator: Generator {
                busy_share: 0.5,
                cpu_user_s: 1.5,
                ..Generator::default()
            },
            response_time_us: None,
            negotiated: Negotiated::default(),
            quic: None,
            sources: None,
            findings: Vec::new(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn the_end_of_an_honest_part_is_unchanged() {
        assert_eq!(part_end(end(), 4_000_000_000), (end(), true));
    }

    #[test]
    fn absurd_figures_are_dropped() {
        let latest_ns = 4_000_000_000;
        for span in [(0, u64::MAX), (2, 1), (0, latest_ns + 1)] {
            let (end, is_believed) = part_end(PartEnd { span, ..end() }, latest_ns);
            assert_eq!((end.span, is_believed), ((0, 0), false));
        }
        for began in [(i64::MIN, i64::MAX), (0, i64::MAX), (0, -5_000_000_000)] {
            let began = Some(began);
            let (end, is_believed) = part_end(PartEnd { began, ..end() }, latest_ns);
            assert_eq!((end.began, is_believed), (None, false));
        }
        let absurd = PartEnd {
            generator: Generator {
                cpu_user_s: f64::INFINITY,
                cpu_system_s: f64::NAN,
                busy_share: -1e300,
                awake_share: 7.0,
                max_rss_bytes: u64::MAX,
                ..Generator::default()
            },
            started_at: "\x1b[2J".to_owned(),
            ..end()
        };
        let (end, _) = part_end(absurd, latest_ns);
        let generator = &end.generator;
        assert_eq!(
            (generator.cpu_user_s, generator.cpu_system_s),
            (CPU_MAX_S, 0.0)
        );
        assert_eq!((generator.busy_share, generator.awake_share), (0.0, 1.0));
        assert_eq!(
            (generator.max_rss_bytes, end.started_at.as_str()),
            (MEMORY_BYTES_MAX, "")
        );
    }

    #[test]
    fn texts_are_bounded_and_legible() {
        let finding = |id: &str, text: String| Finding {
            id: id.to_owned().into(),
            severity: Severity::Note,
            text,
        };
        let claimed = [
            finding("errors", "\x1b]0;title\x07".to_owned()),
            finding("Not a name", String::new()),
            finding("errors", "x".repeat(1 << 20)),
        ];
        let kept = findings(claimed.to_vec());
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].text, "\u{fffd}]0;title\u{fffd}");
        assert_eq!(kept[1].text.len(), FINDING_TEXT_MAX);
        let many = vec![finding("errors", String::new()); 10_000];
        assert_eq!(findings(many).len(), FINDINGS_MAX);
    }
}
