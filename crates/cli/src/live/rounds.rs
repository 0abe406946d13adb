//! The rounds of an interleaved block in the live view: the variants' rates side by side.

use std::time::Duration;

use prony_experiment::runner::SliceResult;
use prony_report::number;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::{Theme, panels};

/// The rounds of the current block. In each round, every variant runs for one slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds {
    /// Length of a slice, or zero during the warm-up.
    pub(crate) slice: Duration,
    /// Number of rounds, or 0 during the warm-up.
    pub(crate) planned: u32,
    /// Number of rounds that have ended.
    pub(crate) ended: u32,
    /// The variants, in the order of the plan.
    pub(crate) variants: Vec<VariantRounds>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct VariantRounds {
    /// Index of the variant in the plan.
    pub(crate) variant: usize,
    /// Name of the variant, as shown in results.
    pub(crate) name: String,
    /// Rate of each round, in successful requests per second.
    pub(crate) rates: Vec<f64>,
    /// Number of failed requests in the block.
    pub(crate) failed: u64,
    /// Mean response time of the last round, in microseconds.
    pub(crate) mean_response_us: Option<f64>,
}

impl Rounds {
    /// Records the start of the variants' warm-up. `variants` contains the index in the plan and
    /// the name of each variant.
    pub(crate) fn begin(mut variants: Vec<(usize, String)>) -> Rounds {
        variants.sort_unstable();
        let variants = variants.into_iter().map(|(variant, name)| VariantRounds {
            variant,
            name,
            ..VariantRounds::default()
        });
        Rounds {
            variants: variants.collect(),
            ..Rounds::default()
        }
    }

    /// Adds the slices of a round that has ended.
    pub(crate) fn round_ended(&mut self, slices: &[(usize, SliceResult)]) {
        self.ended += 1;
        for (variant, slice) in slices {
            let mut variants = self.variants.iter_mut();
            if let Some(of_variant) = variants.find(|it| it.variant == *variant) {
                let rate = slice.ok as f64 / slice.length_s;
                of_variant.rates.push(rate);
                of_variant.failed += slice.failed;
                of_variant.mean_response_us = slice.mean_response_us;
            }
        }
    }

    /// Describes the progress of the block in words.
    pub(super) fn progress(&self) -> String {
        match self.planned {
            0 => "warming up".to_owned(),
            planned => format!(
                "round {} of {planned}, slices of {}",
                (self.ended + 1).min(planned),
                number::time(self.slice.as_secs_f64() * 1e6)
            ),
        }
    }

    /// Returns the readable name of a service, such as `web of gzip` for `web@1`.
    pub(super) fn service_name(&self, name: &str) -> Option<String> {
        let (service, variant) = name.rsplit_once('@')?;
        let variant: usize = variant.parse().ok()?;
        let found = self.variants.iter().find(|it| it.variant == variant)?;
        Some(format!("{service} of {}", found.name))
    }
}

/// Draws one line for each variant, as many as fit.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, rounds: &Rounds, theme: Theme) {
    let block = panels::titled("rate by round", theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let room = usize::from(inner.height / 2).max(1);
    let shown = &rounds.variants[..rounds.variants.len().min(room)];
    let most = shown.iter().flat_map(|it| it.rates.iter().copied());
    let most = most.fold(1.0, f64::max) as u64;
    let rows = Layout::vertical(shown.iter().map(|_| Constraint::Fill(1))).split(inner);
    for (variant, row) in shown.iter().zip(rows.iter()) {
        let [words, line] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(*row);
        frame.render_widget(words_of(variant, words.width, theme), words);
        let width = usize::from(line.width);
        let shown = &variant.rates[variant.rates.len().saturating_sub(width)..];
        // Use several columns for each round if they fit.
        let each = (width / rounds.planned.max(1) as usize).clamp(1, 4);
        let each = if each * shown.len() > width { 1 } else { each };
        let rates: Vec<u64> = shown
            .iter()
            .flat_map(|rate| std::iter::repeat_n(*rate as u64, each))
            .collect();
        let chart = Sparkline::default().data(rates).max(most);
        frame.render_widget(chart.style(theme.good()), line);
    }
}

/// Formats one line for each variant.
pub(super) fn summaries(
    rounds: &Rounds,
    width: u16,
    theme: Theme,
) -> impl Iterator<Item = Line<'static>> {
    let variants = rounds.variants.iter();
    variants.map(move |variant| words_of(variant, width, theme))
}

fn words_of(variant: &VariantRounds, width: u16, theme: Theme) -> Line<'static> {
    let rate = match variant.rates.last() {
        None => "–".to_owned(),
        Some(rate) => number::rate(*rate),
    };
    let mean = variant.mean_response_us.map(number::time);
    let mut parts = vec![Span::raw(format!("{}: {rate}", variant.name))];
    // Failures matter more than the mean, which is left out first on a narrow terminal.
    parts.extend((variant.failed > 0).then(|| {
        let failed = format!("x {} failed", number::count(variant.failed));
        Span::styled(failed, theme.bad())
    }));
    parts.extend(mean.map(|mean| Span::raw(format!("mean {mean}"))));
    panels::fitted(parts, width)
}
