//! Sentences about the intervals within a single load.

use prony_record::{IntervalRefusal, IntervalUnit, RunInterval, number};

/// The limit of what the intervals cover.
pub const SCOPE: &str = "Intervals cover the variation within this load only; after a restart of \
    the server, values may differ more.";

/// Returns a value in the unit of its interval.
fn in_unit(interval: &RunInterval, value: f64) -> String {
    match interval.unit {
        IntervalUnit::PerS => number::rate(value),
        IntervalUnit::Us => number::time(value),
    }
}

/// Returns a relative half-width, such as `±4.1%`.
pub fn half_width(relative: f64) -> String {
    format!("±{}%", number::significant(relative * 100.0, 2))
}

/// The value of the metric.
pub fn value(interval: &RunInterval) -> String {
    let value = interval.value.map(|value| in_unit(interval, value));
    value.unwrap_or_else(|| "–".to_owned())
}

/// The ends of the interval, or the reason why there is none.
pub fn ends(interval: &RunInterval) -> String {
    match (interval.refused, interval.low, interval.high) {
        (None, Some(low), Some(high)) => {
            format!("{} to {}", in_unit(interval, low), in_unit(interval, high))
        }
        (None, ..) => "none".to_owned(),
        (Some(refused), ..) => format!("none: {}", refusal(&refused)),
    }
}

/// The reason why there is no interval, as a clause.
pub fn refusal(refused: &IntervalRefusal) -> String {
    match *refused {
        IntervalRefusal::TooShort => "the load is too short".to_owned(),
        IntervalRefusal::Autocorrelated { lag1 } => format!(
            "successive batches stay correlated ({}), so the load is too short for its slow variation",
            number::significant(lag1, 2)
        ),
        IntervalRefusal::Drifting { change } => format!(
            "it drifts ({}% from start to end), so there is no steady value",
            number::signed(100.0 * change, number::significant(100.0 * change.abs(), 2))
        ),
        IntervalRefusal::TooFewRequests { requests, needed } => format!(
            "{} are too few, it takes at least about {}",
            number::plural(requests, "request", "requests"),
            number::count(needed)
        ),
        IntervalRefusal::Failures { share } => format!(
            "{} of the requests did not succeed, so the percentile is unknown",
            number::share(share)
        ),
    }
}

/// The metric with its value and the width of its interval: `p99 12.3 ms ±4.1% (5% wanted)`.
pub fn brief(interval: &RunInterval) -> String {
    let mut text = format!("{} {}", interval.metric, value(interval));
    match (interval.relative_half_width, interval.refused) {
        (Some(width), None) => text += &format!(" {}", half_width(width)),
        (_, Some(refused)) => text += &format!(", no interval yet: {}", refusal(&refused)),
        _ => {}
    }
    match interval.wanted {
        Some(wanted) if !interval.is_reached() => {
            format!("{text} ({} wanted)", half_width(wanted))
        }
        _ => text,
    }
}

/// The batches from which the interval follows.
pub fn batches(interval: &RunInterval) -> String {
    match interval.batches {
        0 => "–".to_owned(),
        batches => format!("{batches} of {}", number::span(interval.batch_s)),
    }
}

/// The warm-up that was left out, if there was one.
pub fn warm_up(intervals: &[RunInterval]) -> Option<String> {
    let warmup_s = intervals.first()?.warmup_s;
    (warmup_s > 0.0).then(|| {
        format!(
            "The values leave out the first {}, which were found to be a warm-up.",
            number::span(warmup_s)
        )
    })
}

/// States which precision was not reached, and what would do; `None` if all were reached.
pub fn shortfall(intervals: &[RunInterval]) -> Option<String> {
    let missed = intervals
        .iter()
        .filter(|it| it.wanted.is_some() && !it.is_reached());
    let each: Vec<String> = missed.map(brief).collect();
    if each.is_empty() {
        return None;
    }
    let mut text = format!("precision not reached: {}", each.join("; "));
    text += &remedy(intervals);
    Some(text)
}

/// States what would make the intervals narrow enough.
pub fn remedy(intervals: &[RunInterval]) -> String {
    let refused = |kind: fn(&IntervalRefusal) -> bool| {
        intervals
            .iter()
            .any(|it| it.refused.as_ref().is_some_and(kind))
    };
    if refused(|it| matches!(it, IntervalRefusal::Drifting { .. })) {
        return " (wait until the server is steady with --warmup, or find out why it drifts)"
            .to_owned();
    }
    if refused(|it| matches!(it, IntervalRefusal::Failures { .. })) {
        return " (find out why requests fail, or lower the load)".to_owned();
    }
    let needs_s = intervals
        .iter()
        .filter_map(|it| it.needs_s)
        .fold(0.0, f64::max);
    let widest = intervals.iter().filter(|it| !it.is_reached());
    let widest = widest.filter_map(|it| Some((it, it.relative_half_width?)));
    let widest = widest
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, width)| *width < 0.4);
    let looser = widest.map(|(interval, width)| {
        let percent = (width * 110.0).ceil();
        format!("--precision '{} {percent}%'", interval.metric)
    });
    let longer = (needs_s > 0.0).then(|| {
        let minutes = (needs_s * 1.1 / 60.0).ceil();
        format!("-d {minutes}m")
    });
    match (longer, looser) {
        (Some(longer), Some(looser)) => format!(" (try {longer}, or {looser})"),
        (Some(only), None) | (None, Some(only)) => format!(" (try {only})"),
        (None, None) => " (try a longer -d, or a higher rate)".to_owned(),
    }
}
