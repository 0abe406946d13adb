//! Renders a service's table into a process that the host can start.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::command::{read_arguments, read_command};
use super::container::read_container;
use super::context::{MachineNeedKind, RenderContext};
use super::files;
use super::ready::{ReadySettings, read_ready};
use super::service_layout::ServiceLayout;
use crate::diagnostic::DiagnosticKind;
use crate::machine::Build;
use crate::reference::PlanTable;
use crate::service::{CPU_PERIOD_US, FollowSpec, LimitKey, PlaceKind, ResourceLimits, ServiceSpec};
use crate::syntax::{PlanReader, SIGTERM, TomlNode, TomlTable, TomlValue, signal};

/// Keys that a remote service can have.
const REMOTE_KEYS: &[&str] = &["remote", "ready", "needs", "cgroup", "pid_file"];

/// Memory limits in bytes. With less, no program can start.
const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=u64::MAX;

/// Limits on processes and threads. The largest is the kernel's own.
const PIDS: RangeInclusive<u64> = 1..=1 << 22;

/// Shortest quota that the kernel accepts, in microseconds per period.
const CPU_QUOTA_US_MIN: f64 = 1e3;

/// Longest quota, which stands for 10,000 cores, in microseconds per period.
const CPU_QUOTA_US_MAX: f64 = 1e9;

/// A service of one variant, with every value resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedService {
    /// Process that the host starts. Its command is empty if `remote` is set.
    pub spec: ServiceSpec,
    /// Criteria by which the service counts as ready.
    pub ready: ReadySettings,
    /// Address of a server that prony doesn't start: `host:port` or `unix:/path`.
    pub remote: Option<String>,
    /// Host that runs the service, as named in the plan; `None` for this machine.
    pub host: Option<String>,
    /// The revision that is built for the service before anything starts.
    pub build: Option<Build>,
}

/// Reads one service. Values with problems are replaced by defaults.
pub(crate) fn read_service(
    table: &TomlTable,
    layout: &ServiceLayout,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> ResolvedService {
    let owner = format!("service \"{}\"", layout.name);
    // The templates in `files` are rendered when the files are read, not here.
    let mut without_files = table.clone();
    without_files
        .entries
        .retain(|entry| !["files", "build"].contains(&entry.key.as_str()));
    let rendered = around.templates.table(&without_files, reader);
    let env = read_env(rendered.get("env"), &owner, reader);
    let is_local = layout.host.is_none();
    if !is_local {
        report_relative_paths(&rendered, &owner, reader);
    }
    if layout.remote.is_some() {
        report_keys_without_effect(table, &owner, reader);
    }
    let folder = |key: &str, reader: &mut PlanReader<'_>| {
        let (path, line) = read_folder(rendered.get(key)?, key, &owner, around, reader)?;
        if is_local && !around.layout.is_built(&path) {
            let subject = format!("{key} of {owner}");
            let path = path.clone();
            around.add_need(line, MachineNeedKind::Folder { subject, path });
        }
        Some(path)
    };
    let container = read_container(&rendered, layout, &owner, around, reader);
    // In a container, `cwd` is a folder of the image.
    let cwd = match container {
        Some(_) => None,
        None => folder("cwd", reader),
    };
    // On another host, the service's folder is the only one that is known to exist.
    let default_cwd = || {
        if is_local {
            around.folder.base.clone()
        } else {
            PathBuf::new()
        }
    };
    let (command, wrapper_words) = match container {
        Some(_) => (read_arguments(&rendered, &owner, reader), 0),
        None => read_command(&rendered, layout, &env, around, reader),
    };
    let cores = read_cores(&rendered, layout, around, reader);
    let limits = read_limits(&rendered, &owner, reader);
    if layout.over_ssh {
        report_limits_over_ssh(&rendered, &limits, &owner, reader);
    }
    // The runtime creates the group of a container.
    if is_local && container.is_none() {
        for (key, _) in limits.iter() {
            let owner = owner.clone();
            let need = MachineNeedKind::Limit { owner, key, limits };
            around.add_need(rendered.line_of(key.name()), need);
        }
    }
    let files = files::read_files(table.get("files"), &owner, around, reader);
    let spec = ServiceSpec {
        name: layout.name.clone(),
        command,
        wrapper_words,
        env,
        cwd: cwd.unwrap_or_else(default_cwd),
        files: files.public,
        secrets: files.secret,
        cores,
        place: layout.place,
        jail: layout.jail.clone(),
        stop_signal: read_stop(rendered.get("stop"), &owner, reader),
        library_path: folder("library_path", reader),
        open_files: rendered
            .get("open_files")
            .and_then(|node| reader.whole(node, &format!("open_files of {owner}"), 16..=1 << 30)),
        limits,
        container,
        follow: read_follow(&rendered, &owner, around, reader),
    };
    if is_local && layout.place == PlaceKind::Namespace {
        let owner = owner.clone();
        let place = layout.place;
        around.add_need(layout.place_line, MachineNeedKind::Place { owner, place });
    }
    ResolvedService {
        spec,
        ready: read_ready(rendered.get("ready"), layout, &owner, around, reader),
        remote: layout.remote.as_ref().map(|(written, _)| written.clone()),
        host: layout.host.clone(),
        build: layout.build.clone(),
    }
}

