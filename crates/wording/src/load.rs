//! Sentences about one load.

use prony_record::number::RateUnit;
use prony_record::{
    FleetAgent, FleetUse, IdleUse, JourneyResults, LoadInfo, Outcome, QuicUse, Record, ReplayInfo,
    ReplayUse, Severity, SourceCount, SourceSpread, SourceUse, Summary, Totals, WebSocketUse,
    number,
};

use crate::tone::Tone;

/// Caveat on the percentiles of a closed loop.
const CLOSED_LOOP: &str = "Closed loop: a stalled server delays the next requests, so \
    percentiles hide stalls. Use --rate to see them.";

/// The rate and the duration: `48,210 req/s over 10 s`. If requests failed, it is named a rate of
/// successes. If the offered rate changes, a mean rate is given.
pub fn headline(record: &Record) -> String {
    let over = number::span(record.totals.elapsed_s);
    let unit = counted_unit(&record.load);
    let rate = match record.totals.failed {
        0 => unit.rate(record.rate.ok_per_s),
        _ => format!(
            "{} successful {}",
            number::rate_figure(record.rate.ok_per_s),
            unit.per_s()
        ),
    };
    if record.load.stages.is_empty() {
        format!("{rate} over {over}")
    } else {
        format!("{rate} on average over {over}")
    }
}

/// Unit of the totals of a load. Those of journeys count the requests of all steps.
fn counted_unit(load: &LoadInfo) -> RateUnit {
    match load.rate_unit() {
        RateUnit::Journeys => RateUnit::Requests,
        unit => unit,
    }
}

/// The arrival rate of an open loop: `2,000 req/s`, or `100 to 5,000 req/s over 30 s`.
fn offered(load: &LoadInfo) -> Option<String> {
    let unit = load.rate_unit();
    match (load.rate_per_s, load.stages.as_slice()) {
        (Some(rate), _) => Some(unit.rate(rate)),
        (None, []) => None,
        (None, stages) => Some(number::rate_stages(stages, unit)),
    }
}

/// The log that a load sends again: `replay of access.log at 2× the recorded speed`.
pub fn replay(info: &ReplayInfo) -> String {
    let file = &info.file;
    match info.speed {
        Some(1.0) => format!("replay of {file} with its timing"),
        Some(speed) => format!("replay of {file} at {speed}× its speed"),
        None => format!("replay of {file} in order"),
    }
}

/// Describes the kind of load: loop, connections, protocol.
pub fn how(record: &Record) -> String {
    let load = &record.load;
    let mut parts = vec![match offered(load) {
        Some(offered) => format!(
            "open loop, {offered} offered{}",
            load.arrivals
                .as_ref()
                .map_or(String::new(), |kind| format!(" ({kind} arrivals)"))
        ),
        None => format!("{} loop", load.model),
    }];
    parts.extend(load.replay.as_ref().map(replay));
    parts.extend(load.think.as_ref().map(|think| {
        let mean = number::span(think.mean_s);
        match think.distribution.as_str() {
            "exponential" => format!("exponential think times of {mean} on average"),
            _ => format!("think times of {mean}"),
        }
    }));
    parts.push(number::plural(
        load.connections.into(),
        "connection",
        "connections",
    ));
    let http = record.negotiated.http.as_deref().unwrap_or(&load.http);
    if load.streams > 1 && !http.starts_with('1') {
        parts.push(format!(
            "{} streams each",
            number::count(load.streams.into())
        ));
    }
    if let Some(version) = &load.proxy_protocol {
        parts.push(format!("PROXY protocol {version}"));
    }
    if load.tcp_only {
        parts.push("TCP connects only".to_owned());
    } else if !load.keepalive {
        parts.push("one connection per request".to_owned());
    } else if let Some(requests) = load.requests_per_connection {
        parts.push(format!(
            "{} requests per connection",
            number::count(requests)
        ));
    }
    parts.extend(
        load.connection_lifetime_s
            .map(|seconds| format!("connections replaced after {}", number::span(seconds))),
    );
    parts.extend(match http {
        _ if load.tcp_only => None,
        "2" if load.websocket => Some("WebSocket over HTTP/2".to_owned()),
        _ if load.websocket => Some("WebSocket".to_owned()),
        "auto" => Some("HTTP version by ALPN".to_owned()),
        version => Some(format!("HTTP/{version}")),
    });
    if let Some(tls) = &record.negotiated.tls {
        let cipher = record.negotiated.cipher.as_deref().unwrap_or("");
        parts.push(format!("{tls} {cipher}").trim_end().to_owned());
    }
    parts.push(number::plural(load.threads.into(), "thread", "threads"));
    parts.extend(load.grpc.as_ref().map(|method| format!("gRPC {method}")));
    parts.extend(
        load.events
            .as_ref()
            .map(|events| match events.format.as_str() {
                "sse" => "server-sent events".to_owned(),
                "grpc" => "messages as events".to_owned(),
                "fan-out" => "fan-out, arrivals as events".to_owned(),
                format => format!("events by {format}"),
            }),
    );
    parts.extend(load.script.as_ref().map(|file| format!("script {file}")));
    parts.extend(load.data.as_ref().map(|file| format!("data from {file}")));
    if load.cookies {
        parts.push("cookies".to_owned());
    }
    if load.steps > 0 {
        parts.push(format!(
            "journeys of {}",
            number::plural(load.steps, "step", "steps")
        ));
    } else if load.urls > 1 {
        parts.push(format!(
            "{} requests in the list",
            number::count(load.urls.into())
        ));
    }
    parts.join(", ")
}

