//! Whether a service may and can be started here.

use std::path::Path;

use prony_experiment::host::local::LocalHost;
use prony_experiment::host::program;
use prony_experiment::place;
use prony_experiment::plan::{DiagnosticKind, HostObjection, ServiceAspect};
use prony_experiment::service::{PlaceKind, ServiceSpec};

use crate::policy::{Policy, Refusal};

/// The word for the agent's own program.
const OWN_NAME: &str = "prony";

/// The programs that a service starts: its own, and what is put before it.
fn programs(spec: &ServiceSpec) -> impl Iterator<Item = (ServiceAspect, usize)> {
    let wrapper = (spec.wrapper_words > 0).then_some((ServiceAspect::Wrapper, 0));
    let own = (ServiceAspect::Command, spec.wrapper_words);
    wrapper.into_iter().chain([own])
}

/// Whether a service may be started.
///
/// An allowed program is the one of this machine. Environment variables can make it run other code
/// (LD_PRELOAD, PYTHONPATH with a file that was sent), so each has to be allowed, too.
///
/// # Errors
///
/// The rule that stands against it.
pub(super) fn allowed(spec: &ServiceSpec, policy: &Policy) -> Result<(), (ServiceAspect, Refusal)> {
    for (about, word) in programs(spec) {
        let program = spec.command.get(word).map_or("", String::as_str);
        policy
            .allows_command(program)
            .map_err(|refusal| (about, refusal))?;
    }
    // The plan's `library_path` is set by this variable.
    let library_path = spec.library_path.as_ref().map(|_| "LD_LIBRARY_PATH");
    let mut variables = spec.env.keys().map(String::as_str).chain(library_path);
    let refused = variables.find_map(|name| policy.allows_variable(name).err());
    refused.map_or(Ok(()), |refusal| Err((ServiceAspect::Env, refusal)))
}

/// The service with the agent's own program in place of its name, and programs by their whole paths
/// where they are found by the agent's own path alone.
pub(super) fn with_programs(mut spec: ServiceSpec) -> ServiceSpec {
    let own_path = !spec.env.contains_key("PATH");
    for (_, word) in programs(&spec).collect::<Vec<_>>() {
        let Some(program) = spec.command.get_mut(word) else {
            continue;
        };
        let found = match program.as_str() {
            OWN_NAME => std::env::current_exe().ok(),
            name if own_path => program::find(name, Path::new("/"), None).ok(),
            _ => None,
        };
        // What isn't found is told of by who starts it.
        if let Some(found) = found {
            *program = found.to_string_lossy().into_owned();
        }
    }
    spec
}

/// All that stands against a service here.
pub(super) fn objections(spec: &ServiceSpec, policy: &Policy) -> Vec<HostObjection> {
    let mut objections = Vec::new();
    let mut object = |aspect, kind, message: String, hint: Option<String>| {
        objections.push(HostObjection {
            aspect,
            kind,
            message,
            hint,
        });
    };
    if let Err((about, refusal)) = allowed(spec, policy) {
        let hint = "add it to the agent's policy file, if you trust the plans that it runs";
        object(
            about,
            DiagnosticKind::Machine,
            refusal.to_string(),
            Some(hint.to_owned()),
        );
    }
    let path = spec.env.get("PATH").map(String::as_str);
    for (about, word) in programs(spec) {
        let program = spec.command.get(word).map_or("", String::as_str);
        if program == OWN_NAME {
            continue;
        }
        if let Err(missing) = program::find(program, Path::new("/"), path) {
            object(
                about,
                DiagnosticKind::NotInstalled,
                missing.to_string(),
                None,
            );
        }
    }
    let host = LocalHost::with_state_in(std::env::temp_dir());
    let lacking = spec.cores.iter().find(|core| !host.cores().contains(core));
    if let Some(core) = lacking {
        let what = format!("there is no core {core} (it may use {:?})", host.cores());
        object(ServiceAspect::Cores, DiagnosticKind::Machine, what, None);
    }
    match spec.place {
        PlaceKind::Named(_) => {
            let what = "named places are of the machine that runs the plan".to_owned();
            object(ServiceAspect::Place, DiagnosticKind::Structure, what, None);
        }
        kind => {
            if let Err(lacking) = place::check(kind) {
                let what = format!("place {kind}: {lacking}");
                object(ServiceAspect::Place, DiagnosticKind::Machine, what, None);
            }
        }
    }
    objections
}
