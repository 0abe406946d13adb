//! Serves the metrics of an agent: `prony agent --metrics ADDR`.

use std::fmt::Write;

use prony_fleet::agent::status::{AgentSnapshot, AgentStatus};
use prony_fleet::names::AgentName;
use prony_fleet::wire::PRONY_VERSION;
use prony_report::metrics::{self, Labels, openmetrics};

use super::server::PageServer;
use crate::ending::Failure;

/// The metrics of an agent, served until this value is dropped.
pub(crate) struct AgentMetrics {
    _server: PageServer,
}

impl AgentMetrics {
    /// Serves the status of an agent at `address`, which is a port or ADDRESS:PORT, and prints the
    /// URL.
    pub(crate) fn serve(
        address: &str,
        name: &AgentName,
        status: AgentStatus,
    ) -> Result<Self, Failure> {
        let name = name.clone();
        let server = super::serve(address, move || agent_text(&name, &status.snapshot()))?;
        Ok(AgentMetrics { _server: server })
    }
}

/// Formats the agent's own metrics, followed by the metrics of its current or last load.
fn agent_text(name: &AgentName, now: &AgentSnapshot) -> String {
    let mut out = String::new();
    let label = format!("agent=\"{name}\"");
    let _ = writeln!(
        out,
        "# TYPE prony_agent info\n# HELP prony_agent The agent and its version.\n\
         prony_agent_info{{{label},version=\"{PRONY_VERSION}\"}} 1"
    );
    let is_loading = now.load.as_ref().is_some_and(|load| !load.is_over);
    let gauges: [(&str, &str, u64); 5] = [
        (
            "connected",
            "1 if the agent is connected to the NATS server, else 0.",
            now.connected.into(),
        ),
        (
            "busy",
            "1 if the agent takes part in a run, else 0.",
            now.busy_with.is_some().into(),
        ),
        (
            "reserved",
            "1 if an experiment has reserved the agent, else 0.",
            now.reserved.is_some().into(),
        ),
        (
            "loading",
            "1 if the agent generates a load, else 0.",
            is_loading.into(),
        ),
        (
            "unsent_messages",
            "Result messages that the NATS server has not stored yet.",
            now.unsent as u64,
        ),
    ];
    for (metric, help, value) in gauges {
        let _ = writeln!(
            out,
            "# TYPE prony_agent_{metric} gauge\n# HELP prony_agent_{metric} {help}\n\
             prony_agent_{metric}{{{label}}} {value}"
        );
    }
    let _ = writeln!(
        out,
        "# TYPE prony_agent_loads counter\n# HELP prony_agent_loads Loads that the agent has \
            taken part in since it was started.\nprony_agent_loads_total{{{label}}} {}",
        now.loads
    );
    let record = now
        .load
        .as_ref()
        .map(|load| load.control.record_so_far(&load.info));
    let labels: Labels = [("agent".to_owned(), name.to_string())]
        .into_iter()
        .collect();
    let samples: Vec<_> = record
        .iter()
        .map(|record| (labels.clone(), record))
        .collect();
    out + &openmetrics::text(&metrics::families(&samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_agent_exports_only_its_own_figures() {
        let now = AgentSnapshot {
            connected: true,
            unsent: 3,
            ..AgentSnapshot::default()
        };
        let text = agent_text(&"web-1".parse().unwrap(), &now);
        for line in [
            "prony_agent_connected{agent=\"web-1\"} 1",
            "prony_agent_busy{agent=\"web-1\"} 0",
            "prony_agent_unsent_messages{agent=\"web-1\"} 3",
            "prony_agent_loads_total{agent=\"web-1\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    }
}