/// The caveat on a closed loop's percentiles; `None` for an open loop.
pub fn closed_loop_caveat(record: &Record) -> Option<&'static str> {
    (record.load.model == "closed").then_some(CLOSED_LOOP)
}

/// States that an open loop fell short of the offered rate.
pub fn shortfall(record: &Record) -> Option<String> {
    let offered = record.rate.offered_per_s?;
    let achieved = record.rate.ok_per_s;
    let unit = counted_unit(&record.load);
    (achieved < offered * 0.99).then(|| {
        format!(
            "{} of {} offered succeeded ({}).",
            unit.rate(achieved),
            unit.rate(offered),
            number::share(achieved / offered)
        )
    })
}

/// The events of streamed responses: how many arrived, per second and per response. `None` for other
/// loads.
pub fn events(record: &Record) -> Option<String> {
    let events = record.events.as_ref()?;
    let info = record.load.events.as_ref();
    let field = info.and_then(|info| info.field.as_ref());
    let count = number::plural(events.events, "event", "events");
    let mut text = match field {
        Some(field) => format!("{count} with {field}"),
        None => count,
    };
    text += &format!(": {} events/s", number::rate_figure(events.events_per_s));
    if let Some(per_response) = events.events_per_response {
        let figure = number::significant(per_response, 3);
        text += &format!(", {figure} per response");
    }
    if let (Some(chars), Some(_)) = (events.chars, field) {
        let count = number::plural(chars, "character", "characters");
        let per_s = chars as f64 / record.totals.elapsed_s.max(f64::MIN_POSITIVE);
        text += &format!("; {count}, {}/s", number::rate_figure(per_s));
    }
    if events.other_events > 0 {
        let others = number::plural(events.other_events, "event", "events");
        text += &format!("; {others} without it");
    }
    Some(text)
}

/// Returns two strings: the numbers of requests and successes, and the number of failures. The
/// second is `None` if no request failed.
pub fn requests(record: &Record) -> (String, Option<String>) {
    let totals = &record.totals;
    let many = counted_unit(&record.load).noun();
    let all = format!(
        "{}: {} ok",
        number::plural(totals.started, many.trim_end_matches('s'), many),
        number::count(totals.ok)
    );
    if totals.failed == 0 {
        return (all, None);
    }
    let share = totals.failed as f64 / (totals.ok + totals.failed) as f64;
    let failed = format!(
        "{} failed ({})",
        number::count(totals.failed),
        number::share(share)
    );
    (all, Some(failed))
}

/// Ends of the journeys: `774 journeys: 511 completed (170/s), 255 failed (33%)`. A journey
/// fails with the first step that fails.
pub fn journeys(results: &JourneyResults) -> String {
    let mut parts = vec![format!(
        "{} completed ({}/s)",
        number::count(results.completed),
        number::rate_figure(results.completed_per_s)
    )];
    if results.failed > 0 {
        let share = number::share(results.failed_share());
        parts.push(format!(
            "{} failed ({share})",
            number::count(results.failed)
        ));
    }
    for (count, what) in [
        (results.unfinished, "unfinished"),
        (results.unstarted, "not begun, because no user was free"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", number::count(count)));
        }
    }
    let all = results.started + results.unstarted;
    let mut text = format!(
        "{}: {}.",
        number::plural(all, "journey", "journeys"),
        parts.join(", ")
    );
    if results.failed > 0 {
        text += " A journey ends with the first step that fails.";
    }
    text
}

