//! A service's table, rendered, made into what the host can start.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use prony_load::quantity::{self, StatusSet};

use super::certificate::Certificates;
use super::error::Fault;
use super::files;
use super::folder::{Folder, plain_words};
use super::machine::{Machine, Missing};
use super::node::{Node, Table, Value};
use super::reader::Reader;
use super::shape::Shape;
use super::template::Context;
use super::topology::Layout;
use super::units;
use crate::place;
use crate::service::{Follow, PlaceKind, ServiceSpec};

/// The keys of a service.
pub(crate) const KEYS: &[&str] = &[
    "command",
    "env",
    "cwd",
    "files",
    "listen",
    "place",
    "cores",
    "needs",
    "ready",
    "stop",
    "library_path",
    "wrapper",
    "open_files",
    "remote",
    "cgroup",
    "pid_file",
    "host",
];

/// The keys of `ready`.
pub(crate) const READY_KEYS: &[&str] = &["get", "status", "within", "listener", "scheme"];

/// Those of them that a remote service can use.
const REMOTE_KEYS: &[&str] = &["remote", "ready", "needs", "cgroup", "pid_file"];

/// How long a service may take to get ready, where the plan doesn't say.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// When a service counts as ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The listener that is asked; `None` where the service has none, and is ready once it runs.
    pub listener: Option<String>,
    /// The path to get; without one it is enough that the listener accepts a connection.
    pub get: Option<String>,
    /// Whether the path is asked for over TLS (without looking at the certificate).
    pub https: bool,
    /// The statuses that mean ready; 200 to 399 where the plan names none.
    pub status: Option<StatusSet>,
    /// How long it may take.
    pub within: Duration,
}

impl Ready {
    /// Whether an answer with this status means ready.
    pub fn accepts(&self, status: u16) -> bool {
        match &self.status {
            Some(statuses) => statuses.contains(status),
            None => (200..400).contains(&status),
        }
    }
}

/// A service of one variant with nothing left to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedService {
    /// What the host starts; its command is empty where `remote` is set.
    pub spec: ServiceSpec,
    /// When it counts as ready.
    pub ready: Ready,
    /// The address (`host:port` or `unix:/path`) of a server that prony does not start.
    pub remote: Option<String>,
    /// The machine that runs it, as the plan names it; none is this one.
    pub host: Option<String>,
}

/// What reading a service needs beside its table.
#[derive(Clone)]
pub(crate) struct Surroundings<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) context: &'a Context,
    pub(crate) layout: &'a Layout,
    pub(crate) machine: &'a Machine,
    /// Whether to look for programs, folders and cores, too.
    pub(crate) on_machine: bool,
    /// The service and listener that the load speaks TLS to.
    pub(crate) tls_target: Option<(String, String)>,
    /// The files that were named, as the plan writes them.
    pub(crate) references: &'a RefCell<BTreeSet<String>>,
    pub(crate) certificates: &'a Certificates,
}

