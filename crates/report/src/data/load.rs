//! The tables of one load.

use prony_record::{EntryResult, EntryResults, HalfSecond, Record, Summary};

use super::{DataTable, DataTableBuilder};
use crate::tables::load::with_lengths;

/// All tables of a load.
pub fn load(record: &Record) -> Vec<DataTable> {
    vec![
        record_columns(DataTable::of("loads", [record]), |it| it).build(),
        series(record),
        DataTable::of("outcomes", &record.outcomes)
            .column("outcome", |(outcome, _)| outcome.name())
            .column("requests", |(_, count)| *count)
            .build(),
        DataTable::of("statuses", &record.status)
            .column("status", |(status, _)| u32::from(*status))
            .column("requests", |(_, count)| *count)
            .build(),
        DataTable::of("findings", &record.findings)
            .finding(|it| it)
            .build(),
        times(record),
        entries(record),
    ]
}

/// A row for each entry of the list, and a row for the other entries combined.
fn entries(record: &Record) -> DataTable {
    let rows = record.entries.iter().flat_map(EntryResults::rows);
    entry_columns(DataTable::of("entries", rows), |it| it).build()
}

/// Adds the columns of a list's entry. Times are empty if no request finished.
pub(super) fn entry_columns<'a, T: Copy>(
    table: DataTableBuilder<T>,
    entry: impl Fn(T) -> &'a EntryResult,
) -> DataTableBuilder<T> {
    let time = |it: T, pick: fn(&Summary) -> f64| {
        let times = &entry(it).response_time_us;
        (times.max > 0.0).then(|| pick(times))
    };
    table
        .column("entry", |it| &entry(it).name)
        .column("lines", |it| entry(it).lines)
        .column("started", |it| entry(it).started)
        .column("ok", |it| entry(it).ok)
        .column("failed", |it| entry(it).failed)
        .column("unfinished", |it| entry(it).unfinished)
        .column("unstarted", |it| entry(it).unstarted)
        .column("ok_per_s", |it| entry(it).ok_per_s)
        .column("bytes_in", |it| entry(it).bytes_in)
        .column("bytes_out", |it| entry(it).bytes_out)
        .column("mean_us", |it| time(it, |times| times.mean))
        .column("p50_us", |it| time(it, |times| times.p50))
        .column("p90_us", |it| time(it, |times| times.p90))
        .column("p99_us", |it| time(it, |times| times.p99))
        .column("max_us", |it| time(it, |times| times.max))
        .column("at_least", |it| {
            entry(it).response_time_us.at_least.join(" ")
        })
}

/// A row for each kind of time that was measured.
fn times(record: &Record) -> DataTable {
    let all = [
        ("response", &record.response_time_us),
        ("service", &record.service_time_us),
        ("first_byte", &record.first_byte_us),
        ("connect", &record.connect_time_us),
        ("tls", &record.tls_time_us),
        ("late", &record.generator.late_us),
    ];
    let events = record.events.iter().flat_map(|events| {
        [
            ("first_event", &events.first_event_us),
            ("event_gap", &events.event_gap_us),
        ]
    });
    let journeys = record.journeys.iter();
    let journeys = journeys.map(|it| ("journey", &it.journey_time_us));
    let all = all.into_iter().chain(events).chain(journeys);
    DataTable::of("times", all.filter(|(_, it)| **it != Summary::default()))
        .column("time", |(name, _)| name)
        .column("min_us", |(_, it)| it.min)
        .column("mean_us", |(_, it)| it.mean)
        .column("p50_us", |(_, it)| it.p50)
        .column("p90_us", |(_, it)| it.p90)
        .column("p99_us", |(_, it)| it.p99)
        .column("p99_9_us", |(_, it)| it.p99_9)
        .column("max_us", |(_, it)| it.max)
        .column("at_least", |(_, it)| it.at_least.join(" "))
        .column("p75_us", |(_, it)| it.p75)
        .column("p95_us", |(_, it)| it.p95)
        .column("stdev_us", |(_, it)| it.stdev)
        .build()
}

/// The series of a load: a row for each half second.
pub(crate) fn series(record: &Record) -> DataTable {
    let half_seconds = with_lengths(&record.series);
    series_columns(DataTable::of("series", half_seconds), |it| it).build()
}

/// Adds the columns of a half second, given with its length. Percentiles are empty if no request
/// finished in the half second. The offered rate is empty for a closed loop.
pub(super) fn series_columns<'a, T: Copy>(
    table: DataTableBuilder<T>,
    half_second: impl Fn(T) -> (f64, &'a HalfSecond),
) -> DataTableBuilder<T> {
    let percentile =
        |it: T, pick: fn(&HalfSecond) -> f64| Some(pick(half_second(it).1)).filter(|us| *us > 0.0);
    table
        .column("t_s", |it| half_second(it).1.t_s)
        .column("ok", |it| half_second(it).1.ok)
        .column("failed", |it| half_second(it).1.failed)
        .column("ok_per_s", |it| {
            let (length_s, half_second) = half_second(it);
            half_second.ok as f64 / length_s
        })
        .column("bytes_in", |it| half_second(it).1.bytes_in)
        .column("p50_us", |it| {
            percentile(it, |half_second| half_second.p50_us)
        })
        .column("p99_us", |it| {
            percentile(it, |half_second| half_second.p99_us)
        })
        .column("p90_us", |it| {
            percentile(it, |half_second| half_second.p90_us)
        })
        .column("offered_per_s", |it| half_second(it).1.offered_per_s)
        .column("journeys_completed", |it| {
            half_second(it).1.journeys.map(|it| it.completed)
        })
        .column("journeys_failed", |it| {
            half_second(it).1.journeys.map(|it| it.failed)
        })
        .column("journey_p50_us", |it| {
            measured(half_second(it).1.journeys.map(|it| it.p50_us))
        })
        .column("journey_p99_us", |it| {
            measured(half_second(it).1.journeys.map(|it| it.p99_us))
        })
        .column("events", |it| half_second(it).1.events.map(|it| it.events))
        .column("first_event_p50_us", |it| {
            measured(half_second(it).1.events.map(|it| it.first_event_p50_us))
        })
        .column("first_event_p99_us", |it| {
            measured(half_second(it).1.events.map(|it| it.first_event_p99_us))
        })
        .column("event_gap_p50_us", |it| {
            measured(half_second(it).1.events.map(|it| it.event_gap_p50_us))
        })
        .column("event_gap_p99_us", |it| {
            measured(half_second(it).1.events.map(|it| it.event_gap_p99_us))
        })
}

