//! Options that show a running load or experiment to other programs.

use std::time::Duration;

use clap::Args;
use prony_record::quantity;

/// Destinations of the results of a running load or experiment.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Monitoring")]
pub(crate) struct MonitoringArgs {
    /// Serve a page with the charts of the running load or the latest report of the experiment, and
    /// update it every second; ADDR is ADDRESS:PORT, or a port on 127.0.0.1
    #[arg(long, value_name = "ADDR")]
    pub(crate) dashboard: Option<String>,
    /// Serve Prometheus metrics of the running load at /metrics; ADDR is ADDRESS:PORT, or a port on
    /// 127.0.0.1
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
    /// Send metrics to an OpenTelemetry collector (OTLP over HTTP) every --export-interval and at
    /// the end, such as http://localhost:4318; header fields come from OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Send metrics to Prometheus every --export-interval and at the end, such as
    /// http://localhost:9090/api/v1/write
    #[arg(long, value_name = "URL")]
    pub(crate) remote_write: Option<String>,
    /// Time between two exports of --otlp and --remote-write [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time)]
    pub(crate) export_interval: Option<Duration>,
}