/// Reads one service; what is missing is filled with defaults after a refusal, which the reader
/// has.
pub(crate) fn read(
    table: &Table,
    shape: &Shape,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> ResolvedService {
    let owner = format!("service \"{}\"", shape.name);
    reader.known_keys(table, &owner, KEYS);
    let around = &Surroundings {
        // What another machine has is not seen from here.
        on_machine: around.on_machine && shape.host.is_none(),
        ..around.clone()
    };
    // The files first: they hold templates of their own, which are not this table's.
    let without_files = Table {
        line: table.line,
        entries: table
            .entries
            .iter()
            .filter(|entry| entry.key != "files")
            .cloned()
            .collect(),
    };
    let rendered = around.context.table(&without_files, reader);
    let env = read_env(rendered.get("env"), &owner, reader);
    if shape.host.is_some() {
        refuse_relative(&rendered, &owner, reader);
    }
    let cwd = read_folder(rendered.get("cwd"), "cwd", &owner, around, reader);
    // On another machine its own folder is the only one that is known to be there.
    let cwd = cwd.or_else(|| shape.host.as_ref().map(|_| PathBuf::new()));
    let (command, wrapper_words) = read_command(&rendered, shape, &env, around, reader);
    let cores = read_cores(&rendered, shape, around, reader);
    let files = files::read(table.get("files"), &owner, around, reader);
    let spec = ServiceSpec {
        name: shape.name.clone(),
        command,
        wrapper_words,
        env,
        cwd: cwd.unwrap_or_else(|| around.folder.base.clone()),
        files: files.plain,
        secrets: files.secret,
        cores,
        place: shape.place,
        stop_signal: read_stop(rendered.get("stop"), &owner, reader),
        library_path: read_folder(
            rendered.get("library_path"),
            "library_path",
            &owner,
            around,
            reader,
        ),
        open_files: rendered
            .get("open_files")
            .and_then(|node| reader.whole(node, &format!("open_files of {owner}"), 16..=1 << 30)),
        follow: read_follow(&rendered, &owner, around, reader),
    };
    if around.on_machine {
        check_place(shape, &owner, around, reader);
    }
    ResolvedService {
        spec,
        ready: read_ready(rendered.get("ready"), shape, &owner, around, reader),
        remote: shape.remote.as_ref().map(|(written, _)| written.clone()),
        host: shape.host.clone(),
    }
}

/// Refuses paths that start from the plan's folder, which another machine lacks.
fn refuse_relative(table: &Table, owner: &str, reader: &mut Reader<'_>) {
    for key in ["cwd", "library_path", "pid_file"] {
        let Some(node) = table.get(key) else { continue };
        let Value::Text(text) = &node.value else {
            continue;
        };
        if !text.is_empty() && !text.starts_with('/') {
            let what =
                format!("{key} of {owner} is a relative path, and its host has no such folder");
            let mend = "write the whole path, as it is there; files of the plan go into files";
            reader.refuse_with(Fault::BadValue, node.line, what, mend);
        }
    }
}

/// What a service's telemetry takes in beside its process tree; the empty text is nothing.
fn read_follow(
    table: &Table,
    owner: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Follow {
    let mut text = |key: &str| {
        let text = reader.text(table.get(key)?, &format!("{key} of {owner}"))?;
        Some(text).filter(|text| !text.is_empty())
    };
    let cgroup = text("cgroup");
    let pid_file = text("pid_file").map(|path| around.folder.path(&path));
    let leads_out = |path: &String| path.split('/').any(|part| part == "..");
    if cgroup.as_ref().is_some_and(leads_out) {
        let what = format!("cgroup of {owner} leads out of the control groups");
        let mend = "its path below /sys/fs/cgroup, as /proc/PID/cgroup of its processes has it";
        reader.refuse_with(Fault::BadValue, table.line_of("cgroup"), what, mend);
    }
    Follow { cgroup, pid_file }
}

fn read_command(
    table: &Table,
    shape: &Shape,
    env: &BTreeMap<String, String>,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> (Vec<String>, usize) {
    let owner = format!("service \"{}\"", shape.name);
    let none = (Vec::new(), 0);
    let command = table.get("command");
    if shape.remote.is_some() {
        for key in KEYS.iter().filter(|key| !REMOTE_KEYS.contains(key)) {
            if table.get(key).is_some() {
                let what = format!("{owner} is remote, so that its {key} has no effect");
                let mend = format!("take out remote, or {key}");
                reader.refuse_with(Fault::Structure, table.line_of(key), what, mend);
            }
        }
        return none;
    }
    let Some(command) = command else {
        let what = format!("{owner} has no command");
        let mend = "command = [\"program\", \"argument\"], or remote = \"host:port\"";
        reader.refuse_with(Fault::MissingKey, shape.line, what, mend);
        return none;
    };
    let mut whole = Vec::new();
    let mut wrapper_words = 0;
    for (key, node) in [
        ("wrapper", table.get("wrapper")),
        ("command", Some(command)),
    ] {
        let Some(node) = node else { continue };
        let Some(mut words) = read_words(node, key, &owner, reader) else {
            continue;
        };
        let Some(program) = words.first_mut() else {
            if key == "command" {
                let what = format!("the command of {owner} is empty");
                reader.refuse(Fault::BadValue, node.line, what);
            }
            continue;
        };
        let found = match shape.host {
            None => around.machine.program(program, &around.folder.base, env),
            Some(_) => on_host(program, &owner, node.line, reader),
        };
        match found {
            Ok(found) => *program = found,
            Err(missing) => {
                if around.on_machine {
                    let what = format!("{owner}: the program \"{program}\" is not installed");
                    reader.refuse_with(Fault::NotInstalled, node.line, what, missing.mend);
                }
                *program = missing.started;
            }
        }
        if key == "wrapper" {
            wrapper_words = words.len();
        }
        whole.append(&mut words);
    }
    (whole, wrapper_words)
}

/// A program of another machine: by its name there, or its whole path.
fn on_host(
    program: &str,
    owner: &str,
    line: usize,
    reader: &mut Reader<'_>,
) -> Result<String, Missing> {
    if program.contains('/') && !program.starts_with('/') {
        let what =
            format!("{owner}: {program} is a relative path, and its host has no such folder");
        let mend = "name a program that is installed there, or its whole path";
        reader.refuse_with(Fault::BadValue, line, what, mend);
    }
    Ok(program.to_owned())
}

fn read_words(node: &Node, key: &str, owner: &str, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    // One string with blanks is a shell's habit; there is no shell here to split it.
    if let Value::Text(text) = &node.value
        && text.trim().contains(char::is_whitespace)
    {
        let words: Vec<_> = text
            .split_whitespace()
            .map(|word| format!("\"{word}\""))
            .collect();
        let what = format!("{key} of {owner} is one string, not an array of arguments");
        let mend = format!("write {key} = [{}]", words.join(", "));
        reader.refuse_with(Fault::WrongType, node.line, what, mend);
        return None;
    }
    let words = reader.texts(node, &format!("{key} of {owner}"))?;
    if words.first().is_some_and(String::is_empty) {
        reader.refuse(
            Fault::BadValue,
            node.line,
            format!("{key} of {owner} names no program"),
        );
        return None;
    }
    Some(words)
}

fn read_env(node: Option<&Node>, owner: &str, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(table) = node.and_then(|node| reader.table(node, &format!("env of {owner}"))) else {
        return env;
    };
    for entry in &table.entries {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let what = format!("\"{}\" can't name a variable", entry.key.escape_debug());
            reader.refuse(Fault::BadValue, entry.line, what);
        } else if let Some(value) =
            reader.scalar(&entry.node, &format!("variable {} of {owner}", entry.key))
        {
            env.insert(entry.key.clone(), value);
        }
    }
    env
}

/// A folder, absolute; the empty text is none.
fn read_folder(
    node: Option<&Node>,
    key: &str,
    owner: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<PathBuf> {
    let node = node?;
    let text = reader.text(node, &format!("{key} of {owner}"))?;
    if text.is_empty() {
        return None;
    }
    let path = around.folder.path(&text);
    if around.on_machine {
        let trouble = match fs::read_dir(&path) {
            Ok(_) => None,
            Err(_) if path.is_file() => Some("is no folder".to_owned()),
            Err(error) => Some(plain_words(&error)),
        };
        if let Some(trouble) = trouble {
            let what = format!("{key} of {owner}: {} {trouble}", path.display());
            let mend = "relative paths start from the plan's folder";
            reader.refuse_with(Fault::Machine, node.line, what, mend);
        }
    }
    Some(path)
}

fn read_cores(
    table: &Table,
    shape: &Shape,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Vec<usize> {
    let mut owner = format!("service \"{}\"", shape.name);
    let own = table.get("cores").cloned();
    let Some(node) = own.or_else(|| {
        let of_place = around.layout.cores_of(shape.place)?;
        owner += ", by its place,";
        Some(of_place.node())
    }) else {
        return Vec::new();
    };
    let cores = reader
        .cores(&node, &format!("cores of {owner}"))
        .unwrap_or_default();
    if around.on_machine {
        check_cores(&cores, node.line, &owner, around.machine, reader);
    }
    cores
}

/// Says which cores this machine lacks.
pub(crate) fn check_cores(
    cores: &[usize],
    line: usize,
    owner: &str,
    machine: &Machine,
    reader: &mut Reader<'_>,
) {
    let lacking: Vec<_> = cores
        .iter()
        .filter(|core| !machine.cores.contains(core))
        .map(usize::to_string)
        .collect();
    if !lacking.is_empty() {
        let noun = if lacking.len() == 1 { "core" } else { "cores" };
        let what = format!(
            "{owner} wants {noun} {}, which this machine lacks",
            lacking.join(", ")
        );
        let mend = match machine.cores.as_slice() {
            [only] => format!("it has core {only} alone"),
            [first, .., last] if last - first + 1 == machine.cores.len() => {
                format!("it has cores {first} to {last}")
            }
            several => {
                let several: Vec<_> = several.iter().map(usize::to_string).collect();
                format!("it has cores {}", several.join(", "))
            }
        };
        reader.refuse_with(Fault::Machine, line, what, mend);
    }
}

fn check_place(shape: &Shape, owner: &str, around: &Surroundings<'_>, reader: &mut Reader<'_>) {
    let (here, name, instead) = match shape.place {
        // Named places are looked at as a whole.
        PlaceKind::Native | PlaceKind::Named(_) => return,
        PlaceKind::Namespace => ("linux", "namespace", "jail"),
        PlaceKind::Jail => ("freebsd", "jail", "namespace"),
    };
    if around.machine.os != here {
        let what = format!(
            "{owner} lives in a {name}, which {} has not",
            around.machine.os
        );
        let mend = format!("the nearest thing here is \"{instead}\"");
        reader.refuse_with(Fault::Machine, shape.place_line, what, mend);
    } else if let Err(lacking) = place::check(shape.place) {
        let what = format!("{owner} can't have a {name} here: {lacking}");
        reader.refuse(Fault::Machine, shape.place_line, what);
    }
}

fn read_stop(node: Option<&Node>, owner: &str, reader: &mut Reader<'_>) -> i32 {
    let Some(node) = node else {
        return libc::SIGTERM;
    };
    let Some(text) = reader.scalar(node, &format!("stop of {owner}")) else {
        return libc::SIGTERM;
    };
    units::signal(&text).unwrap_or_else(|| {
        let what = format!("stop of {owner} is \"{text}\", no signal");
        reader.refuse_with(
            Fault::BadValue,
            node.line,
            what,
            "such as \"SIGTERM\" or \"SIGQUIT\"",
        );
        libc::SIGTERM
    })
}

fn read_ready(
    node: Option<&Node>,
    shape: &Shape,
    owner: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Ready {
    let mut ready = Ready {
        listener: shape.listen.keys().next().cloned(),
        get: None,
        https: false,
        status: None,
        within: READY_WITHIN,
    };
    if shape.remote.is_some() {
        ready.listener = Some(String::new());
    }
    let Some(node) = node else { return ready };
    let Some(table) = reader.table(node, &format!("ready of {owner}")) else {
        return ready;
    };
    let what = |key: &str| format!("ready.{key} of {owner}");
    reader.known_keys(table, &what(""), READY_KEYS);
    if let Some(node) = table.get("get")
        && let Some(path) = reader.text(node, &what("get"))
    {
        if path.starts_with('/') && !path.contains(char::is_whitespace) {
            ready.get = Some(path);
        } else {
            let text = format!("{} is \"{path}\", not a path", what("get"));
            reader.refuse_with(Fault::BadValue, node.line, text, "it begins with /");
        }
    }
    if let Some(node) = table.get("status")
        && let Some(texts) = reader.texts(node, &what("status"))
    {
        match quantity::statuses(&texts.join(",")) {
            Ok(statuses) => ready.status = Some(statuses),
            Err(trouble) => {
                let text = format!("{}: {trouble}", what("status"));
                reader.refuse(Fault::BadValue, node.line, text);
            }
        }
    }
    if let Some(node) = table.get("within")
        && let Some(within) = reader.duration(node, &what("within"))
    {
        ready.within = within;
    }
    if let Some(node) = table.get("listener") {
        let names: Vec<&str> = shape.listen.keys().map(String::as_str).collect();
        if let Some(name) = reader.choice(node, &what("listener"), &names) {
            ready.listener = Some(name.to_owned());
        }
    }
    ready.https = match table.get("scheme") {
        Some(node) => reader.choice(node, &what("scheme"), &["http", "https"]) == Some("https"),
        // A listener that is called https, or that the load speaks it to, speaks it.
        None => ready.listener.as_ref().is_some_and(|listener| {
            listener == "https" || around.tls_target == Some((shape.name.clone(), listener.clone()))
        }),
    };
    ready
}
