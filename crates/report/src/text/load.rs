//! What `prony load` prints.

use prony_record::Record;

use super::Look;
use super::{Paint, findings};
use crate::load_view;
use crate::table::plain;

/// The summary of one load: rate, latencies, outcomes, bytes, connections, what it cost the
/// generator, and what qualifies all that.
pub fn load_summary(record: &Record, look: Look) -> String {
    let paint = Paint::new(look);
    let mut out = String::new();
    out += &format!("{}\n", paint.bold(&load_view::headline(record)));
    out += &format!("{}\n", plain(&record.load.url));
    out += &paint.paragraph("", 0, &load_view::how(record));
    if let Some(text) = load_view::shortfall(record) {
        out += &format!("{}\n", paint.yellow(&text));
    }
    out.push('\n');

    let (all, failed) = load_view::requests(record);
    out += &match failed {
        None => format!("{all}\n"),
        Some(failed) => format!("{all}, {}\n", paint.red(&failed)),
    };
    if record.outcomes.keys().any(|o| o.name() != "ok") {
        out += &load_view::outcomes(record).to_text("  ");
    }
    out.push('\n');

    let latency = load_view::latency(record);
    if !latency.rows.is_empty() {
        out += &latency.to_text("");
        if !record.response_time_us.at_least.is_empty() {
            out += "≥ marks values that are at least so long: requests that timed out or were cut \
                    off lie there.\n";
        }
        if let Some(caveat) = load_view::closed_loop_caveat(record) {
            out += &paint.dim(caveat);
            out.push('\n');
        }
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