/// The requests that were in flight when the load ended, if any. Their outcome is unknown, and the
/// server is not at fault.
pub fn in_flight(record: &Record) -> Option<String> {
    let totals = &record.totals;
    let bounds = totals.unfinished.saturating_sub(totals.unfinished_untimed);
    let text = format!("in flight at the end: {}", number::count(totals.unfinished));
    match (totals.unfinished, bounds) {
        (0, _) => None,
        (_, 0) => Some(text),
        (all, bounds) if all == bounds => Some(format!("{text} (counted as lower bounds)")),
        (_, bounds) => Some(format!(
            "{text} ({} of them counted as lower bounds)",
            number::count(bounds)
        )),
    }
}

/// The color of a load's summary, determined by its most severe finding.
pub fn tone(record: &Record) -> Tone {
    match record.findings.iter().map(|it| it.severity).max() {
        Some(Severity::Error) => Tone::Bad,
        Some(Severity::Warning) => Tone::Care,
        Some(Severity::Note) | None => Tone::Good,
    }
}

/// The most severe findings in words: `Error: generator stalled`; `None` if no finding is an
/// error or a warning.
pub fn most_severe(record: &Record) -> Option<String> {
    let ((one, many), severity) = match tone(record) {
        Tone::Bad => (("Error", "Errors"), Severity::Error),
        Tone::Care => (("Warning", "Warnings"), Severity::Warning),
        Tone::Good | Tone::Muted => return None,
    };
    let names = record.findings.iter().filter(|it| it.severity == severity);
    let mut names: Vec<String> = names.map(|it| it.id.words()).collect();
    names.dedup();
    let word = if names.len() == 1 { one } else { many };
    Some(format!("{word}: {}", names.join(", ")))
}

/// Formats a percentile or a mean, with ≥ before it if it is only a lower bound. A mean is a lower
/// bound if any value of the summary is one.
pub fn time_at(summary: &Summary, name: &str, value: f64) -> String {
    let is_bound = summary.at_least.iter().any(|bound| bound == name)
        || name == "mean" && !summary.at_least.is_empty();
    let sign = if is_bound { "≥ " } else { "" };
    format!("{sign}{}", number::time(value))
}

/// Explains an outcome to readers who don't know its name.
pub fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "",
        Outcome::UnexpectedStatus => "complete responses with an unexpected status",
        Outcome::UnexpectedSize => "complete responses with an unexpected size",
        Outcome::UnexpectedBody => "complete responses with an unexpected body",
        Outcome::Dns => "the name did not resolve",
        Outcome::ConnectRefused => "nothing listens on this port",
        Outcome::ConnectTimeout => "the connection timed out",
        Outcome::ConnectUnreachable => "no route to the server",
        Outcome::ConnectFailed => "the connection failed; the findings give the reason",
        Outcome::NoLocalPort => "this machine ran out of local ports",
        Outcome::TooManyFiles => "this machine reached its limit of open files",
        Outcome::Tls => "the TLS handshake or a TLS record failed",
        Outcome::Reset => "the connection was reset",
        Outcome::ClosedEarly => "the connection closed before the response began",
        Outcome::Truncated => "the connection closed during the response",
        Outcome::Protocol => "the response violated the protocol",
        Outcome::Capture => "a step did not find a value in the response",
        Outcome::Call(failure) => failure.meaning(),
        Outcome::StoppedEarly => "streams that ended without an event, or within one",
        Outcome::NoEndMarker => "streams that ended without the end marker",
        Outcome::Stalled => "no further event arrived in time",
        Outcome::Redirect => "redirects that could not be followed",
        Outcome::Timeout => "no complete response in time",
        Outcome::Unfinished => "in flight when the load ended",
        Outcome::Unstarted => "due, but not started when the load ended",
    }
}

