//! Building blocks of several sentences.

use prony_stats::Metric;

use crate::change::Change;

/// Returns a change with its direction: "tcp is 3.1% slower than unix", "tcp is 3.8 × as fast as
/// unix".
pub(crate) fn statement(metric: Metric, name: &str, against: &str, change: &Change) -> String {
    let amount = change.amount();
    if change.is_factor() {
        return match metric {
            Metric::RatePerS => format!("{name} is {amount} as fast as {against}"),
            capacity if capacity.is_capacity() => {
                let served = capacity.rate_unit().noun();
                format!("{name} serves {amount} as many {served} per second as {against}")
            }
            _ => format!(
                "the {} of {name} is {amount} that of {against}",
                metric.noun()
            ),
        };
    }
    let more = if change.is_less() { "less" } else { "more" };
    let higher = if change.is_less() { "lower" } else { "higher" };
    match metric {
        Metric::RatePerS => {
            let faster = if change.is_less() { "slower" } else { "faster" };
            format!("{name} is {amount} {faster} than {against}")
        }
        capacity if capacity.is_capacity() => {
            let more = if change.is_less() { "fewer" } else { "more" };
            let served = capacity.rate_unit().noun();
            format!("{name} serves {amount} {more} {served} per second than {against}")
        }
        Metric::ServerCpuUsPerRequest => {
            format!("{name} needs {amount} {more} server CPU per request than {against}")
        }
        Metric::ServerCpuUserPercent => {
            format!("{name} uses {amount} {more} user CPU than {against}")
        }
        Metric::ServerCpuSystemPercent => {
            format!("{name} uses {amount} {more} system CPU than {against}")
        }
        Metric::ServerMemoryBytes => {
            format!("{name} uses {amount} {more} server memory than {against}")
        }
        Metric::NetworkOutBitsPerS => {
            format!("{name} sends {amount} {more} network traffic than {against}")
        }
        Metric::GeneratorCpuUsPerRequest => {
            format!("{name} costs the generator {amount} {more} CPU per request than {against}")
        }
        _ => format!(
            "the {} of {name} is {amount} {higher} than that of {against}",
            metric.noun()
        ),
    }
}

/// Returns a number with its noun: "1 block", "8 blocks".
pub(crate) fn counted(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns numbers with their noun: "block 3", "blocks 3, 5".
pub(crate) fn numbered(noun: &str, numbers: &[u32]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{noun}{plural} {}", numbers.join(", "))
}
