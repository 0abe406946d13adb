//! Verdicts and estimates as sentences.

use crate::comparison::{Comparison, Description, Effect, Verdict};
use crate::design::{Design, LEAST_BLOCKS};
use crate::evaluate::too_few;
use crate::metric::{Metric, Scale, Unit};

/// One comparison of the family; `sharing` comparisons share the error rate.
pub(crate) fn comparison(comparison: &Comparison, design: &Design, sharing: usize) -> String {
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => decided(comparison),
        Verdict::Equivalent => equivalent(comparison, design.margin),
        Verdict::Undecided => undecided(comparison, design, sharing),
        Verdict::Withheld => comparison.text.clone(),
    }
}

/// A comparison whose verdict is withheld. `reason` completes the sentence.
pub(crate) fn withheld(comparison: &Comparison, reason: &str) -> String {
    let subject = format!("{} against {}", comparison.name, comparison.against_name);
    let noun = comparison.metric.noun();
    match Change::of(comparison.metric, &comparison.effect) {
        Some(change) => format!(
            "{subject}: {noun} {} ({}), verdict withheld: {reason}",
            change.signed(),
            change.basis(change.signed_range(), comparison.blocks),
        ),
        None => format!("{subject}: {noun}, verdict withheld: {reason}"),
    }
}

/// A comparison outside the family.
pub(crate) fn description(description: &Description, name: &str, against: &str) -> String {
    match Change::of(description.metric, &description.effect) {
        Some(change) if change.is_none_at_all() => format!(
            "{} is the same in {name} and {against} ({})",
            description.metric.noun(),
            counted(description.blocks, "block")
        ),
        Some(change) => format!(
            "{} ({})",
            statement(description.metric, name, against, &change),
            change.basis(change.range(), description.blocks)
        ),
        None => String::new(),
    }
}

/// "system CPU per request: 1.31 × that of unix (1.27 to 1.36)"; "connections opened per request: 0.98
/// more than unix (0.97 to 0.99)".
pub(crate) fn movement(metric: Metric, effect: &Effect, against: &str) -> String {
    let noun = metric.noun();
    let Some(value) = effect.ratio.or(effect.difference) else {
        return format!("{noun} against {against}");
    };
    let none = match effect.ratio {
        Some(_) => 1.0,
        None => 0.0,
    };
    let ends = effect.low.zip(effect.high).unwrap_or((value, value));
    // As many decimals as the interval deserves, and so many that no end that differs from none
    // reads as none.
    let width = ends.1 - ends.0;
    let digits = |of: f64| (2.0 - of.abs().log10().floor()).clamp(0.0, 4.0) as usize;
    let by_width = match width > 0.0 {
        true => (-width.log10()).ceil().clamp(0.0, 4.0) as usize,
        false => 3,
    };
    let fitting = by_width.max(if value == 0.0 { 0 } else { digits(value) });
    let tells = |decimals: usize| {
        let step = 0.5 * 0.1_f64.powi(decimals as i32);
        [value, ends.0, ends.1]
            .iter()
            .all(|end| *end == none || (end - none).abs() >= step)
    };
    let decimals = (fitting..6).find(|&decimals| tells(decimals)).unwrap_or(6);
    if effect.ratio.is_some() {
        let (low, high) = ends;
        return format!(
            "{noun}: {value:.decimals$} × that of {against} ({low:.decimals$} to {high:.decimals$})"
        );
    }
    // The sign is said in a word where the whole interval has one.
    let (word, sign) = match value < 0.0 {
        true => ("less", -1.0),
        false => ("more", 1.0),
    };
    let (near, far) = match value < 0.0 {
        true => (-ends.1, -ends.0),
        false => ends,
    };
    let by = value * sign;
    format!("{noun}: {by:.decimals$} {word} than {against} ({near:.decimals$} to {far:.decimals$})")
}

fn decided(comparison: &Comparison) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    let said = statement(
        comparison.metric,
        &comparison.name,
        &comparison.against_name,
        &change,
    );
    let verdict = match (comparison.metric, comparison.verdict) {
        (Metric::P50Us | Metric::P99Us, Verdict::Faster) => "faster; ",
        (Metric::P50Us | Metric::P99Us, _) => "slower; ",
        _ => "",
    };
    format!(
        "{said} ({verdict}{})",
        change.basis(change.range(), comparison.blocks)
    )
}