/// The count of each status: `200: 1,234, 503: 5`.
pub fn statuses(record: &Record) -> String {
    let each = record.status.iter();
    let texts = each.map(|(status, &n)| format!("{status}: {}", number::count(n)));
    texts.collect::<Vec<_>>().join(", ")
}

/// States whether the connections that were open at the start of the measurement had been opened
/// during the warm-up or before the load. Agents open their connections before the load starts.
fn reused(is_fleet: bool, warmup_s: f64) -> &'static str {
    if is_fleet && warmup_s == 0.0 {
        "opened before the start were used"
    } else {
        "from the warm-up were reused"
    }
}

/// The command, the time and the machine of a load, by name.
pub fn provenance(record: &Record) -> Vec<(String, String)> {
    let started = record.started_at.replace('T', " ").replace('Z', " UTC");
    let all = [
        ("command", record.command.clone()),
        ("started", (!started.is_empty()).then_some(started)),
        ("machine", record.machine.clone()),
    ];
    let known = all.into_iter();
    known
        .filter_map(|(name, text)| Some((name.to_owned(), text?)))
        .collect()
}

/// The remaining facts by name: bytes, connections, the generator's own cost.
pub fn load_facts(record: &Record) -> Vec<(String, String)> {
    let totals = &record.totals;
    let bytes = |n: u64| number::bytes(n as f64);
    let mut facts = Vec::new();
    if !record.status.is_empty() {
        facts.push(("status", statuses(record)));
    }
    facts.push((
        "bytes",
        format!(
            "{} in ({}/s), including {} of bodies; {} out",
            bytes(totals.bytes_in),
            number::bytes(record.rate.bytes_in_per_s),
            bytes(totals.body_bytes_in),
            bytes(totals.bytes_out)
        ),
    ));
    let mut connections = format!("{} opened", number::count(totals.connections_opened));
    if totals.connections_opened == 0 && totals.ok > 0 {
        let from = reused(record.fleet.is_some(), record.load.warmup_s);
        connections = format!("none opened while measuring (connections {from})");
    }
    if totals.tls_handshakes > 0 {
        connections += &match totals.tls_resumed {
            0 => " with full TLS handshakes".to_owned(),
            resumed => format!(
                ", {} of {} TLS handshakes resumed",
                number::count(resumed),
                number::count(totals.tls_handshakes)
            ),
        };
    }
    if totals.retried > 0 {
        connections += &format!(
            "; {} retried on another connection",
            number::plural(totals.retried, "request", "requests")
        );
    }
    if totals.redirected > 0 {
        connections += &format!(
            "; {} followed",
            number::plural(totals.redirected, "redirect", "redirects")
        );
    }
    facts.push(("connections", connections));
    facts.extend(key_exchanges(totals).map(|text| ("key exchange", text)));
    facts.extend(record.quic.as_ref().map(|used| ("QUIC", quic(used))));
    facts.extend(
        record
            .sources
            .as_ref()
            .map(|used| ("sources", sources(used))),
    );
    let fan_out = record.websocket.as_ref();
    let fan_out = fan_out.filter(|it| it.deliveries + it.deliveries_lost > 0);
    facts.extend(fan_out.map(|used| ("fan-out", deliveries(used))));
    facts.extend(record.replay.as_ref().map(|used| ("log", log(used))));
    let unawaited = record.websocket.as_ref().filter(|it| it.unawaited > 0);
    facts.extend(unawaited.map(|used| ("unawaited", unawaited_messages(used))));
    facts.extend(record.idle.as_ref().map(|used| ("idle", idle(used))));
    let used = record.addresses.as_ref();
    facts.extend(used.map(|used| ("addresses", addresses(used))));
    facts.extend(record.fleet.as_ref().map(|fleet| ("agents", agents(fleet))));
    facts.push(("generator", generator(record)));
    facts.extend(starts(record).map(|starts| ("starts", starts)));
    let facts = facts.into_iter();
    facts.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Returns the groups of the key exchanges, the most frequent first; `None` if there were none.
fn key_exchanges(totals: &Totals) -> Option<String> {
    let mut groups: Vec<(&String, u64)> = totals.tls_groups.iter().map(|(n, c)| (n, *c)).collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all: u64 = groups.iter().map(|(_, count)| count).sum();
    let share = |count: u64| number::share(count as f64 / all as f64);
    let mut text = match groups.as_slice() {
        [] => return None,
        [(name, count)] => format!(
            "{name} on {}",
            number::plural(*count, "connection", "connections")
        ),
        _ => {
            let each = groups.iter();
            let each = each.map(|(name, count)| format!("{name} {}", share(*count)));
            format!(
                "{} of {} connections",
                Vec::from_iter(each).join(", "),
                number::count(all)
            )
        }
    };
    if totals.tls_hello_retries > 0 {
        text += &format!(
            "; another key share was needed for {} (HelloRetryRequest)",
            number::count(totals.tls_hello_retries)
        );
    }
    Some(text)
}

/// Packets, losses and system calls of QUIC.
fn quic(used: &QuicUse) -> String {
    let per_call =
        |datagrams: u64, calls: u64| number::significant(datagrams as f64 / calls.max(1) as f64, 2);
    let share = used.packets_lost as f64 / used.packets_sent.max(1) as f64;
    let lost = match used.packets_lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost ({})", number::count(lost), number::share(share)),
    };
    let received = match used.packets_received {
        // Records of earlier versions don't contain the number of received packets.
        0 => number::plural(used.datagrams_received, "datagram", "datagrams"),
        packets => number::plural(packets, "packet", "packets"),
    };
    let early_data = match (used.early_data_offered, used.early_data_accepted) {
        (0, _) => String::new(),
        (offered, accepted) => format!(
            "; early data (0-RTT) accepted on {} of {} ({})",
            number::count(accepted),
            number::plural(
                offered,
                "connection that offered it",
                "connections that offered it"
            ),
            number::share(accepted as f64 / offered as f64),
        ),
    };
    format!(
        "{} packets sent, {lost}; {received} received; {} datagrams per send call, {} per receive \
         call; datagrams of up to {} bytes{early_data}",
        number::count(used.packets_sent),
        per_call(used.datagrams_sent, used.send_calls),
        per_call(used.datagrams_received, used.receive_calls),
        number::count(used.mtu_bytes.into()),
    )
}

