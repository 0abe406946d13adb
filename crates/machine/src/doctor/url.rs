//! Checks how the responses of a server arrive, with a short load of one connection.

use std::fmt;
use std::time::Duration;

use prony_load::{Control, LoadSettings, RunError, SpecError, run};
use prony_record::{FindingId, Record, number};

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::{DoctorSubject, SubjectKind};

/// Number of requests, and the maximum time that they may take.
const REQUESTS: u64 = 100;
const LOAD_TIME_MAX: Duration = Duration::from_secs(10);

const DELAYED_ACKS: CheckTopic = CheckTopic {
    id: "delayed-acks",
    expected: "a response that arrives without waiting for an acknowledgment",
    why: "a server that sends head and body in separate writes, without TCP_NODELAY, waits for \
        the client to acknowledge the head (Nagle's algorithm), and clients delay this \
        acknowledgment, on Linux by 40 ms or more",
    change: "send head and body in one write, or set TCP_NODELAY on the server's connections",
    source: "RFC 9293, section 3.7.4 (Nagle); RFC 9293, section 3.8.6.3 (delayed \
        acknowledgments); tcp(7), TCP_NODELAY",
};

/// Reason why a URL can't be examined.
#[derive(Debug)]
pub enum UrlError {
    /// The URL can't be loaded.
    Settings(SpecError),
    /// The load could not run.
    Load(RunError),
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlError::Settings(error) => error.fmt(f),
            UrlError::Load(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UrlError {}

/// Sends up to 100 requests over one connection, and examines how their responses arrive.
///
/// # Errors
/// The URL can't be loaded.
pub fn examine_url(url: &str, public: bool) -> Result<DoctorSubject, UrlError> {
    let settings = LoadSettings {
        connections: Some(1),
        threads: Some(1),
        requests: Some(REQUESTS),
        duration: Some(LOAD_TIME_MAX),
        // The check concerns the transport, not the server's identity.
        insecure: true,
        public,
        ..LoadSettings::default()
    };
    let spec = settings.resolve(Some(url)).map_err(UrlError::Settings)?;
    let record = run(&spec, &Control::new(1)).map_err(UrlError::Load)?;
    let results = check_record(&record);
    Ok(DoctorSubject {
        kind: SubjectKind::Server,
        name: url.to_owned(),
        pid: None,
        checks: results.checks,
        undetermined: results.undetermined,
        crypto: None,
        profile: None,
    })
}

fn check_record(record: &Record) -> CheckResults {
    let mut results = CheckResults::default();
    let totals = &record.totals;
    if totals.ok == 0 {
        let findings = record.findings.iter().map(|finding| finding.text.as_str());
        let why = findings.collect::<Vec<_>>().join(" ");
        results.add_undetermined("arrival of responses", why);
        return results;
    }
    let mut findings = record.findings.iter();
    let is_delayed = findings.any(|finding| finding.id == FindingId::DelayedAcks);
    let text = format!(
        "first byte after {}, last byte after {} (medians of {} responses); {}",
        number::time(record.first_byte_us.p50),
        number::time(record.response_time_us.p50),
        totals.ok,
        if is_delayed {
            "with an immediate acknowledgment, the rest arrives at once"
        } else {
            "no wait for an acknowledgment was found"
        }
    );
    results.add(DELAYED_ACKS.check(CheckStatus::warning_if(is_delayed), text));
    results
}
