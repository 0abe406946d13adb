//! Whether variants return the same bytes: a faster server that answers something else is no
//! faster server.

use std::collections::BTreeMap;
use std::time::Duration;

use prony_load::{Answer, LoadSpec, probe};
use serde::{Deserialize, Serialize};

use super::Interrupt;

/// Requests of a list that are checked at most, spread evenly over it.
const MOST_CHECKED: usize = 64;
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a variant answered, by request: a digest for each, none where its answers differ from one
/// time to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Status, length and hash of each answer, by the request's number in the list.
    pub digests: BTreeMap<usize, Digest>,
}

/// One answer in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The path asked for.
    pub request: String,
    /// The status.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: u64,
    /// SHA-256 of the body in hexadecimal; none where two answers in a row differ.
    pub sha256: Option<String>,
}

/// Asks for every request of the load that is safe to ask for, twice; for none further once somebody
/// has interrupted.
///
/// # Errors
///
/// The first request that gets no whole answer, and why.
pub(crate) fn collect(spec: &LoadSpec, interrupt: &Interrupt) -> Result<Answers, String> {
    let safe = spec.safe_requests();
    let step = safe.len().div_ceil(MOST_CHECKED).max(1);
    let mut answers = Answers::default();
    for &index in safe.iter().step_by(step) {
        if interrupt.is_stopped() {
            break;
        }
        let name = spec.request_name(index).to_owned();
        let ask = || probe(spec, index, PATIENCE).map_err(|why| format!("{name}: {why}"));
        let digest = digest(&ask()?, &ask()?);
        answers.digests.insert(index, digest);
    }
    Ok(answers)
}

fn digest(first: &Answer, second: &Answer) -> Digest {
    let same = first.sha256 == second.sha256;
    Digest {
        request: path_of(&first.request),
        status: first.status,
        length: first.length,
        sha256: same.then(|| {
            first
                .sha256
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        }),
    }
}

/// Method and path: hosts and ports differ between trials.
fn path_of(request: &str) -> String {
    let (method, url) = request.split_once(' ').unwrap_or(("", request));
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    format!("{method} {}", path.unwrap_or(url))
}

/// The first request that is answered differently, in words.
pub(crate) fn difference(one: &Answers, other: &Answers) -> Option<String> {
    one.digests.iter().find_map(|(index, a)| {
        let b = other.digests.get(index)?;
        if a.status != b.status {
            return Some(format!(
                "{}: status {} against {}",
                a.request, a.status, b.status
            ));
        }
        let (Some(hash_a), Some(hash_b)) = (&a.sha256, &b.sha256) else {
            return None;
        };
        if a.length != b.length {
            return Some(format!(
                "{}: {} bytes against {}",
                a.request, a.length, b.length
            ));
        }
        (hash_a != hash_b).then(|| {
            format!(
                "{}: {} bytes each, but not the same ones",
                a.request, a.length
            )
        })
    })
}

/// Requests whose answers change by themselves, so that they can't be compared.
pub(crate) fn unstable(answers: &Answers) -> Vec<&str> {
    let changing = answers
        .digests
        .values()
        .filter(|digest| digest.sha256.is_none());
    changing.map(|digest| digest.request.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(status: u16, length: u64, hash: Option<&str>) -> Answers {
        let request = "GET /".to_owned();
        let digest = Digest {
            request,
            status,
            length,
            sha256: hash.map(str::to_owned),
        };
        Answers {
            digests: [(0, digest)].into(),
        }
    }

    #[test]
    fn what_differs_is_named() {
        let plain = answers(200, 13, Some("aa"));
        assert_eq!(difference(&plain, &plain), None);
        let says = |other: &Answers| difference(&plain, other).unwrap();
        assert_eq!(
            says(&answers(404, 13, Some("aa"))),
            "GET /: status 200 against 404"
        );
        assert_eq!(
            says(&answers(200, 14, Some("bb"))),
            "GET /: 13 bytes against 14"
        );
        assert!(says(&answers(200, 13, Some("bb"))).contains("not the same"));
    }

    #[test]
    fn what_changes_by_itself_is_not_held_against_a_variant() {
        let changing = answers(200, 13, None);
        assert_eq!(difference(&changing, &answers(200, 20, Some("bb"))), None);
        assert_eq!(unstable(&changing), ["GET /"]);
    }

    #[test]
    fn hosts_do_not_count() {
        assert_eq!(path_of("GET http://127.0.0.1:4711/a?b"), "GET /a?b");
        assert_eq!(path_of("GET http://localhost/"), "GET /");
    }
}