/// The number of source addresses used, and how connections and requests are distributed over them.
fn sources(used: &SourceUse) -> String {
    let of_each = |spread: SourceSpread, one: &str, many: &str| match (spread.least, spread.most) {
        (least, most) if least == most => number::plural(least, one, many),
        (least, most) => format!(
            "{} to {} {many} (median {})",
            number::count(least),
            number::count(most),
            number::count(spread.median)
        ),
    };
    let mut text = format!(
        "{} of {} {}, {}",
        number::count(used.used),
        number::count(used.given),
        match used.kind.as_str() {
            "told" => "announced by the PROXY protocol",
            _ => "used",
        },
        used.order
    );
    if used.used > 0 {
        text += "; from each ";
        // Without new connections in the measured part, those from the warm-up may still be in use.
        if used.connections.most > 0 {
            text += &of_each(used.connections, "connection", "connections");
            text += ", ";
        }
        text += &of_each(used.ok, "request ok", "requests ok");
        if used.failed.most > 0 {
            text += &format!(", {}", of_each(used.failed, "failed", "failed"));
        }
    }
    if let Some(beyond) = used.beyond {
        text += &format!(
            "; other sources: {} and {} ok, not counted separately",
            number::plural(beyond.connections, "connection", "connections"),
            number::plural(beyond.ok, "request", "requests")
        );
    }
    text
}

/// The arrivals of the messages of a fan-out.
fn deliveries(used: &WebSocketUse) -> String {
    let all = used.deliveries + used.deliveries_lost;
    let share = used.deliveries_lost as f64 / all.max(1) as f64;
    let arrived = number::plural(used.deliveries, "message arrived", "messages arrived");
    match used.deliveries_lost {
        0 => format!("{arrived}, none was lost"),
        lost => format!(
            "{arrived}, {} lost ({})",
            number::count(lost),
            number::share(share)
        ),
    }
}

/// Maximum number of reasons that are named for missing idle connections.
const IDLE_REASONS_MAX: usize = 3;

/// The messages of WebSockets that no message of the load awaited.
fn unawaited_messages(used: &WebSocketUse) -> String {
    let count = number::plural(used.unawaited, "message", "messages");
    format!("{count} of the server arrived while no response was awaited")
}