/// Reports relative paths of a service on another host, because that host doesn't have the plan's
/// folder.
fn report_relative_paths(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) {
    for key in ["cwd", "library_path", "pid_file"] {
        let Some(node) = table.get(key) else { continue };
        let TomlValue::Text(text) = &node.value else {
            continue;
        };
        if !text.is_empty() && !text.starts_with('/') {
            let message = format!(
                "{key} of {owner} is a relative path, but its host doesn't have the plan's folder"
            );
            let hint = "write the full path on that host, or list the plan's files in files";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        }
    }
}

fn report_keys_without_effect(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) {
    let names = PlanTable::Service.names();
    for key in names.iter().filter(|key| !REMOTE_KEYS.contains(key)) {
        if table.get(key).is_some() {
            let message = format!("{owner} is remote, so {key} has no effect");
            let hint = format!("remove remote, or {key}");
            let line = table.line_of(key);
            reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        }
    }
}

/// Reads the keys that name processes of the service outside its process tree. An empty string
/// counts as absent.
fn read_follow(
    table: &TomlTable,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> FollowSpec {
    let mut text = |key: &str| {
        let text = reader.text(table.get(key)?, &format!("{key} of {owner}"))?;
        Some(text).filter(|text| !text.is_empty())
    };
    let cgroup = text("cgroup");
    let pid_file = text("pid_file").map(|path| around.folder.path(&path));
    let has_parent_part = |path: &String| path.split('/').any(|part| part == "..");
    if cgroup.as_ref().is_some_and(has_parent_part) {
        let message = format!("cgroup of {owner} is outside the control group hierarchy");
        let hint = "write its path below /sys/fs/cgroup, as shown in /proc/PID/cgroup for its \
            processes";
        let line = table.line_of("cgroup");
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
    }
    FollowSpec { cgroup, pid_file }
}

fn read_env(
    node: Option<&TomlNode>,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(table) = node.and_then(|node| reader.table(node, &format!("env of {owner}"))) else {
        return env;
    };
    for entry in &table.entries {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let message = format!(
                "\"{}\" is not a valid name for an environment variable",
                entry.key.escape_debug()
            );
            reader.report(DiagnosticKind::BadValue, entry.line, message);
        } else if let Some(value) =
            reader.scalar(&entry.node, &format!("variable {} of {owner}", entry.key))
        {
            env.insert(entry.key.clone(), value);
        }
    }
    env
}

