//! `-v`: what is told of each request while the load runs.

use prony_load::script::{RequestEnd, ResponseView};
use prony_record::Negotiated;

use super::request::Written;
use super::secured::openssl_name;
use crate::output::{complain, note, print};

/// Bytes of an answer that are shown.
const SHOWN: usize = 8192;

/// Tells as much as was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace {
    verbosity: u32,
}

impl Trace {
    /// At this level of `-v`.
    pub(super) fn new(verbosity: u32) -> Trace {
        Trace { verbosity }
    }

    /// How much of a body is shown: nothing, or what fits.
    pub(super) fn body_bytes(&self) -> usize {
        if self.verbosity >= 2 { SHOWN } else { 0 }
    }

    /// Whether anything is told of answers: then one thread makes the load, so that what belongs
    /// together stands together.
    pub(super) fn tells_answers(&self) -> bool {
        self.verbosity >= 2
    }

    /// What will be sent.
    pub(super) fn request(&self, method: &str, written: &Written) {
        if self.tells_answers() {
            let head = String::from_utf8_lossy(&written.head);
            print(&format!("INFO: {method} header == \n---\n{head}\n---\n"));
        }
    }

    /// An answer.
    pub(super) fn answered(&self, answer: &ResponseView<'_>) {
        if self.tells_answers() {
            print(&answer_lines(self.verbosity, answer));
        }
    }

    /// What TLS agreed on.
    pub(super) fn agreed(&self, agreed: &Negotiated) {
        if let (true, Some(version), Some(cipher)) =
            (self.tells_answers(), &agreed.tls, &agreed.cipher)
        {
            note(&format!(
                "Transport Protocol      :{version}\nCipher Suite Name       :{}\n",
                openssl_name(cipher)
            ));
        }
    }

    /// A failure.
    pub(super) fn ended(&self, end: &RequestEnd<'_>) {
        if self.verbosity >= 1 && end.outcome.is_failure() {
            let name = end.outcome.name();
            match end.reason {
                Some(reason) => complain("ab", &format!("{name}: {reason}")),
                None => complain("ab", name),
            }
        }
    }
}

fn answer_lines(verbosity: u32, answer: &ResponseView<'_>) -> String {
    let head = String::from_utf8_lossy(answer.head);
    let body = String::from_utf8_lossy(answer.body);
    let head = head.trim_end_matches("\r\n");
    let mut lines = format!("LOG: header received:\n{head}\r\n\r\n{body}\n");
    if answer.status / 100 != 2 {
        lines += &format!("WARNING: Response code not 2xx ({})\n", answer.status);
    } else if verbosity >= 3 {
        lines += &format!("LOG: Response code = {}\n", answer.status);
    }
    lines
}