/// The connections that only stayed open.
fn idle(used: &IdleUse) -> String {
    let mut text = format!(
        "{} of {} open at the start, {} at the end",
        number::count(used.open_at_begin),
        number::plural(used.wanted, "idle connection", "idle connections"),
        number::count(used.open_at_end),
    );
    if used.reopened > 0 {
        text += &format!("; {} lost and opened again", number::count(used.reopened));
    }
    let mut reasons: Vec<_> = used.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, count) in reasons.into_iter().take(IDLE_REASONS_MAX) {
        text += &format!("; {reason} ({}×)", number::count(*count));
    }
    text
}

/// The requests and connections of each address of the servers.
fn addresses(used: &SourceUse) -> String {
    let requests = |count: &SourceCount| count.totals.ok + count.totals.failed;
    let all: u64 = used.each.iter().map(requests).sum();
    let each = used.each.iter().map(|count| {
        let mut text = format!(
            "{} with {} of the requests and {}",
            count.address,
            number::share(requests(count) as f64 / all.max(1) as f64),
            number::plural(count.totals.connections, "connection", "connections"),
        );
        if count.totals.failed > 0 {
            text += &format!(", {} failed", number::count(count.totals.failed));
        }
        text
    });
    match used.each.len() {
        1..=LISTED_AGENTS_MAX => Vec::from_iter(each).join("; "),
        _ => sources(used),
    }
}

/// Maximum number of agents that are listed individually. If there are more, they are summarized.
const LISTED_AGENTS_MAX: usize = 8;

/// The agents that sent the load, and the time between their first requests.
fn agents(fleet: &FleetUse) -> String {
    let described = |agent: &FleetAgent| {
        let ok = number::count(agent.ok);
        match agent.ended_because.as_str() {
            "done" => format!("{} {ok} ok", agent.name),
            because => format!("{} {ok} ok ({because})", agent.name),
        }
    };
    let each: Vec<String> = match fleet.agents.len() {
        0..=LISTED_AGENTS_MAX => fleet.agents.iter().map(described).collect(),
        many => {
            let ok = || fleet.agents.iter().map(|agent| agent.ok);
            let others = fleet.agents.iter().filter(|it| it.ended_because != "done");
            let all = format!(
                "{many} with {} to {} ok each",
                number::count(ok().min().unwrap_or(0)),
                number::count(ok().max().unwrap_or(0))
            );
            std::iter::once(all)
                .chain(others.take(LISTED_AGENTS_MAX).map(described))
                .collect()
        }
    };
    let mut text = each.join(", ");
    if let Some(skew) = fleet.start_skew_us {
        text += &format!("; first requests within {}", number::time(skew));
    }
    text + &format!(
        "; clock offsets known to within {}; run {}",
        number::time(fleet.clock_bound_us),
        fleet.run
    )
}

/// The rate that an open loop's schedule offered, the share of requests that were started, their
/// lateness, and the gaps between them; `None` for a closed loop.
fn starts(record: &Record) -> Option<String> {
    let offered = record.rate.offered_per_s?;
    let due = record.totals.started + record.totals.unstarted;
    let late = &record.generator.late_us;
    let mut starts = format!(
        "{} offered, {} started; lateness p50 {}, p99 {}, max {}",
        number::rate(offered),
        number::share(record.totals.started as f64 / due.max(1) as f64),
        number::time(late.p50),
        number::time(late.p99),
        number::time(late.max)
    );
    if let Some(gaps) = &record.generator.start_gaps {
        let (seen, asked) = (&gaps.actual, &gaps.intended);
        starts += &format!(
            "; {} p50 {}, p99 {}, max {} (intended {}, {} and {})",
            match record.load.threads {
                1 => "gaps",
                _ => "each worker's gaps",
            },
            number::time(seen.p50_us),
            number::time(seen.p99_us),
            number::time(seen.max_us),
            number::time(asked.p50_us),
            number::time(asked.p99_us),
            number::time(asked.max_us),
        );
    }
    Some(starts)
}

