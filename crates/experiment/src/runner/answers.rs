//! Whether variants return the same bytes: a faster server that answers something else is no
//! faster server.

use std::collections::BTreeMap;
use std::time::Duration;

use prony_load::{Answer, LoadSpec, probe_until};
use serde::{Deserialize, Serialize};

use super::Interrupt;

/// Requests of a list that are checked at most, spread evenly over it.
const MOST_CHECKED: usize = 64;
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a variant answered before a trial, or before all of them, by the request's number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// One for each request that was asked for.
    pub digests: BTreeMap<usize, Digest>,
}

/// The answers to one request in short; what differs from one time to the next is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Method and path.
    pub request: String,
    /// The status.
    pub status: Option<u16>,
    /// The body.
    pub body: Option<BodyDigest>,
}

/// A body in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyDigest {
    /// Its length in bytes.
    pub length: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
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
        let ask = || probe_until(spec, index, PATIENCE, &|| interrupt.is_stopped());
        let asked = ask().and_then(|first| Ok((first, ask()?)));
        // Whatever came of it, nobody waits for it any more.
        if interrupt.is_stopped() {
            break;
        }
        let (first, second) =
            asked.map_err(|why| format!("{}: {why}", spec.request_name(index)))?;
        let digest = digest(&first).agreed(&digest(&second));
        answers.digests.insert(index, digest);
    }
    Ok(answers)
}

/// What a variant answers whenever it is asked: the part that all its trials agree on.
pub(crate) fn over_trials<'a>(trials: impl Iterator<Item = &'a Answers>) -> Answers {
    let mut all = Answers::default();
    for trial in trials {
        for (&index, digest) in &trial.digests {
            let agreed = match all.digests.get(&index) {
                Some(before) => before.agreed(digest),
                None => digest.clone(),
            };
            all.digests.insert(index, agreed);
        }
    }
    all
}

impl Digest {
    /// What two answers to the same request have in common.
    fn agreed(&self, other: &Digest) -> Digest {
        Digest {
            request: self.request.clone(),
            status: self.status.filter(|_| self.status == other.status),
            body: self.body.clone().filter(|_| self.body == other.body),
        }
    }
}

fn digest(answer: &Answer) -> Digest {
    Digest {
        request: path_of(&answer.request),
        status: Some(answer.status),
        body: Some(BodyDigest {
            length: answer.length,
            sha256: answer
                .sha256
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
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
        let request = &a.request;
        if let (Some(status_a), Some(status_b)) = (a.status, b.status)
            && status_a != status_b
        {
            return Some(format!("{request}: status {status_a} against {status_b}"));
        }
        match (&a.body, &b.body) {
            (None, None) => None,
            (None, Some(_)) => Some(format!(
                "{request}: other bytes each time against always the same"
            )),
            (Some(_), None) => Some(format!(
                "{request}: always the same bytes against others each time"
            )),
            (Some(a), Some(b)) if a.length != b.length => Some(format!(
                "{request}: {} bytes against {}",
                a.length, b.length
            )),
            (Some(a), Some(b)) => (a.sha256 != b.sha256)
                .then(|| format!("{request}: {} bytes each, but not the same ones", a.length)),
        }
    })
}

/// Requests whose answers change by themselves, so that they can't be compared.
pub(crate) fn unstable(answers: &Answers) -> Vec<&str> {
    let changing = answers
        .digests
        .values()
        .filter(|digest| digest.body.is_none());
    changing.map(|digest| digest.request.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(status: u16, body: Option<(u64, &str)>) -> Answers {
        let body = body.map(|(length, sha256)| BodyDigest {
            length,
            sha256: sha256.to_owned(),
        });
        let digest = Digest {
            request: "GET /".to_owned(),
            status: Some(status),
            body,
        };
        Answers {
            digests: [(0, digest)].into(),
        }
    }

    #[test]
    fn what_differs_is_named() {
        let plain = answers(200, Some((13, "aa")));
        assert_eq!(difference(&plain, &plain), None);
        let says = |other: &Answers| difference(&plain, other).unwrap();
        assert_eq!(
            says(&answers(404, Some((13, "aa")))),
            "GET /: status 200 against 404"
        );
        assert_eq!(
            says(&answers(200, Some((14, "bb")))),
            "GET /: 13 bytes against 14"
        );
        assert!(says(&answers(200, Some((13, "bb")))).contains("not the same"));
    }

    #[test]
    fn what_changes_in_both_is_not_compared_and_what_changes_in_one_differs() {
        let (changing, plain) = (answers(200, None), answers(200, Some((20, "bb"))));
        assert_eq!(difference(&changing, &changing), None);
        assert!(difference(&changing, &plain).is_some());
        assert!(difference(&plain, &changing).is_some());
        assert_eq!(unstable(&changing), ["GET /"]);
    }

    #[test]
    fn what_changes_between_trials_changes_by_itself() {
        let trials = [
            answers(200, Some((13, "aa"))),
            answers(500, Some((13, "bb"))),
        ];
        let all = over_trials(trials.iter());
        assert_eq!(
            (all.digests[&0].status, all.digests[&0].body.clone()),
            (None, None)
        );
        assert_eq!(over_trials(trials[..1].iter()), trials[0]);
    }

    #[test]
    fn hosts_do_not_count() {
        assert_eq!(path_of("GET http://127.0.0.1:4711/a?b"), "GET /a?b");
        assert_eq!(path_of("GET http://localhost/"), "GET /");
    }
}
