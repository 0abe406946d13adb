//! Which charts an experiment or a load has, and what is drawn in each: shared by the page, the PDF
//! and the files.

mod completions;
mod cpu;
mod forest;
mod load;
mod runs;
mod scaling;
mod times;

use prony_record::Record;
use prony_stats::runs::RunsDocument;

use crate::chart::Chart;
use crate::{Experiment, report_view, runs_view, verdict_view};

pub(crate) use completions::until_done;
pub(crate) use cpu::cpu;
pub(crate) use forest::forest;
pub(crate) use load::load_figures;
pub(crate) use runs::of_runs;
pub(crate) use scaling::scaling;
pub(crate) use times::{latency, latency_groups, over_time};

/// A chart among all of its report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// What a file of it is called, without an ending: small letters, digits and hyphens.
    pub(crate) name: String,
    /// What stands above it.
    pub(crate) title: String,
    pub(crate) chart: Chart,
}

/// Every chart of an experiment's report, in the report's order.
pub(crate) fn all(experiment: &Experiment) -> Vec<Figure> {
    let verdict = &experiment.verdict;
    let mut figures = Figures::default();
    for metric in verdict_view::family(verdict) {
        let standings = verdict_view::standings(verdict, metric);
        let title = report_view::capitalised(metric.noun());
        let name = format!("{} against the reference", metric.noun());
        figures.put(&name, &title, forest(verdict, metric, &standings));
    }
    figures.put("cpu", "CPU of the services", cpu(verdict));
    for (factor, metric, lines) in verdict_view::scaling::groups(verdict) {
        let title = verdict_view::scaling::title(factor, metric);
        let chart = scaling(factor, metric, &lines);
        figures.put(&title, &report_view::capitalised(&title), Some(chart));
    }
    figures.put(
        "completions until done",
        "Until all requests were done",
        until_done(experiment),
    );
    figures.put(
        "completions over time",
        "Completions over time",
        over_time(experiment),
    );
    figures.put(
        "response times",
        "Response times",
        latency(&latency_groups(experiment)),
    );
    for figure in &mut figures.0 {
        figure.title = format!("{}: {}", verdict.name, figure.title);
    }
    figures.0
}

/// Every chart of a load's report.
pub(crate) fn all_of_load(record: &Record) -> Vec<Figure> {
    let mut figures = Figures::default();
    for figure in load_figures(record) {
        let name = figure.title.to_lowercase();
        let title = format!("{}: {name}", record.load.url);
        figures.put(&name, &title, Some(figure.chart));
    }
    figures.0
}

/// Every chart of two runs against one another.
pub(crate) fn all_of_runs(document: &RunsDocument) -> Vec<Figure> {
    let mut figures = Figures::default();
    let title = runs_view::title(document);
    for metric in runs_view::family(document) {
        let name = format!("{} of two runs", metric.noun());
        let title = format!("{title}: {}", metric.noun());
        figures.put(&name, &title, of_runs(document, metric));
    }
    figures.0
}

/// Charts of different names.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a chart, if there is one.
    fn put(&mut self, name: &str, title: &str, chart: Option<Chart>) {
        let Some(chart) = chart else { return };
        let plain = file_name(name);
        let is_taken = |name: &String| self.0.iter().any(|figure| figure.name == *name);
        let numbered = (2..).map(|n| format!("{plain}-{n}"));
        let mut free = std::iter::once(plain.clone())
            .chain(numbered)
            .filter(|name| !is_taken(name));
        let name = free.next().unwrap_or_else(|| plain.clone());
        self.0.push(Figure {
            name,
            title: title.to_owned(),
            chart,
        });
    }
}

/// A text as a file name that every system takes: its letters and digits, small, hyphens between.
fn file_name(text: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let dashed: String = text.chars().map(letter).collect();
    let parts = dashed.split('-').filter(|part| !part.is_empty());
    let name: String = parts.collect::<Vec<_>>().join("-");
    let short: String = name.chars().take(100).collect();
    if short.is_empty() {
        "chart".to_owned()
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_two_are_one() {
        assert_eq!(
            file_name("request rate along ../Köln/é"),
            "request-rate-along-k-ln"
        );
        assert_eq!(file_name("漢字"), "chart");
        let record = Record::default();
        let none = all_of_load(&record);
        assert!(none.is_empty(), "a record without a series has no chart");
        let drawn = crate::chart::over_time(String::new(), &[]);
        let mut figures = Figures::default();
        for _ in 0..3 {
            figures.put("A b", "", Some(drawn.clone()));
        }
        let names: Vec<&str> = figures
            .0
            .iter()
            .map(|figure| figure.name.as_str())
            .collect();
        assert_eq!(names, ["a-b", "a-b-2", "a-b-3"]);
    }
}
