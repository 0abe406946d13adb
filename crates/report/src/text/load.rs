//! The summary that `prony load` prints.

use prony_record::{Condition, Record};

use super::Look;
use super::{Paint, findings};
use crate::load_times::Bin;
use crate::load_view::Tone;
use crate::table::{Table, plain};
use crate::{load_times, load_view, number};

/// A longer table of agents is left to the other formats.
const AGENTS_SHOWN_MAX: usize = 16;
/// Rows of the histogram.
const HISTOGRAM_ROWS: u32 = 10;
/// Characters of the histogram's longest bar.
const BAR_LENGTH: usize = 40;

/// The summary of one load: rate, times with these percentiles, outcomes, bytes, connections, the
/// generator's cost, and what qualifies all that.
pub fn load_summary(record: &Record, percentiles: &[f64], look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    out += &format!("{}\n", paint.bold(&load_view::headline(record)));
    out += &format!("{}\n", plain(&record.load.url));
    out += &paint.paragraph("", 0, &load_view::how(record));
    if let Some(text) = load_view::shortfall(record) {
        out += &paint.yellow(&paint.paragraph("", 0, &text));
    }
    out.push('\n');

    out += &requests(record, paint, look);
    if record.outcomes.keys().any(|outcome| outcome.is_failure()) || record.totals.unstarted > 0 {
        out += &outcomes(&load_view::outcomes(record), paint);
    }
    out.push('\n');

    let times = load_times::table(record, percentiles);
    if !times.rows.is_empty() {
        out += &times.to_text("");
        if !record.response_time_us.at_least.is_empty() {
            out += &paint.paragraph("", 0, load_view::BOUNDS);
        }
        if let Some(caveat) = load_view::closed_loop_caveat(record) {
            out += &paint.dim(&paint.paragraph("", 0, caveat));
        }
        out.push('\n');
    }
    if look.histogram {
        out += &histogram(&load_times::bins(record, HISTOGRAM_ROWS), paint);
    }

    let agents = load_view::agents_table(record);
    if (1..=AGENTS_SHOWN_MAX).contains(&agents.rows.len()) {
        out += &agents.to_text("");
        out.push('\n');
    }
    for (name, text) in load_view::facts(record) {
        out += &paint.paragraph(&format!("{name:<16}"), 16, &text);
    }
    if !record.findings.is_empty() {
        out.push('\n');
        out += &findings(&record.findings, paint);
    }
    out
}

/// The line of counts. What failed has the colour of the gravest finding.
fn requests(record: &Record, paint: Paint, look: Look) -> String {
    let (all, failed) = load_view::requests(record);
    let length = all.chars().count() + failed.as_ref().map_or(0, |it| it.chars().count() + 2);
    let failed = failed.map(|text| match load_view::tone(record) {
        Tone::Bad => paint.red(&text),
        Tone::Care => paint.yellow(&text),
        Tone::Good => text,
    });
    let mut line = match failed {
        None => all,
        Some(failed) => format!("{all}, {failed}"),
    };
    if let Some(in_flight) = load_view::in_flight(record) {
        let fits = length + 2 + in_flight.chars().count() <= look.width;
        line += if fits { ", " } else { "\n" };
        line += &in_flight;
    }
    line + "\n"
}

/// The table of outcomes, the last column broken into lines that fit.
fn outcomes(table: &Table, paint: Paint) -> String {
    let mut figures = table.clone();
    figures.columns.truncate(3);
    let lines = figures.to_text("  ");
    let meanings = table.rows.iter().map(|row| row[3].as_str());
    let each = lines.lines().zip(meanings).map(|(line, meaning)| {
        let first = format!("{line}  ");
        let width = first.chars().count();
        match meaning {
            "" => format!("{line}\n"),
            meaning => paint.paragraph(&first, width, meaning),
        }
    });
    each.collect()
}

/// How response times are distributed, as bars.
fn histogram(bins: &[Bin], paint: Paint) -> String {
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let mut table = Table::new("", &["", "", ""]);
    table.columns[0].1 = crate::table::Align::Right;
    table.columns[1].1 = crate::table::Align::Left;
    for bin in bins {
        table.push(vec![
            format!("≤ {}", number::time(bin.up_to_us)),
            bar(bin.count as f64 / most as f64),
            number::share(bin.count as f64 / all as f64),
        ]);
    }
    format!(
        "{}\n{}\n",
        paint.dim("response times, share of requests"),
        table.to_text("  ")
    )
}

/// A bar of a share of the longest, in eighths of a character.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * BAR_LENGTH as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A line for each `--fail-if` and `--require`: passed or failed, and by which figure; empty where there
/// are none.
pub fn conditions(record: &Record, conditions: &[Condition], look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    for (place, condition) in conditions.iter().enumerate() {
        let (word, text) = match (condition.holds(record), condition.judge(record)) {
            (Some(reason), _) => (paint.red("failed  "), reason),
            (None, Some(judged)) => (paint.green("passed  "), judged.text),
            (None, None) => (paint.yellow("unknown "), "nothing was measured".to_owned()),
        };
        if place == 0 {
            out.push('\n');
        }
        let text = format!("{} {condition}: {text}", condition.option());
        out += &paint.paragraph(&word, 8, &text);
    }
    out
}

#[cfg(test)]
mod tests {
    use prony_record::{Distribution, Nanos};

    use super::*;

    fn record() -> Record {
        let mut times = Distribution::new();
        (1..=5_000).for_each(|n| times.record(Nanos::from_micros(n * n / 10)));
        let mut record = Record {
            response_time_us: times.summary(),
            service_time_us: times.summary(),
            first_byte_us: times.summary(),
            connect_time_us: times.summary(),
            tls_time_us: times.summary(),
            ..Record::default()
        };
        record.load.model = "closed".to_owned();
        (record.totals.ok, record.totals.failed) = (5_000, 90);
        (record.totals.started, record.totals.unfinished) = (5_120, 30);
        record.outcomes = prony_record::Outcome::ALL
            .iter()
            .map(|&it| (it, 10))
            .collect();
        record.keep_distribution("response_time", &times);
        record
    }

    #[test]
    fn nothing_is_wider_than_a_terminal_of_80_columns() {
        let look = Look {
            width: 80,
            histogram: true,
            ..Look::PLAIN
        };
        let conditions: Vec<Condition> = ["p99>50ms", "failed>0.1%", "tls.p99>1s"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let mut record = record();
        record.tls_time_us = prony_record::Summary::default();
        let text = load_summary(&record, &load_times::PERCENTILES, look)
            + &super::conditions(&record, &conditions, look);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(
            text.contains("\nfailed  --fail-if p99>50ms: p99 is "),
            "{text}"
        );
        assert!(text.contains("\npassed  ") || text.contains("\nfailed  --fail-if failed"));
        assert!(text.contains("unknown --fail-if tls.p99>1s: nothing was measured"));
        assert!(text.contains("in flight at the end: 30"), "{text}");
        assert!(!text.contains("unfinished"), "{text}");
        assert!(text.contains('█'));
        let plain = load_summary(&record, &[50.0], Look::PLAIN);
        assert!(!plain.contains('█') && !plain.contains("p75"));
    }
}
