//! Checks whether the policy allows a service, and whether this machine can start it.

use std::path::Path;

use prony_machine::host::local::LocalHost;
use prony_machine::place;
use prony_machine::system::program;
use prony_plan::service::{PlaceKind, ServiceSpec};
use prony_plan::{DiagnosticKind, HostObjection, ServiceAspect};

use crate::policy::{Policy, PolicyViolation};

/// Program name that refers to the agent's own executable.
const OWN_NAME: &str = "prony";

/// Returns the programs that a service starts: its wrapper, if any, and its own program.
fn programs(spec: &ServiceSpec) -> impl Iterator<Item = (ServiceAspect, usize)> {
    let wrapper = (spec.wrapper_words > 0).then_some((ServiceAspect::Wrapper, 0));
    let own = (ServiceAspect::Command, spec.wrapper_words);
    wrapper.into_iter().chain([own])
}

/// Checks a service against the policy.
///
/// Environment variables can make an allowed program run other code: LD_PRELOAD, for example, or
/// PYTHONPATH together with a file that was sent. Each variable must therefore be allowed, too.
///
/// # Errors
///
/// Returns the violated rule.
pub(super) fn allowed(
    spec: &ServiceSpec,
    policy: &Policy,
) -> Result<(), (ServiceAspect, PolicyViolation)> {
    for (about, word) in programs(spec) {
        let program = spec.command.get(word).map_or("", String::as_str);
        policy
            .allows_command(program)
            .map_err(|refusal| (about, refusal))?;
    }
    // The service receives the plan's `library_path` in this variable.
    let library_path = spec.library_path.as_ref().map(|_| "LD_LIBRARY_PATH");
    let mut variables = spec.env.keys().map(String::as_str).chain(library_path);
    let refused = variables.find_map(|name| policy.allows_variable(name).err());
    refused.map_or(Ok(()), |refusal| Err((ServiceAspect::Env, refusal)))
}

/// Replaces program names with absolute paths. Names are looked up in the agent's PATH, unless the
/// service sets PATH.
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
        // A missing program is reported when the service is started.
        if let Some(found) = found {
            *program = found.to_string_lossy().into_owned();
        }
    }
    spec
}

/// Returns all reasons why a service can't be started here.
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
        let hint = "add it to the agent's policy file if you trust the plans that use this agent";
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
        let what = format!(
            "core {core} is not available (available: {:?})",
            host.cores()
        );
        object(ServiceAspect::Cores, DiagnosticKind::Machine, what, None);
    }
    if let Err((key, refused)) = place::check_limits(&spec.limits) {
        let what = format!("{} can't be limited there: {refused}", key.name());
        object(
            ServiceAspect::Limit(key),
            DiagnosticKind::Machine,
            what,
            None,
        );
    }
    match spec.place {
        PlaceKind::Named(_) => {
            let what = "named places exist only on the machine that runs the plan".to_owned();
            object(ServiceAspect::Place, DiagnosticKind::Structure, what, None);
        }
        kind => {
            if let Err(lacking) = place::check_kind(kind) {
                let what = format!("place {kind}: {lacking}");
                object(ServiceAspect::Place, DiagnosticKind::Machine, what, None);
            }
        }
    }
    objections
}
