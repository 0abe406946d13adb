//! Findings about requests that failed or were sent again.

use std::collections::BTreeMap;

use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};
use crate::load_abort::LoadAbort;
use crate::number;

const BASE: FindingInfo = FindingInfo::BASE;

/// Maximum number of failure reasons that the text names, the most frequent first.
const REASONS_NAMED_MAX: usize = 5;

pub(in crate::finding) const ERRORS: FindingInfo = FindingInfo {
    seen: "Requests failed.",
    severities: &[
        (Note, "any request failed"),
        (Warning, "more than 0.1% failed"),
        (
            Error,
            "more than 5% failed, or more than 10% of the half-second slices had failed requests \
             but no successful ones",
        ),
    ],
    withholds: WithheldVerdicts::AllButFailures,
    meaning: "Rate and times describe the successful requests only. A server that fails quickly can \
              look fast. The verdict on the share of failed requests is still given.",
    action: "Read the outcomes and the most frequent reasons, and check the server's log.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// Failed requests.
    Errors {
        /// Number of failed requests.
        failed: u64 = sum,
        /// Number of requests that ended.
        ended: u64 = sum,
        /// Number of failed requests by the name of their outcome.
        outcomes: BTreeMap<String, u64> = sums,
        /// Number of failures by outcome and reason, such as `connect_refused: Connection refused`.
        reasons: BTreeMap<String, u64> = sums,
    }
    |it, _subject| {
        let kinds = it.outcomes.iter();
        let kinds = kinds.map(|(outcome, count)| format!("{} {outcome}", number::count(*count)));
        let mut text = format!(
            "{} of {} requests failed ({}): {}.",
            number::count(it.failed),
            number::count(it.ended),
            number::share(it.failed as f64 / it.ended.max(1) as f64),
            kinds.collect::<Vec<_>>().join(", ")
        );
        let mut reasons: Vec<(&String, &u64)> = it.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let (named, others) = reasons.split_at(reasons.len().min(REASONS_NAMED_MAX));
        for (reason, count) in named {
            text.push_str(&format!(" {reason} ({}×).", number::count(**count)));
        }
        if !others.is_empty() {
            let count: u64 = others.iter().map(|(_, count)| **count).sum();
            text.push_str(&format!(
                " {} more failures had {} other reasons.",
                number::count(count),
                others.len()
            ));
        }
        text
    }
}

pub(in crate::finding) const REQUESTS_RETRIED: FindingInfo = FindingInfo {
    seen: "Requests on reused connections were lost and sent again.",
    severities: &[
        (Note, "more than 0.1% of the requests"),
        (Warning, "more than 5% of the requests"),
    ],
    meaning: "The server closed a connection that it had announced as persistent, or refused a \
        stream. The response times include both attempts.",
    action: "Check the server's keep-alive timeout and its limit on requests per connection.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// Requests that were sent again.
    RequestsRetried {
        /// Number of retried requests.
        retried: u64 = sum,
        /// Number of requests.
        started: u64 = sum,
        /// HTTP version, such as `2`, if it was negotiated.
        http: Option<String> = same,
    }
    |it, _subject| {
        let cause = match it.http.as_deref() {
            Some("2") => {
                "the server closed their connection, or refused them (GOAWAY, REFUSED_STREAM)"
            }
            Some("3") => {
                "the server closed their connection, or refused them (GOAWAY, early data, 425 Too \
                 Early)"
            }
            _ => "the server closed their connection although it had promised to keep it open",
        };
        format!(
            "{} of {} requests ({}) were lost and sent again: {cause}. Their response times \
             include both attempts. Check the server's keep-alive limits.",
            number::count(it.retried),
            number::count(it.started),
            number::share(it.retried as f64 / it.started.max(1) as f64)
        )
    }
}

