//! Shows a running load or experiment to other programs: metrics that Prometheus reads
//! (`--metrics`), metrics that are sent ([`export`]), and a page ([`dashboard`]).
//!
//! Separate threads do that. They read what the workers publish every half second, or what the
//! agents report every second, and never interrupt a worker.

pub(crate) mod agent;
mod dashboard;
mod export;
mod records;
mod server;

use std::path::Path;
use std::sync::{Arc, Mutex};

use prony_experiment::runner::{ExperimentEvent, RunSettings, design};
use prony_plan::Plan;
use prony_record::Record;
use prony_report::metrics::{self, Labels, openmetrics};
use prony_report::{Document, PERCENTILES, html};

use self::dashboard::Dashboard;
use self::export::Export;
use self::records::{ServedRecords, lock};
use self::server::{HttpPage, PageServer, parse_address};
use crate::arguments::MonitoringArgs;
use crate::ending::Failure;
use crate::progress::Progress;
use crate::running_load::RunningLoad;
use crate::terminal;

/// Content of the page at `/`, which names the path of the metrics.
const INDEX: &str = "prony: the metrics of the running load are at /metrics\n";

/// Everything that shows a load or experiment to other programs, until this value is dropped.
pub(crate) struct Metrics {
    _server: Option<PageServer>,
    _exports: Vec<Export>,
    dashboard: Option<Dashboard>,
    numbers: Arc<Mutex<ServedRecords>>,
    /// Labels of each variant, by the variant's ID.
    variants: Vec<(String, Labels)>,
    /// Labels of the current trial.
    labels: Mutex<Labels>,
}

impl Metrics {
    /// Starts what the arguments ask for, and prints the URLs that are served. Returns `None` if
    /// they ask for nothing.
    pub(crate) fn open(
        arguments: &MonitoringArgs,
        progress: &Arc<Progress>,
    ) -> Result<Option<Metrics>, Failure> {
        let numbers = Arc::new(Mutex::new(ServedRecords::default()));
        let serve = |text: &String| {
            let of_server = numbers.clone();
            serve(text, move || {
                openmetrics::text(&lock(&of_server).families().unwrap_or_default())
            })
        };
        let dashboard = arguments.dashboard.as_deref();
        let server = arguments.metrics.as_ref().map(serve).transpose()?;
        let dashboard = dashboard.map(|text| Dashboard::serve(text, &numbers));
        let dashboard = dashboard.transpose()?;
        let exports = export::start(arguments, &numbers, progress)?;
        let shows = server.is_some() || dashboard.is_some() || !exports.is_empty();
        Ok(shows.then_some(Metrics {
            _server: server,
            _exports: exports,
            dashboard,
            numbers,
            variants: Vec::new(),
            labels: Mutex::default(),
        }))
    }

    /// Makes the dashboard show the page of an experiment, once it exists.
    pub(crate) fn show_stored(&self, page: &Path) {
        if let Some(dashboard) = &self.dashboard {
            dashboard.show_stored(page);
        }
    }

    /// Shows the final results of a single load.
    pub(crate) fn end_load(&self, record: &Record) {
        {
            let mut numbers = lock(&self.numbers);
            numbers.running = None;
            numbers.ended.push((Labels::new(), record.clone()));
        }
        self.end(|| Some(Document::of_load(record, &PERCENTILES)));
    }

    /// Shows the final report on the dashboard; `None` is the stored page of an experiment.
    pub(crate) fn end(&self, report: impl FnOnce() -> Option<Document>) {
        if let Some(dashboard) = &self.dashboard {
            dashboard.end(report().as_ref().map(html::render));
        }
    }

    /// Labels the metrics of each load with its variant. Must be called before an experiment runs.
    pub(crate) fn label_variants(&mut self, plan: &Plan, settings: &RunSettings) {
        let design = design(plan, settings);
        let labels = plan.variants.iter().enumerate().map(|(place, variant)| {
            let name = design.name_of(place);
            let labels = metrics::labels(&name, &design.variants[place]);
            (variant.id.clone(), labels)
        });
        self.variants = labels.collect();
    }

    /// Sets the load that is about to start.
    pub(crate) fn running(&self, running_load: RunningLoad) {
        running_load.publish();
        if self.dashboard.is_some() {
            running_load.keep_series();
        }
        let labels = lock(&self.labels).clone();
        lock(&self.numbers).running = Some((labels, running_load));
    }

    /// Returns the labels of a variant.
    fn labels_of(&self, id: &str) -> Labels {
        let mut variants = self.variants.iter();
        let found = variants.find(|(variant, _)| variant == id);
        found.map_or_else(Labels::new, |(_, labels)| labels.clone())
    }

    /// Updates the metrics after an event of an experiment.
    pub(crate) fn observe(&self, event: &ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::TrialBegan { block, id, .. } => {
                *lock(&self.labels) = self.labels_of(id);
                lock(&self.numbers).phase = format!("block {block}");
            }
            ExperimentEvent::InterleavedBlockBegan { block } => {
                lock(&self.numbers).phase = format!("block {block}, all variants in turn");
            }
            // Loads on agents are reported through [`Metrics::running`] instead.
            ExperimentEvent::Loading {
                info,
                control,
                agents: None,
                ..
            } => self.running(RunningLoad::here(control, info)),
            ExperimentEvent::TrialEnded { id, result } => {
                let mut numbers = lock(&self.numbers);
                numbers.running = None;
                if let Some(record) = &result.record {
                    let kept = Record {
                        series: Vec::new(),
                        ..record.clone()
                    };
                    numbers.ended.push((self.labels_of(id), kept));
                    if self.dashboard.is_some() {
                        numbers.last = Some((self.labels_of(id), record.clone()));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Serves the result of `metrics` at `text`, which is a port or ADDRESS:PORT, and prints the URL.
fn serve(
    text: &str,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> Result<PageServer, Failure> {
    let server = PageServer::start(parse_address("--metrics", text)?, move |path| match path {
        "/metrics" => HttpPage {
            status: 200,
            content_type: openmetrics::CONTENT_TYPE,
            text: metrics(),
        },
        "/" => HttpPage::plain(200, INDEX),
        _ => HttpPage::plain(404, INDEX),
    });
    let server = server.map_err(|error| Failure::refused(format!("--metrics {text}: {error}")))?;
    terminal::print_message(format_args!(
        "metrics at http://{}/metrics",
        server.address()
    ));
    Ok(server)
}
