//! Serves the metrics of a running load to Prometheus over HTTP: `--metrics ADDR`.
//!
//! A separate thread serves them. It reads what the workers publish every half second, or what the
//! agents report every second, and never interrupts a worker.

pub(crate) mod agent;
mod server;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prony_experiment::runner::{ExperimentEvent, RunSettings, design};
use prony_plan::Plan;
use prony_record::Record;
use prony_report::openmetrics::{self, Labels};

use self::server::{HttpPage, PageServer};
use crate::ending::Failure;
use crate::running_load::RunningLoad;
use crate::terminal;

/// Host to listen on if `--metrics` contains only a port.
const LOOPBACK: &str = "127.0.0.1";

/// Content of the page at `/`, which names the path of the metrics.
const INDEX: &str = "prony: the metrics of the running load are at /metrics\n";

/// The data that the metrics server reads.
#[derive(Debug, Default)]
struct ServedRecords {
    /// Records of finished loads, with the labels of their variants.
    ended: Vec<(Labels, Record)>,
    /// The load in progress, with the labels of its variant.
    running: Option<(Labels, RunningLoad)>,
}

/// The metrics of a load or experiment, served until this value is dropped.
pub(crate) struct Metrics {
    _server: PageServer,
    numbers: Arc<Mutex<ServedRecords>>,
    /// Labels of each variant, by the variant's ID.
    variants: Vec<(String, Labels)>,
    /// Labels of the current trial.
    labels: Mutex<Labels>,
}

impl Metrics {
    /// Serves metrics at `text`, which is a port or ADDRESS:PORT, and prints the URL.
    pub(crate) fn serve(text: &str) -> Result<Metrics, Failure> {
        let numbers = Arc::new(Mutex::new(ServedRecords::default()));
        let of_server = numbers.clone();
        Ok(Metrics {
            _server: serve(text, move || lock(&of_server).text())?,
            numbers,
            variants: Vec::new(),
            labels: Mutex::default(),
        })
    }

    /// Labels the metrics of each load with its variant. Must be called before an experiment runs.
    pub(crate) fn label_variants(&mut self, plan: &Plan, settings: &RunSettings) {
        let design = design(plan, settings);
        let labels = plan.variants.iter().enumerate().map(|(place, variant)| {
            let name = design.name_of(place);
            let labels = openmetrics::labels(&name, &design.variants[place]);
            (variant.id.clone(), labels)
        });
        self.variants = labels.collect();
    }

    /// Sets the load that is about to start.
    pub(crate) fn running(&self, running_load: RunningLoad) {
        running_load.publish();
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
            ExperimentEvent::TrialBegan { id, .. } => *lock(&self.labels) = self.labels_of(id),
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
                }
            }
            _ => {}
        }
    }
}

/// Parses an address. A port without a host means the loopback interface.
fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    let full = match text.rsplit_once(':') {
        None => format!("{LOOPBACK}:{text}"),
        Some(("", port)) => format!("{LOOPBACK}:{port}"),
        Some(_) => text.to_owned(),
    };
    let mut found = full.to_socket_addrs().map_err(|error| {
        Failure::wrong(format!(
            "--metrics {text}: {error} (expected a port or ADDRESS:PORT, such as 9464 or 0.0.0.0:9464)"
        ))
    })?;
    found.next().ok_or_else(|| {
        Failure::wrong(format!(
            "--metrics {text}: this machine has no such address"
        ))
    })
}

/// Serves the result of `metrics` at `text`, which is a port or ADDRESS:PORT, and prints the URL.
fn serve(
    text: &str,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> Result<PageServer, Failure> {
    let server = PageServer::start(parse_address(text)?, move |path| match path {
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

impl ServedRecords {
    fn text(&self) -> String {
        let running = self
            .running
            .as_ref()
            .and_then(|(labels, running_load)| Some((labels.clone(), running_load.record()?)));
        let all: Vec<(Labels, &Record)> = self
            .ended
            .iter()
            .chain(&running)
            .map(|(labels, record)| (labels.clone(), record))
            .collect();
        openmetrics::openmetrics_text(&all)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback() {
        for (text, meant) in [
            ("9464", "127.0.0.1:9464"),
            (":0", "127.0.0.1:0"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.2:1", "127.0.0.2:1"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(parse_address(text).unwrap().to_string(), meant);
        }
        for wrong in ["", "port", "70000", "127.0.0.1:"] {
            let error = parse_address(wrong).unwrap_err().to_string();
            assert!(error.contains("--metrics"), "{error}");
        }
    }
}
