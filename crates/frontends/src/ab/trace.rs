//! Prints requests and responses during the load, for `-v`.

use prony_load::openssl_name;
use prony_load::script::{RequestEnd, ResponseView};
use prony_record::Negotiated;

use super::request::Http10Request;
use crate::output::{complain, print, print_error};

/// Maximum number of body bytes that are printed for each response.
const PRINTED_BYTES_MAX: usize = 8192;

/// Printer of the messages that the verbosity (`-v`) selects.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerboseTrace {
    verbosity: u32,
}

impl VerboseTrace {
    /// Creates a trace with this verbosity.
    pub(super) fn new(verbosity: u32) -> VerboseTrace {
        VerboseTrace { verbosity }
    }

    /// Returns the number of body bytes to capture.
    pub(super) fn body_bytes(&self) -> usize {
        if self.verbosity >= 2 {
            PRINTED_BYTES_MAX
        } else {
            0
        }
    }

    /// Returns true if responses are printed. In this case, only one thread generates the load, so
    /// that related lines stay together.
    pub(super) fn prints_responses(&self) -> bool {
        self.verbosity >= 2
    }

    /// Prints the request, if the verbosity selects it.
    pub(super) fn request(&self, method: &str, written: &Http10Request) {
        if self.prints_responses() {
            let head = String::from_utf8_lossy(&written.head);
            print(&format!("INFO: {method} header == \n---\n{head}\n---\n"));
        }
    }

    /// Prints a response, if the verbosity selects it.
    pub(super) fn responded(&self, response: &ResponseView<'_>) {
        if self.prints_responses() {
            print(&response_lines(self.verbosity, response));
        }
    }

    /// Prints the negotiated TLS parameters, if the verbosity selects them.
    pub(super) fn agreed(&self, agreed: &Negotiated) {
        if let (true, Some(version), Some(cipher)) =
            (self.prints_responses(), &agreed.tls, &agreed.cipher)
        {
            print_error(&format!(
                "Transport Protocol      :{version}\nCipher Suite Name       :{}\n",
                openssl_name(cipher)
            ));
        }
    }

    /// Prints a failure, if the verbosity selects it.
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

fn response_lines(verbosity: u32, response: &ResponseView<'_>) -> String {
    let head = String::from_utf8_lossy(response.head);
    let body = String::from_utf8_lossy(response.body);
    let head = head.trim_end_matches("\r\n");
    let mut lines = format!("LOG: header received:\n{head}\r\n\r\n{body}\n");
    if response.status / 100 != 2 {
        lines += &format!("WARNING: Response code not 2xx ({})\n", response.status);
    } else if verbosity >= 3 {
        lines += &format!("LOG: Response code = {}\n", response.status);
    }
    lines
}
