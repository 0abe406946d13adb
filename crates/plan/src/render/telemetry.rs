//! The `[telemetry]` table: hardware counters, and the machine of remote services.
//!
//! Values may be templates, so the remote services of each variant can be on a different machine.

use prony_record::sampling::{DEFAULT_RATE_HZ, RATE_HZ_MAX};

use super::template::TemplateContext;
use crate::diagnostic::DiagnosticKind;
use crate::ssh_host::is_destination;
use crate::syntax::{PlanReader, TomlTable};
use crate::watch_spec::CounterMode;

/// Telemetry settings of one variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TelemetrySettings {
    /// Scope of the hardware counters: cores, processes, or off.
    pub counters: CounterMode,
    /// Samples per second of CPU time, from which the functions that use the CPU time are found;
    /// `None` if services are not sampled.
    pub profile_rate_hz: Option<u32>,
    /// Machine of the plan's remote services, as an ssh destination.
    pub remote: Option<String>,
    /// Additional arguments for ssh.
    pub ssh: Vec<String>,
}

/// Reads `[telemetry]` for one variant. If `remote` is empty, no machine is measured over ssh.
pub(super) fn read_telemetry(
    table: Option<&TomlTable>,
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> TelemetrySettings {
    let mut telemetry = TelemetrySettings::default();
    let Some(table) = table else {
        return telemetry;
    };
    let table = &context.table(table, reader);
    if let Some(node) = table.get("counters") {
        let word = reader.choice(node, "counters", &["cores", "processes", "off"]);
        telemetry.counters = match word {
            Some("processes") => CounterMode::Processes,
            Some("off") => CounterMode::Off,
            _ => CounterMode::Cores,
        };
    }
    let mut is_profiled = false;
    if let Some(node) = table.get("profile") {
        is_profiled = reader.choice(node, "profile", &["true", "false"]) == Some("true");
    }
    let mut rate_hz = DEFAULT_RATE_HZ;
    if let Some(node) = table.get("profile_rate")
        && let Some(rate) = reader.whole(node, "profile_rate", 1..=u64::from(RATE_HZ_MAX))
    {
        rate_hz = u32::try_from(rate).unwrap_or(RATE_HZ_MAX);
    }
    telemetry.profile_rate_hz = is_profiled.then_some(rate_hz);
    if let Some(node) = table.get("remote")
        && let Some(text) = reader.text(node, "remote")
    {
        if !text.is_empty() && !is_destination(&text) {
            let message =
                format!("remote of [telemetry] is \"{text}\", not a valid ssh destination");
            let hint = "write it like \"user@host\" or \"ssh://user@host:2222\"";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        } else {
            telemetry.remote = (!text.is_empty()).then_some(text);
        }
    }
    if let Some(node) = table.get("ssh") {
        telemetry.ssh = reader.texts(node, "ssh").unwrap_or_default();
        if table.get("remote").is_none() {
            let message = "[telemetry] has ssh arguments but no remote machine";
            let hint = "add remote = \"user@host\"";
            reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
        }
    }
    telemetry
}