/// The lines of a log, and what was done with them.
fn log(used: &ReplayUse) -> String {
    let mut text = number::plural(used.lines, "line", "lines");
    text += if used.ended_early {
        " read before the load ended"
    } else {
        " read"
    };
    let counts = [
        (used.skipped_lines(), "not sent"),
        (
            used.set_forward,
            "with a time before that of an earlier line",
        ),
        (used.jumps, "after a pause or step back that was left out"),
    ];
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {} {what}", number::count(*count));
    }
    if used.handovers > 0 {
        let times = number::plural(used.handovers, "time", "times");
        text += &format!("; a connection passed to another client {times}");
    }
    text
}

fn generator(record: &Record) -> String {
    let generator = &record.generator;
    let ended = (record.totals.ok + record.totals.failed).max(1) as f64;
    let per_request = |seconds: f64| number::time(seconds * 1e6 / ended);
    format!(
        "{} of CPU per request ({} user, {} system), busiest worker {:.0}% busy, {}",
        per_request(generator.cpu_user_s + generator.cpu_system_s),
        per_request(generator.cpu_user_s),
        per_request(generator.cpu_system_s),
        generator.busy_share * 100.0,
        number::bytes(generator.max_rss_bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_in_the_unit_of_the_load() {
        let texts = |set: fn(&mut LoadInfo)| {
            let mut record = Record::default();
            set(&mut record.load);
            (record.totals.started, record.totals.ok) = (1, 1);
            (record.totals.elapsed_s, record.rate.ok_per_s) = (1.0, 1.0);
            record.rate.offered_per_s = Some(2.0);
            [
                headline(&record),
                requests(&record).0,
                shortfall(&record).unwrap(),
            ]
            .join("; ")
        };
        let requests = "1.00 req/s over 1 s; 1 request: 1 ok; 1.00 req/s of 2.00 req/s offered \
                        succeeded (50%).";
        assert_eq!(texts(|_| ()), requests);
        assert_eq!(texts(|load| load.steps = 2), requests);
        assert_eq!(
            texts(|load| load.tcp_only = true),
            "1.00 connections/s over 1 s; 1 connection: 1 ok; 1.00 connections/s of 2.00 \
             connections/s offered succeeded (50%)."
        );
        assert!(texts(|load| load.websocket = true).contains("; 1 message: 1 ok; "));
    }

    #[test]
    fn agents_are_one_line_that_names_the_lost_ones() {
        let agent = |n: u64, because: &str| FleetAgent {
            name: format!("a{n}"),
            ok: n * 1000,
            ended_because: because.to_owned(),
            ..FleetAgent::default()
        };
        let mut fleet = FleetUse {
            run: "r1".to_owned(),
            agents: vec![agent(1, "done"), agent(2, "lost")],
            start_skew_us: Some(412.0),
            clock_bound_us: 90.0,
        };
        assert_eq!(
            agents(&fleet),
            "a1 1,000 ok, a2 2,000 ok (lost); first requests within 412 µs; clock offsets known to \
             within 90.0 µs; run r1"
        );
        fleet.agents.extend((3..20).map(|n| agent(n, "done")));
        let text = agents(&fleet);
        let begin = "19 with 1,000 to 19,000 ok each, a2 2,000 ok (lost); ";
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn reused_connections_come_from_the_warm_up_if_there_was_one() {
        assert_eq!(reused(true, 0.0), "opened before the start were used");
        assert_eq!(reused(true, 1.0), "from the warm-up were reused");
        assert_eq!(reused(false, 1.0), "from the warm-up were reused");
    }

    #[test]
    fn sources_are_one_line_with_minimum_and_maximum() {
        let spread = |least, median, most| SourceSpread {
            least,
            median,
            most,
        };
        let mut used = SourceUse {
            kind: "bound".to_owned(),
            order: "round-robin".to_owned(),
            given: 12_000,
            used: 12_000,
            connections: spread(1, 1, 1),
            ok: spread(4, 6, 9),
            ..SourceUse::default()
        };
        assert_eq!(
            sources(&used),
            "12,000 of 12,000 used, round-robin; from each 1 connection, 4 to 9 requests ok \
             (median 6)"
        );
        used.connections = spread(0, 0, 0);
        let text = sources(&used);
        assert!(text.contains("; from each 4 to 9 requests ok"), "{text}");
        used.failed = spread(0, 0, 2);
        used.kind = "told".to_owned();
        let text = sources(&used);
        assert!(text.contains("announced by the PROXY protocol"), "{text}");
        assert!(text.ends_with(", 0 to 2 failed (median 0)"), "{text}");
    }
}
