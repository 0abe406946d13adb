//! A page with the charts of the running load or the latest report of the experiment:
//! `--dashboard ADDR`.
//!
//! The page is a report's own HTML. It is rendered when a browser asks for it, so a dashboard that
//! nobody looks at costs nothing, and at most for [`BUSY_SHARE_MAX`] of the time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prony_record::{Record, read_stored};
use prony_report::{Document, PERCENTILES, html};
use serde_json::json;

use super::records::{ServedRecords, lock};
use super::server::{HttpPage, PageServer, parse_address};
use crate::ending::Failure;
use crate::terminal;
use prony_report::metrics::Labels;

/// Maximum fraction of the time in which the page is rendered.
const BUSY_SHARE_MAX: f64 = 0.005;
/// Minimum time between two renderings.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Time for which browsers can get the final report. Their pages ask every second.
const LINGER: Duration = Duration::from_millis(1_500);

/// The dashboard of a load or experiment, served until this value is dropped.
pub(super) struct Dashboard {
    _server: PageServer,
    state: Arc<Mutex<DashboardState>>,
}

/// The page and its sources.
#[derive(Default)]
struct DashboardState {
    page: String,
    /// Status line above the page: the running load, or the last one.
    status: String,
    /// Number of the page's renderings.
    version: u64,
    /// Time before which the page is not rendered again.
    next: Option<Instant>,
    /// Page of an experiment, which is written after each look at its results.
    stored: Option<PathBuf>,
    is_over: bool,
    asked: Option<Instant>,
}

impl Dashboard {
    /// Serves the dashboard at `text`, which is a port or ADDRESS:PORT, and prints the URL.
    pub(super) fn serve(
        text: &str,
        records: &Arc<Mutex<ServedRecords>>,
    ) -> Result<Dashboard, Failure> {
        const FLAG: &str = "--dashboard";
        let state = Arc::new(Mutex::new(DashboardState::default()));
        let (of_server, records) = (state.clone(), records.clone());
        let address = parse_address(FLAG, text)?;
        let server = PageServer::start(address, move |path| {
            let typed = |content_type, text| HttpPage {
                status: 200,
                content_type,
                text,
            };
            match path {
                "/" => typed("text/html", html::live_page()),
                "/live.js" => typed("text/javascript", html::LIVE_SCRIPT.to_owned()),
                "/state" => {
                    let text = lock(&of_server).refresh(&records).to_string();
                    typed("application/json", text)
                }
                "/report" => typed("text/html", lock(&of_server).page.clone()),
                _ => HttpPage::plain(404, "prony: the dashboard is at /\n"),
            }
        });
        let server = server.map_err(|error| Failure::refused(format!("{FLAG} {text}: {error}")))?;
        let at = server.address();
        terminal::print_message(format_args!("dashboard at http://{at}/"));
        Ok(Dashboard {
            _server: server,
            state,
        })
    }

    /// Shows the page at `path` instead of the running load, once the file exists.
    pub(super) fn show_stored(&self, path: &Path) {
        lock(&self.state).stored = Some(path.to_owned());
    }

    /// Shows the final report, and waits until browsers that show the dashboard have it.
    pub(super) fn end(&self, page: Option<String>) {
        let mut state = lock(&self.state);
        if state.is_over {
            return;
        }
        if let Some(page) = page.or_else(|| state.stored_page()) {
            state.show(page);
        }
        state.is_over = true;
        let watched = state
            .asked
            .is_some_and(|asked| asked.elapsed() < 2 * LINGER);
        drop(state);
        if watched {
            thread::sleep(LINGER);
        }
    }
}

impl DashboardState {
    /// Renders the page again if it is time to. Returns the state for the page's script.
    fn refresh(&mut self, records: &Mutex<ServedRecords>) -> serde_json::Value {
        let began = Instant::now();
        self.asked = Some(began);
        if self.is_over {
            self.status = "ended; this is the final report".to_owned();
        } else if self.next.is_none_or(|next| began >= next) {
            self.render(records);
            let pause = began.elapsed().div_f64(BUSY_SHARE_MAX);
            self.next = Some(Instant::now() + pause.max(INTERVAL_MIN));
        }
        json!({ "version": self.version, "over": self.is_over, "text": self.status })
    }

    fn render(&mut self, records: &Mutex<ServedRecords>) {
        let (running, last, phase) = {
            let records = lock(records);
            let (running, last) = (records.running.clone(), records.last.clone());
            (running, last, records.phase.clone())
        };
        let running = running.and_then(|(labels, running_load)| {
            let findings = running_load.findings();
            let record = running_load.record()?;
            Some((labels, Record { findings, ..record }))
        });
        let last = last.filter(|_| running.is_none());
        let described = |(labels, record): &(Labels, Record)| {
            let variant = labels.iter().find(|(name, _)| name == "variant");
            let variant = variant.map_or(String::new(), |(_, name)| format!("{name}, "));
            variant + &prony_wording::load::headline(record)
        };
        let of_last = |last| format!("last load: {}", described(last));
        let parts = [
            Some("running".to_owned()),
            Some(phase).filter(|phase| !phase.is_empty()),
            running.as_ref().map(described),
            last.as_ref().map(of_last),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        self.status = parts.join(" · ");
        let load = running.or(last);
        let of_load = |(_, record)| html::render(&Document::of_load(&record, &PERCENTILES));
        if let Some(page) = self.stored_page().or_else(|| load.map(of_load)) {
            self.show(page);
        }
    }

    fn show(&mut self, page: String) {
        if page != self.page {
            self.page = page;
            self.version += 1;
        }
    }

    fn stored_page(&self) -> Option<String> {
        read_stored(self.stored.as_ref()?).ok()
    }
}
