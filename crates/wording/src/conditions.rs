//! Sentences about conditions on single loads.

use prony_record::measure::Amount;
use prony_record::{ConditionRuling, JudgedCondition, Record, number};
use prony_stats::gate::{LoadCondition, MeasuredValue};

/// Returns the result of a condition for a record, as it is stored.
pub fn result(condition: &LoadCondition, record: &Record) -> JudgedCondition {
    let (ruling, text) = match (failure(condition, record), reading(condition, record)) {
        (Some(reason), _) => (ConditionRuling::Failed, reason),
        (None, Some(text)) => (ConditionRuling::Passed, text),
        (None, None) => (ConditionRuling::Unknown, "nothing was measured".to_owned()),
    };
    JudgedCondition {
        condition: format!("{} {condition}", condition.option()),
        ruling,
        text,
    }
}

/// Returns the reason why a record fails a condition, as a clause such as `p99 is 61.3 ms`, or
/// `None` if it doesn't fail.
///
/// If there were no requests, a condition on a percentile fails only if it is a requirement.
pub fn failure(condition: &LoadCondition, record: &Record) -> Option<String> {
    match condition.read(record) {
        Some(read) => read.holds.then(|| clause(condition, &read.value)),
        None => condition
            .is_requirement()
            .then(|| format!("{} was not measured", condition.name())),
    }
}

/// Returns the value of a condition's metric in a record as a clause: `p99 is 61.3 ms`. `None` if it
/// was not measured.
pub fn reading(condition: &LoadCondition, record: &Record) -> Option<String> {
    let read = condition.read(record)?;
    Some(clause(condition, &read.value))
}

fn clause(condition: &LoadCondition, value: &MeasuredValue) -> String {
    format!("{} is {}", condition.name(), value_text(value))
}

/// Formats a value. If failed requests change a percentile, both values are given with their names.
fn value_text(value: &MeasuredValue) -> String {
    match value {
        MeasuredValue::Share { count, whole } => {
            let share = *count as f64 / *whole as f64;
            let (count, whole) = (number::count(*count), number::count(*whole));
            format!("{} ({count} of {whole})", Amount::Share(share))
        }
        MeasuredValue::Count(count) => number::count(*count),
        MeasuredValue::Value {
            observable,
            judged,
            plain,
            failed,
            ended,
        } => {
            if *failed == 0 || *plain == Some(*judged) {
                return observable.shown(*judged);
            }
            let judged = if judged.is_finite() {
                observable.shown(*judged)
            } else {
                "beyond every limit".to_owned()
            };
            let plain = plain.map_or(String::new(), |plain| {
                let plain = observable.shown(plain);
                format!("; {plain} among the successful responses")
            });
            let (failed, ended) = (number::count(*failed), number::count(*ended));
            format!("{judged} ({failed} of {ended} requests failed{plain})")
        }
    }
}
