//! Text output that only loads have: the histogram, and the conditions of `prony load`.

use prony_record::{ConditionRuling, JudgedCondition};

use super::options::TextOptions;
use super::paint::Paint;
use crate::chart::Bin;
use crate::number;
use crate::table::Table;

/// The length of the histogram's longest bar, in characters.
const BAR_LENGTH: usize = 40;

/// The distribution of response times as bars.
pub(super) fn histogram(bins: &[Bin], paint: Paint) -> String {
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let table = Table::of(bins)
        .right("", |bin| format!("≤ {}", number::time(bin.up_to_us)))
        .left("", |bin| bar(bin.count as f64 / most as f64))
        .right("", |bin| number::share(bin.count as f64 / all as f64))
        .build();
    format!(
        "{}\n{}",
        paint.dim("response times, share of requests"),
        table.to_text("  ")
    )
}

/// Returns a bar whose length is a share of the longest bar's length. The resolution is an eighth
/// of a character.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * BAR_LENGTH as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A line for each `--fail-if` and `--require`, with its result and the measured value. Empty
/// without conditions.
pub fn conditions(conditions: &[JudgedCondition], options: TextOptions) -> String {
    let paint = Paint::new(options);
    let mut out = String::new();
    for (place, condition) in conditions.iter().enumerate() {
        let word = match condition.ruling {
            ConditionRuling::Failed => paint.red("failed  "),
            ConditionRuling::Passed => paint.green("passed  "),
            ConditionRuling::Unknown => paint.yellow("unknown "),
        };
        if place == 0 {
            out.push('\n');
        }
        let text = format!("{}: {}", condition.condition, condition.text);
        out += &paint.paragraph(&word, 8, &text);
    }
    out
}

#[cfg(test)]
mod tests {
    use prony_record::{Distribution, Nanos, Record};
    use prony_stats::gate::LoadCondition;

    use super::*;
    use crate::document::Document;
    use crate::tables::times::PERCENTILES;
    use crate::text::render;

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
        let options = TextOptions {
            width: 80,
            histogram: true,
            ..TextOptions::PLAIN
        };
        let conditions: Vec<LoadCondition> = ["p99>50ms", "failed>0.1%", "tls.p99>1s"]
            .iter()
            .map(|text| LoadCondition::parse(text).unwrap())
            .collect();
        let mut record = record();
        record.tls_time_us = prony_record::Summary::default();
        let conditions: Vec<JudgedCondition> = conditions
            .iter()
            .map(|it| prony_wording::conditions::result(it, &record))
            .collect();
        let document = Document::of_load(&record, &PERCENTILES);
        let text = render(&document, options) + &super::conditions(&conditions, options);
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
        let plain = render(&Document::of_load(&record, &[50.0]), TextOptions::PLAIN);
        assert!(!plain.contains('█') && !plain.contains("p75"));
    }
}