fn equivalent(comparison: &Comparison, margin: f64) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    // Rounded, so that 0.07 does not print as 7.000000000000001%.
    let margin = (margin * 1e6).round() / 1e4;
    let unit = match comparison.metric.scale() {
        Scale::Ratio => "%",
        Scale::Difference => " percentage points",
    };
    format!(
        "{} and {} are equivalent within ±{margin}{unit} ({} {}, {})",
        comparison.name,
        comparison.against_name,
        comparison.metric.noun(),
        change.signed(),
        change.basis(change.signed_range(), comparison.blocks),
    )
}

fn undecided(comparison: &Comparison, design: &Design, sharing: usize) -> String {
    let apart = format!(
        "{} and {} can't be told apart yet",
        comparison.name, comparison.against_name
    );
    let noun = comparison.metric.noun();
    let blocks = comparison.blocks;
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return format!("{apart}: no complete block ({noun})");
    };
    if too_few(blocks) {
        return format!(
            "{apart}: {noun} {} from {}, and an interval needs {LEAST_BLOCKS}",
            change.signed(),
            complete_blocks(blocks),
        );
    }
    let shared = if change.one_sided() && sharing > 1 {
        format!("; not sure enough while {sharing} comparisons share the error rate")
    } else {
        String::new()
    };
    let outlook = match comparison.more_blocks {
        Some(more) if blocks + more <= design.blocks_max => {
            format!("about {} would decide", counted(more, "more block"))
        }
        Some(more) => format!("a plan of about {} blocks would decide", blocks + more),
        None => "no sensible number of blocks would decide \
                 (make the trials longer or the machine quieter)"
            .to_owned(),
    };
    format!(
        "{apart}: {noun} {} ({}{shared}); {outlook}",
        change.signed(),
        change.basis(change.signed_range(), blocks)
    )
}