/// A time that was measured; `None` for the 0 of a half second without any.
fn measured(us: Option<f64>) -> Option<f64> {
    us.filter(|us| *us > 0.0)
}

/// Adds the columns that describe a whole record.
pub(super) fn record_columns<'a, T: Copy>(
    table: DataTableBuilder<T>,
    record: impl Fn(T) -> &'a Record,
) -> DataTableBuilder<T> {
    let load = |it: T| &record(it).load;
    let totals = |it: T| &record(it).totals;
    let response = |it: T| &record(it).response_time_us;
    let generator = |it: T| &record(it).generator;
    let events = |it: T| record(it).events.as_ref();
    let journeys = |it: T| record(it).journeys.as_ref();
    table
        .column("url", |it| &load(it).url)
        .column("model", |it| &load(it).model)
        .column("connections", |it| load(it).connections)
        .column("streams", |it| load(it).streams)
        .column("rate_per_s", |it| load(it).rate_per_s)
        .column("http", |it| {
            let negotiated = record(it).negotiated.http.as_ref();
            negotiated.unwrap_or(&load(it).http)
        })
        .column("tls", |it| record(it).negotiated.tls.as_ref())
        .column("cipher", |it| record(it).negotiated.cipher.as_ref())
        .column("started_at", |it| &record(it).started_at)
        .column("elapsed_s", |it| totals(it).elapsed_s)
        .column("started", |it| totals(it).started)
        .column("ok", |it| totals(it).ok)
        .column("failed", |it| totals(it).failed)
        .column("unfinished", |it| totals(it).unfinished)
        .column("unstarted", |it| totals(it).unstarted)
        .column("retried", |it| totals(it).retried)
        .column("ok_per_s", |it| record(it).rate.ok_per_s)
        .column("offered_per_s", |it| record(it).rate.offered_per_s)
        .column("bytes_in", |it| totals(it).bytes_in)
        .column("body_bytes_in", |it| totals(it).body_bytes_in)
        .column("bytes_out", |it| totals(it).bytes_out)
        .column("connections_opened", |it| totals(it).connections_opened)
        .column("response_p50_us", |it| response(it).p50)
        .column("response_p90_us", |it| response(it).p90)
        .column("response_p99_us", |it| response(it).p99)
        .column("response_p99_9_us", |it| response(it).p99_9)
        .column("response_max_us", |it| response(it).max)
        .column("service_p50_us", |it| record(it).service_time_us.p50)
        .column("service_p99_us", |it| record(it).service_time_us.p99)
        .column("first_byte_p50_us", |it| record(it).first_byte_us.p50)
        .column("first_byte_p99_us", |it| record(it).first_byte_us.p99)
        .column("generator_cpu_s", |it| {
            generator(it).cpu_user_s + generator(it).cpu_system_s
        })
        .column("generator_busy_share", |it| generator(it).busy_share)
        .column("events", |it| events(it).map(|events| events.events))
        .column("events_per_s", |it| {
            events(it).map(|events| events.events_per_s)
        })
        .column("events_per_response", |it| {
            events(it).and_then(|events| events.events_per_response)
        })
        .column("first_event_p50_us", |it| {
            events(it).map(|events| events.first_event_us.p50)
        })
        .column("first_event_p99_us", |it| {
            events(it).map(|events| events.first_event_us.p99)
        })
        .column("event_gap_p50_us", |it| {
            events(it).map(|events| events.event_gap_us.p50)
        })
        .column("event_gap_p99_us", |it| {
            events(it).map(|events| events.event_gap_us.p99)
        })
        .column("journeys_started", |it| journeys(it).map(|it| it.started))
        .column("journeys_completed", |it| {
            journeys(it).map(|it| it.completed)
        })
        .column("journeys_failed", |it| journeys(it).map(|it| it.failed))
        .column("journeys_unfinished", |it| {
            journeys(it).map(|it| it.unfinished)
        })
        .column("journeys_unstarted", |it| {
            journeys(it).map(|it| it.unstarted)
        })
        .column("journeys_per_s", |it| {
            journeys(it).map(|it| it.completed_per_s)
        })
        .column("journey_p50_us", |it| {
            journeys(it).map(|it| it.journey_time_us.p50)
        })
        .column("journey_p99_us", |it| {
            journeys(it).map(|it| it.journey_time_us.p99)
        })
}
