//! Tables of CPU time and waiting per request by function.

use prony_stats::{FunctionDifference, FunctionRow, FunctionTable};

use crate::number;
use crate::table::Table;

/// Maximum number of variants with a column.
const VARIANTS_MAX: usize = 6;

/// Returns a table of the given rows, with a column for each variant. With a single comparison, it
/// also has the change and its interval.
pub(crate) fn function_table(table: &FunctionTable, rows: &[&FunctionRow]) -> Table {
    let mut built = Table::of(rows.iter().copied())
        .left("function", |row| row.function.name.as_str())
        .left("in", |row| row.function.module.as_str());
    if rows.iter().any(|row| row.function.waits_for.is_some()) {
        built = built.left("waits for", |row| {
            let reason = row.function.waits_for.as_ref();
            reason.map_or_else(String::new, ToString::to_string)
        });
    }
    for (index, variant) in table.variants.iter().enumerate().take(VARIANTS_MAX) {
        built = built.right(variant, move |row: &FunctionRow| cost(row, index));
    }
    let single = rows.iter().all(|row| row.differences.len() <= 1);
    if single && rows.iter().any(|row| !row.differences.is_empty()) {
        built = built
            .right("change", |row| {
                let difference = row.differences.first();
                difference.map_or("–".to_owned(), |it| signed_time(it.us))
            })
            .right("95% interval", |row| {
                row.differences.first().map_or_else(String::new, interval)
            });
    }
    built.build()
}

/// Returns the rows that certainly differ, then all others.
pub(crate) fn divided(table: &FunctionTable) -> (Vec<&FunctionRow>, Vec<&FunctionRow>) {
    table.functions.iter().partition(|row| row.differs())
}

fn cost(row: &FunctionRow, variant: usize) -> String {
    let us = row.us_per_request.get(variant).copied().flatten();
    us.map_or("–".to_owned(), |us| number::time(us.max(0.0)))
}

fn signed_time(us: f64) -> String {
    number::signed(us, number::time(us.abs()))
}

fn interval(difference: &FunctionDifference) -> String {
    match (difference.low_us, difference.high_us) {
        (Some(low), Some(high)) => format!("{} to {}", signed_time(low), signed_time(high)),
        _ => "–".to_owned(),
    }
}
