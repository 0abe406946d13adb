//! The `ready` key of a service: the criteria by which the service counts as ready.

use std::time::Duration;

use prony_load::StatusSet;

use super::context::RenderContext;
use super::service_layout::ServiceLayout;
use crate::diagnostic::DiagnosticKind;
use crate::reference::PlanTable;
use crate::service::ListenKind;
use crate::syntax::{PlanReader, TomlNode};

/// Default time limit for a service to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The criteria by which a service counts as ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadySettings {
    /// Listener to probe. If `None`, the service has no listener and is ready as soon as it runs.
    pub listener: Option<String>,
    /// Path to request. If `None`, the listener is ready as soon as it accepts a connection or its
    /// UDP port is bound.
    pub get: Option<String>,
    /// True to request the path over TLS, without verifying the certificate.
    pub https: bool,
    /// Response statuses that mean ready. The default is 200 to 399.
    pub status: Option<StatusSet>,
    /// Time limit for the service to become ready.
    pub within: Duration,
}

impl ReadySettings {
    /// Returns true if a response with this status means ready.
    pub fn accepts(&self, status: u16) -> bool {
        match &self.status {
            Some(statuses) => statuses.contains(status),
            None => (200..400).contains(&status),
        }
    }
}

pub(super) fn read_ready(
    node: Option<&TomlNode>,
    layout: &ServiceLayout,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> ReadySettings {
    let mut ready = ReadySettings {
        listener: layout
            .accepting()
            .chain(layout.listen.keys())
            .next()
            .cloned(),
        get: None,
        https: false,
        status: None,
        within: READY_TIMEOUT,
    };
    if layout.remote.is_some() {
        ready.listener = Some(String::new());
    }
    let Some(node) = node else { return ready };
    let Some(table) = reader.table(node, &format!("ready of {owner}")) else {
        return ready;
    };
    let subject = |key: &str| format!("ready.{key} of {owner}");
    reader.report_unknown_keys(
        table,
        &format!("ready of {owner}"),
        &PlanTable::Ready.names(),
    );
    ready.get = table
        .get("get")
        .and_then(|node| read_path(node, &subject("get"), reader));
    ready.status = table
        .get("status")
        .and_then(|node| read_statuses(node, &subject("status"), reader));
    if let Some(node) = table.get("within")
        && let Some(within) = reader.duration(node, &subject("within"))
    {
        ready.within = within;
    }
    if let Some(node) = table.get("listener") {
        let names: Vec<&str> = layout.listen.keys().map(String::as_str).collect();
        if let Some(name) = reader.choice(node, &subject("listener"), &names) {
            ready.listener = Some(name.to_owned());
        }
    }
    let kind = ready.listener.as_ref().and_then(|it| layout.listen.get(it));
    ready.https = match table.get("scheme") {
        // Requests to a UDP listener use HTTP/3, which always uses TLS.
        _ if kind == Some(&ListenKind::Udp) => true,
        Some(node) => reader.choice(node, &subject("scheme"), &["http", "https"]) == Some("https"),
        // By default, a listener uses TLS if its name is `https` or if the load reaches it over
        // TLS.
        None => ready.listener.as_ref().is_some_and(|listener| {
            let target = (layout.name.clone(), listener.clone());
            listener == "https" || around.tls_target == Some(target)
        }),
    };
    ready
}

fn read_path(node: &TomlNode, subject: &str, reader: &mut PlanReader<'_>) -> Option<String> {
    let path = reader.text(node, subject)?;
    if path.starts_with('/') && !path.contains(char::is_whitespace) {
        return Some(path);
    }
    let message = format!("{subject} is \"{path}\", not a path");
    let hint = "a path begins with /";
    reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    None
}

fn read_statuses(node: &TomlNode, subject: &str, reader: &mut PlanReader<'_>) -> Option<StatusSet> {
    let texts = reader.texts(node, subject)?;
    let set = texts.join(",").parse::<StatusSet>();
    reader.valid(set.map_err(|error| error.to_string()), node, subject)
}
