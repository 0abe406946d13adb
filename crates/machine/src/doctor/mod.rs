//! `prony doctor`: reasons why a server, or this machine as a generator, may be slow.
//!
//! Input: process IDs, URLs and interface names. Output: a [`DoctorReport`] with checks (observed value,
//! expected value, reason, suggested change and source) and a list of properties that could not be
//! determined. The doctor changes nothing, and leaves the formatting of the report to other crates.
//! It starts two programs: prony, to probe a library ([`crate::crypto`]), and `nginx -V`. For a URL,
//! it sends up to 100 requests.

mod check;
mod config;
mod crypto_checks;
mod hot_functions;
mod interface;
mod limits;
mod listen;
mod machine;
mod noise;
mod offload;
mod process;
mod url;

use prony_record::sampling::ServerProfile;
use std::time::Duration;

use serde::Serialize;

use crate::crypto::{self, CryptoReport};

pub use interface::examine_interface;
pub use url::{UrlError, examine_url};

pub use check::{CheckStatus, DoctorCheck, Undetermined};
pub use noise::NoiseWatch;
pub use process::ProcessError;

/// Name of the report's format, stored as its first field. `schema/` describes the format.
pub const DOCTOR_SCHEMA: &str = "prony.doctor/1";

/// Name of this machine in a report.
const MACHINE_NAME: &str = "this machine as a generator";

/// The report of `prony doctor`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoctorReport {
    /// Name of the format: [`DOCTOR_SCHEMA`].
    pub schema: &'static str,
    /// Version of prony.
    pub version: &'static str,
    /// Servers and interfaces in the order in which the user named them, then this machine.
    pub subjects: Vec<DoctorSubject>,
}

/// A server, machine or network interface that was examined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoctorSubject {
    /// Kind of the subject.
    pub kind: SubjectKind,
    /// Name of the subject, such as `nginx, process 1234`.
    pub name: String,
    /// Process ID of a server; `None` for other subjects and for URLs.
    pub pid: Option<i32>,
    /// Checks with their results.
    #[serde(rename = "lines")]
    pub checks: Vec<DoctorCheck>,
    /// Properties that could not be determined.
    #[serde(rename = "unknown")]
    pub undetermined: Vec<Undetermined>,
    /// Cryptographic library of a server, with all measurements; `None` if no library was examined.
    pub crypto: Option<CryptoReport>,
    /// Functions of a server that use the most CPU time; `None` if the server was not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ServerProfile>,
}

/// Kind of a subject that the doctor examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// A running server, named by its process ID or by a URL.
    Server,
    /// This machine as a load generator.
    Machine,
    /// A network interface, for loads that bypass the kernel.
    Interface,
}

/// Examines the given servers and this machine. This takes one second, and about three more seconds
/// for each server that uses a libcrypto. If `sampled` is a duration, the servers' functions are
/// sampled for that time.
///
/// # Errors
/// A process does not exist or can't be a server. In either case, nothing is examined.
pub fn examine(pids: &[i32], sampled: Option<Duration>) -> Result<DoctorReport, ProcessError> {
    use process::ServerProcess;

    /// Time over which the CPU usage of the machine is measured.
    const OBSERVATION_TIME: Duration = Duration::from_secs(1);

    let servers: Vec<ServerProcess> = pids
        .iter()
        .map(|pid| ServerProcess::of(*pid))
        .collect::<Result<_, _>>()?;
    let drops_before: Vec<_> = servers
        .iter()
        .map(|server| listen::ListenDrops::of(server.pid))
        .collect();
    let before = machine::CpuSnapshot::now();
    std::thread::sleep(OBSERVATION_TIME);
    let snapshots = before.zip(machine::CpuSnapshot::now());
    let own: Vec<i32> = servers
        .iter()
        .flat_map(|server| server.family.clone())
        .collect();
    let families: Vec<&[i32]> = servers.iter().map(|server| &*server.family).collect();
    let profiles = match sampled {
        Some(duration) => {
            let profiles = hot_functions::sample(&families, duration);
            profiles.into_iter().map(Some).collect()
        }
        None => vec![None; servers.len()],
    };
    let mut subjects = Vec::new();
    for ((server, drops_before), profile) in servers.iter().zip(drops_before).zip(profiles) {
        let mut results = check::CheckResults::default();
        let profile = match profile.transpose() {
            Ok(profile) => profile,
            Err(refused) => {
                let subject = "the functions that use the CPU time";
                results.add_undetermined(subject, refused.to_string());
                None
            }
        };
        let crypto = match crypto::of_process(&server.files) {
            Ok(crypto) => {
                results.extend(crypto_checks::check_crypto(&crypto));
                Some(crypto)
            }
            Err(error) => {
                results.add_undetermined("the server's cryptography", error.to_string());
                None
            }
        };
        let seconds = OBSERVATION_TIME.as_secs_f64();
        results.extend(listen::check_listening(server, drops_before, seconds));
        results.extend(limits::check_limits(server));
        results.extend(config::check_config(server));
        subjects.push(DoctorSubject {
            kind: SubjectKind::Server,
            name: format!("{}, process {}", server.program(), server.pid),
            pid: Some(server.pid),
            checks: results.checks,
            undetermined: results.undetermined,
            crypto,
            profile,
        });
    }
    let results = machine::check_machine(snapshots, &own);
    subjects.push(DoctorSubject {
        kind: SubjectKind::Machine,
        name: MACHINE_NAME.to_owned(),
        pid: None,
        checks: results.checks,
        undetermined: results.undetermined,
        crypto: None,
        profile: None,
    });
    Ok(DoctorReport {
        schema: DOCTOR_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        subjects,
    })
}
