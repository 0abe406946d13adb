//! Limits on what agents claim in their results.
//!
//! An agent's credentials may be stolen. Nothing that an agent sends may make the coordinator use
//! unbounded memory or time, reach a terminal unfiltered, or produce absurd results.

use prony_record::{Finding, Generator, SourceUse, Summary};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::legible::{FINDING_TEXT_MAX, legible, short};
use super::result::PartEnd;

/// Maximum number of findings that are kept from one agent.
const FINDINGS_MAX: usize = 32;
/// Maximum size of the figures of a finding, as JSON.
const FIGURES_BYTES_MAX: usize = 16 << 10;
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
    let bounded = named.take(FINDINGS_MAX).map(|finding| {
        let figures = serde_json::to_string(&finding.figures).unwrap_or_default();
        let is_small = figures.len() <= FIGURES_BYTES_MAX;
        let finding = Finding {
            text: legible(&finding.text, FINDING_TEXT_MAX),
            figures: if is_small {
                finding.figures
            } else {
                Map::new()
            },
            ..finding
        };
        finding.with_texts(|text| legible(text, FINDING_TEXT_MAX))
    });
    bounded.collect()
}

/// Replaces implausible values in the [`PartEnd`] that an agent sent. The returned bool is false if
/// spans or start times were implausible. `latest_ns` is the longest plausible time since the start
/// of the load.
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
        negotiated: bounded(&claimed.negotiated).unwrap_or_default(),
        quic: claimed.quic.as_ref().and_then(bounded),
        websocket: claimed.websocket.as_ref().and_then(bounded),
        sources: claimed.sources.as_ref().and_then(sources),
        idle: claimed.idle.as_ref().and_then(bounded),
        addresses: claimed.addresses.as_ref().and_then(sources),
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
        xdp: claimed.xdp.as_ref().and_then(bounded),
        throttling: claimed.throttling.as_ref().and_then(bounded),
        // Lateness and start gaps come from the agent's histograms instead.
        ..Generator::default()
    }
}

/// Limits the number of source addresses, in addition to all counts and strings.
fn sources(claimed: &SourceUse) -> Option<SourceUse> {
    let mut sources = bounded(claimed)?;
    sources.each.truncate(SOURCES_MAX);
    Some(sources)
}

/// Limits all counts and strings in a value, by converting it to JSON and back. Returns `None` if
/// the limited value can't be parsed.
fn bounded<T: Serialize + DeserializeOwned>(claimed: &T) -> Option<T> {
    let mut json = serde_json::to_value(claimed).ok()?;
    limit(&mut json);
    serde_json::from_value(json).ok()
}

fn limit(json: &mut Value) {
    match json {
        Value::Number(number) if number.as_u64() > Some(COUNT_MAX) => *number = COUNT_MAX.into(),
        Value::String(text) => *text = short(text),
        Value::Array(items) => items.iter_mut().for_each(limit),
        Value::Object(fields) => fields.values_mut().for_each(limit),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use prony_record::{
        FindingId, Negotiated, QuicUse, Severity, SourceCount, SourceSpread, SourceTotals, XdpUse,
    };

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
                xdp: Some(XdpUse {
                    mode: "native".to_owned(),
                    zero_copy: true,
                    packets_sent: 7,
                    ..XdpUse::default()
                }),
                ..Generator::default()
            },
            response_time_us: None,
            negotiated: Negotiated {
                http: Some("HTTP/3".to_owned()),
                server_key_bits: Some(2_048),
                ..Negotiated::default()
            },
            quic: Some(QuicUse {
                version: 1,
                packets_sent: COUNT_MAX,
                mtu_bytes: u16::MAX,
                ..QuicUse::default()
            }),
            websocket: None,
            sources: Some(source_use(8)),
            addresses: Some(source_use(8)),
            idle: None,
            findings: Vec::new(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    fn source_use(connections: u64) -> SourceUse {
        let totals = SourceTotals {
            connections,
            ok: 5,
            failed: 1,
        };
        let count = SourceCount {
            address: "fd00::1".parse().unwrap(),
            totals,
        };
        SourceUse {
            kind: "bound".to_owned(),
            connections: SourceSpread {
                least: connections,
                ..SourceSpread::default()
            },
            beyond: Some(totals),
            each: vec![count; 2],
            ..SourceUse::default()
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
    fn counts_and_texts_are_limited_at_any_depth() {
        let long = "x".repeat(1 << 20);
        let mut claimed = end();
        claimed.negotiated.cipher = Some(long.clone());
        claimed.generator.xdp = Some(XdpUse {
            mode: "\x1b[2J".to_owned(),
            polls: u64::MAX,
            ..XdpUse::default()
        });
        claimed.quic = Some(QuicUse {
            send_calls: u64::MAX,
            ..QuicUse::default()
        });
        let mut claimed_sources = source_use(u64::MAX);
        claimed_sources.each = vec![claimed_sources.each[0]; 2 * SOURCES_MAX];
        claimed.sources = Some(claimed_sources);
        let (end, _) = part_end(claimed, 4_000_000_000);
        assert_eq!(end.negotiated.cipher, Some(short(&long)));
        let xdp = end.generator.xdp.unwrap();
        assert_eq!((xdp.mode.as_str(), xdp.polls), ("\u{fffd}[2J", COUNT_MAX));
        assert_eq!(end.quic.unwrap().send_calls, COUNT_MAX);
        let mut expected = source_use(COUNT_MAX);
        expected.each = vec![expected.each[0]; SOURCES_MAX];
        assert_eq!(end.sources, Some(expected));
    }

    #[test]
    fn texts_are_bounded_and_legible() {
        let finding = |id: &str, text: String| Finding {
            id: id.to_owned().into(),
            ..Finding::stored(FindingId::IoFallback, Severity::Note, text)
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
        let mut large = finding("errors", String::new());
        let text = |length| Value::from("\x1b".repeat(length));
        large.figures.insert("reason".to_owned(), text(3));
        let kept = &findings(vec![large.clone()])[0];
        assert_eq!(kept.figures["reason"], "\u{fffd}".repeat(3));
        large.figures.insert("reason".to_owned(), text(1 << 20));
        assert!(findings(vec![large])[0].figures.is_empty());
        let many = vec![finding("errors", String::new()); 10_000];
        assert_eq!(findings(many).len(), FINDINGS_MAX);
    }
}