/// "tcp is 3.1% slower than unix", for any metric.
pub(crate) fn statement(metric: Metric, name: &str, against: &str, change: &Change) -> String {
    let amount = change.amount();
    let more = if change.mid < 0.0 { "less" } else { "more" };
    let higher = if change.mid < 0.0 { "lower" } else { "higher" };
    match metric {
        Metric::RatePerS => {
            let faster = if change.mid < 0.0 { "slower" } else { "faster" };
            format!("{name} is {amount} {faster} than {against}")
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
        Metric::P50Us | Metric::P99Us | Metric::FailedShare | Metric::TlsResumedShare => format!(
            "the {} of {name} is {amount} {higher} than that of {against}",
            metric.noun()
        ),
        _ => format!(
            "{name} has {amount} {more} {} than {against}",
            metric.noun()
        ),
    }
}

/// "1 block", "8 blocks".
pub(crate) fn counted(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn complete_blocks(blocks: u32) -> String {
    counted(blocks, "complete block")
}

/// An effect in percent of the baseline, in percentage points, or in things per 1,000 requests.
pub(crate) struct Change {
    /// The estimate.
    pub(crate) mid: f64,
    ends: Option<(f64, f64)>,
    decimals: usize,
    unit: &'static str,
}

impl Change {
    pub(crate) fn of(metric: Metric, effect: &Effect) -> Option<Change> {
        let percent = |value: f64| match (metric.scale(), metric.unit()) {
            (Scale::Ratio, _) => 100.0 * (value - 1.0),
            (Scale::Difference, Unit::Share) => 100.0 * value,
            (Scale::Difference, _) => 1000.0 * value,
        };
        let mid = percent(effect.ratio.or(effect.difference)?);
        let ends = effect
            .low
            .zip(effect.high)
            .map(|(low, high)| (percent(low), percent(high)));
        Some(Change {
            mid,
            ends,
            decimals: decimals(mid, ends),
            unit: match (metric.scale(), metric.unit()) {
                (Scale::Ratio, _) => "%",
                (Scale::Difference, Unit::Share) => " percentage points",
                (Scale::Difference, _) => " in 1,000",
            },
        })
    }

    /// Whether every block saw exactly the same in both.
    fn is_none_at_all(&self) -> bool {
        self.mid == 0.0 && self.ends.is_none_or(|ends| ends == (0.0, 0.0))
    }

    /// Whether zero lies outside the interval.
    pub(crate) fn one_sided(&self) -> bool {
        self.ends.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Without its sign: "3.1%".
    pub(crate) fn amount(&self) -> String {
        format!("{:.*}{}", self.decimals, self.mid.abs(), self.unit)
    }

    /// With its sign: "-3.1%".
    pub(crate) fn signed(&self) -> String {
        format!("{}{}", self.number(self.mid), self.unit)
    }

    /// "2.2% to 4.0%", for after an [`amount`](Self::amount); signed where zero lies inside.
    pub(crate) fn range(&self) -> Option<String> {
        let (low, high) = self.ends?;
        if !self.one_sided() {
            return self.signed_range();
        }
        let (near, far) = if low > 0.0 {
            (low, high)
        } else {
            (-high, -low)
        };
        let (unit, decimals) = (self.short_unit(), self.decimals);
        Some(format!("{near:.decimals$}{unit} to {far:.decimals$}{unit}"))
    }

    /// "-4.0% to -2.2%", for after [`signed`](Self::signed).
    pub(crate) fn signed_range(&self) -> Option<String> {
        let (low, high) = self.ends?;
        let unit = self.short_unit();
        Some(format!(
            "{}{unit} to {}{unit}",
            self.number(low),
            self.number(high)
        ))
    }

    /// "95% interval 2.2% to 4.0%, 8 blocks".
    fn basis(&self, range: Option<String>, blocks: u32) -> String {
        match range {
            Some(range) => format!("95% interval {range}, {}", counted(blocks, "block")),
            None => complete_blocks(blocks),
        }
    }

    fn short_unit(&self) -> &'static str {
        if self.unit == "%" { "%" } else { "" }
    }

    fn number(&self, value: f64) -> String {
        let printed = format!("{value:+.*}", self.decimals);
        if printed.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
            printed
        } else {
            // Neither +0.0 nor -0.0.
            printed[1..].to_owned()
        }
    }
}

/// As many decimals as the interval deserves; more where an end would otherwise read as zero and
/// is not.
fn decimals(mid: f64, ends: Option<(f64, f64)>) -> usize {
    let width = ends.map_or(1.0, |(low, high)| high - low);
    if width >= 20.0 || mid.abs() >= 100.0 {
        return 0;
    }
    let fitting = if width > 0.0 && width < 0.3 { 2 } else { 1 };
    let near = match ends {
        Some((low, high)) if low > 0.0 || high < 0.0 => low.abs().min(high.abs()),
        _ => return fitting,
    };
    (fitting..3)
        .find(|&decimals| near >= 0.5 * 0.1_f64.powi(decimals as i32))
        .unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_movement_has_the_digits_that_it_deserves() {
        let said = |metric, value: f64, low: f64, high: f64| {
            let of = |value: f64| match metric {
                Metric::ConnectionsPerRequest => value,
                _ => value.ln(),
            };
            let interval = crate::Interval {
                low: of(low),
                high: of(high),
            };
            let effect = Effect::on(metric.scale(), Some(of(value)), Some(interval));
            let text = movement(metric, &effect, "unix");
            text.split_once(": ").unwrap().1.to_owned()
        };
        let cpu = Metric::ServerCpuUsPerRequest;
        let connections = Metric::ConnectionsPerRequest;
        for (metric, (value, low, high), text) in [
            (
                cpu,
                (1.31, 1.27, 1.36),
                "1.31 × that of unix (1.27 to 1.36)",
            ),
            (
                cpu,
                (1.004, 1.001, 1.007),
                "1.004 × that of unix (1.001 to 1.007)",
            ),
            (cpu, (123.0, 90.0, 170.0), "123 × that of unix (90 to 170)"),
            (
                connections,
                (0.98, 0.97, 0.99),
                "0.980 more than unix (0.970 to 0.990)",
            ),
            (
                connections,
                (-0.5, -0.6, -0.4),
                "0.500 less than unix (0.400 to 0.600)",
            ),
        ] {
            assert_eq!(said(metric, value, low, high), text);
        }
    }
}
