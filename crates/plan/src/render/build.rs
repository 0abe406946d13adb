//! The key `build` of a service: a revision that is built before anything starts.

use crate::diagnostic::DiagnosticKind;
use crate::machine::{Build, BuildLimits, PlanMachine};
use crate::model::PlanFolder;
use crate::reference::PlanTable;
use crate::syntax::{PlanReader, TomlNode};

/// Smallest accepted value of `size_max`, in bytes.
const SIZE_MAX_MIN: u64 = 1 << 10;

/// The service that a build belongs to.
pub(super) struct BuildOwner<'a> {
    pub(super) service: &'a str,
    /// True if another host runs the service.
    pub(super) has_host: bool,
    /// True if a listener has the name `build`, which templates need for the build.
    pub(super) listens_as_build: bool,
}

/// Reads a build. Its templates can use factors, but not services.
pub(super) fn read_build(
    node: &TomlNode,
    owner: &BuildOwner<'_>,
    machine: &dyn PlanMachine,
    folder: &PlanFolder,
    reader: &mut PlanReader<'_>,
) -> Option<Build> {
    let BuildOwner {
        service,
        has_host,
        listens_as_build,
    } = *owner;
    let owner = format!("build of service \"{service}\"");
    let table = reader.table(node, &owner)?;
    reader.report_unknown_keys(table, &owner, &PlanTable::Build.names());
    if listens_as_build {
        let message = format!("{owner}: a listener is named \"build\", too");
        let hint = "rename the listener";
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
        return None;
    }
    if has_host {
        let message = format!("{owner} runs on this machine, but the service has a host");
        let hint = "remove host, or build the revisions on that host yourself";
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
        return None;
    }
    let mut required = |key: &str| {
        let text = match table.get(key) {
            Some(node) => reader.scalar(node, &format!("{key} of the {owner}"))?,
            None => String::new(),
        };
        if text.trim().is_empty() {
            let message = format!("the {owner} has no {key}");
            let hint = "write build = { git = \".\", revision = \"main\", run = \"make\" }";
            reader.report_with_hint(DiagnosticKind::MissingKey, node.line, message, hint);
            return None;
        }
        Some(text)
    };
    let (revision, run) = (required("revision"), required("run"));
    let git = match table.get("git") {
        Some(node) => reader.text(node, &format!("git of the {owner}"))?,
        None => ".".to_owned(),
    };
    let mut limits = BuildLimits::default();
    if let Some(node) = table.get("within") {
        limits.within = reader.duration(node, &format!("within of the {owner}"))?;
    }
    if let Some(node) = table.get("size_max") {
        let subject = format!("size_max of the {owner}");
        limits.size_max = reader.whole(node, &subject, SIZE_MAX_MIN..=u64::MAX)?;
    }
    match machine.build(&folder.path(&git), &revision?, &run?) {
        Ok(build) => Some(Build { limits, ..build }),
        Err(refused) => {
            let message = format!("{owner}: {}", refused.message);
            let line = table.line_of("revision");
            reader.report_with_hint(DiagnosticKind::Machine, line, message, refused.hint);
            None
        }
    }
}