pub(in crate::finding) const DELAYED_ACKS: FindingInfo = FindingInfo {
    seen: "The server held back the rest of responses until their beginning was acknowledged.",
    severities: &[(Warning, "")],
    meaning: "The server sends a response in several writes without TCP_NODELAY. Nagle's algorithm \
        then holds the last write back until the peer acknowledges the earlier ones, and the peer \
        delays this acknowledgment, on Linux by 40 ms or more. At least half of the responses \
        that arrived in several parts took 35 ms or longer from the first to the last byte. prony \
        then acknowledged the beginning of up to 8 responses per worker immediately, and their \
        rest arrived at least 30 ms sooner. These responses are part of the results.",
    action: "Send head and body in one write, or set TCP_NODELAY on the server's connections.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// Responses whose rest waited for an acknowledgment.
    DelayedAcks {
        /// Number of delayed responses.
        delayed: u64 = sum,
        /// Number of successful requests.
        ok: u64 = sum,
        /// Mean time from the first to the last byte of a delayed response, in microseconds.
        delay_us: f64 = most,
        /// Number of responses whose beginning was acknowledged immediately.
        acknowledged: u64 = sum,
        /// Median time from the first to the last byte of these, in microseconds.
        acknowledged_delay_us: f64 = most,
    }
    |it, _subject| format!(
        "In {} of {} responses, the rest arrived {} after the first byte on average. The server \
         held it back until the kernel here acknowledged the beginning, which it does after 40 ms \
         or more (Nagle's algorithm with delayed acknowledgments): in {} further responses, prony \
         acknowledged the beginning immediately, and the rest arrived {} after it (median). Make \
         the server send head and body in one write, or set TCP_NODELAY on its connections.",
        number::count(it.delayed),
        number::count(it.ok),
        number::time(it.delay_us),
        it.acknowledged,
        number::time(it.acknowledged_delay_us)
    )
}

pub(in crate::finding) const EVENTS_TOGETHER: FindingInfo = FindingInfo {
    seen: "The events of a streamed response arrived together, at its end.",
    severities: &[(Warning, "")],
    meaning: "Responses have two events or more on average and take 50 ms or longer (median), but the \
        first event takes 90% of this time, and 90% of the gaps between events are below 1% of it. The \
        server sends all events at once, or something before the load collects them: a proxy with a \
        buffer, or compression that isn't flushed after each event. The time to the first event is \
        then that of the whole response, and the gaps are no figures of the server.",
    action: "Switch the buffer off (in nginx `proxy_buffering off`, or the response header \
        `X-Accel-Buffering: no`), flush after each event, or don't compress streams.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// Events that arrived together.
    EventsTogether {
        /// Mean number of events of a response.
        events_per_response: f64 = same,
        /// Median time to the first event, in microseconds.
        first_event_us: f64 = most,
        /// Median response time, in microseconds.
        response_us: f64 = most,
    }
    |it, _subject| format!(
        "The {} events of a response (on average) arrived together at its end: the first after {}, of \
         {} for the whole response (medians). The server sends them at once, or a proxy's buffer or \
         compression collects them, so the times of events say little about the server. Switch \
         buffering off, or flush after each event.",
        number::significant(it.events_per_response, 3),
        number::time(it.first_event_us),
        number::time(it.response_us)
    )
}

pub(in crate::finding) const LOAD_ABORTED: FindingInfo = FindingInfo {
    seen: "A condition of `--abort-if` ended the load early.",
    severities: &[(Warning, "")],
    meaning: "The condition held over the most recent window (`--abort-window`). The results \
        cover the time up to the end of the load, including the requests in flight. In an \
        experiment, the block is not counted, and no more blocks are run.",
    action: "Look at the rate and the response times over time (`--html`) to see where the \
    condition \
             began to hold.",
    ..BASE
};

figures! {
    /// A load that a condition ended.
    LoadAborted {
        /// The condition and its value.
        abort: LoadAbort = same,
    }
    |it, _subject| format!("{}. The results cover the time until then.", it.abort.text())
}