/// Reads a folder. Returns its absolute path and the line of the key. An empty string counts as
/// absent.
fn read_folder(
    node: &TomlNode,
    key: &str,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<(PathBuf, usize)> {
    let text = reader.text(node, &format!("{key} of {owner}"))?;
    (!text.is_empty()).then(|| (around.folder.path(&text), node.line))
}

/// Reads the service's cores. If the service sets none, the cores of its place apply.
fn read_cores(
    table: &TomlTable,
    layout: &ServiceLayout,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Vec<usize> {
    let mut owner = format!("service \"{}\"", layout.name);
    let own = table.get("cores").cloned();
    let Some(node) = own.or_else(|| {
        let of_place = around.layout.cores_of(layout.place)?;
        owner += ", through its place,";
        Some(of_place.node())
    }) else {
        return Vec::new();
    };
    let cores = reader
        .cores(&node, &format!("cores of {owner}"))
        .unwrap_or_default();
    if layout.host.is_none() {
        let cores = cores.clone();
        around.add_need(node.line, MachineNeedKind::Cores { owner, cores });
    }
    cores
}

/// Word for the absence of a limit, so that a level of a factor can stand for it.
const UNLIMITED: &str = "unlimited";

/// Reads the limits of the service's control group. An empty string counts as absent.
fn read_limits(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) -> ResourceLimits {
    let is_absent = |node: &&TomlNode| matches!(&node.value, TomlValue::Text(text) if text.is_empty() || text == UNLIMITED);
    let node = |key: LimitKey| table.get(key.name()).filter(|node| !is_absent(node));
    let subject = |key: LimitKey| format!("{} of {owner}", key.name());
    let mut whole = |key, range| reader.whole(node(key)?, &subject(key), range);
    ResourceLimits {
        memory_bytes: whole(LimitKey::Memory, MEMORY_BYTES),
        pids: whole(LimitKey::Pids, PIDS),
        cpu_quota_us: node(LimitKey::Cpu)
            .and_then(|node| read_cpu(node, &subject(LimitKey::Cpu), reader)),
    }
}

/// Reports limits of a service that runs over ssh, where prony creates no control group for them.
fn report_limits_over_ssh(
    table: &TomlTable,
    limits: &ResourceLimits,
    owner: &str,
    reader: &mut PlanReader<'_>,
) {
    for (key, _) in limits.iter() {
        let key = key.name();
        let message = format!("{owner} runs over ssh, where {key} can't be limited");
        let hint = format!("remove {key}, or set it up on that machine");
        let line = table.line_of(key);
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
}

/// Reads a number of cores as a quota in microseconds per period.
fn read_cpu(node: &TomlNode, subject: &str, reader: &mut PlanReader<'_>) -> Option<u64> {
    let text = reader.scalar(node, subject)?;
    let cores = text.trim().parse::<f64>().ok();
    let quota_us = cores.map(|cores| (cores * CPU_PERIOD_US as f64).round());
    let valid = quota_us.filter(|us| (CPU_QUOTA_US_MIN..=CPU_QUOTA_US_MAX).contains(us));
    if valid.is_none() {
        let message = format!("{subject} is {text}, not a number of cores from 0.01 to 10000");
        let hint = "write cpu = 0.5 for half the time of one core, or cpu = \"unlimited\"; `cores` \
            chooses the cores themselves";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    }
    valid.map(|us| us as u64)
}

fn read_stop(node: Option<&TomlNode>, owner: &str, reader: &mut PlanReader<'_>) -> i32 {
    let text = node.and_then(|node| {
        let text = reader.scalar(node, &format!("stop of {owner}"))?;
        Some((text, node.line))
    });
    let Some((text, line)) = text else {
        return SIGTERM;
    };
    signal(&text).unwrap_or_else(|| {
        let message = format!("stop of {owner} is \"{text}\", not a signal");
        let hint = "use a name such as \"SIGTERM\" or \"SIGQUIT\"";
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
        SIGTERM
    })
}
