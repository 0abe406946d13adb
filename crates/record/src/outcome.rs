//! Outcomes of requests, and the party responsible for each.

use serde::{Deserialize, Serialize};

/// Party responsible for an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsibleParty {
    /// No party: the request succeeded.
    None,
    /// The server, or a device or proxy between the server and the generator.
    Server,
    /// The generator or the machine it runs on.
    Generator,
    /// The schedule: the load ended before the request did.
    Schedule,
}

macro_rules! outcomes {
    ($($variant:ident = $name:literal, $party:ident, $doc:literal;)*) => {
        /// Outcome of a request. Every request has exactly one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum Outcome { $(#[doc = $doc] $variant,)* }

        impl Outcome {
            /// Every outcome, in the order in which records list them.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)*];

            /// Returns the name of the outcome in records.
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)* }
            }

            /// Returns the party responsible for the outcome.
            pub const fn party(self) -> ResponsibleParty {
                match self { $(Outcome::$variant => ResponsibleParty::$party,)* }
            }
        }
    };
}

outcomes! {
    Ok = "ok", None, "The expected response arrived completely.";
    UnexpectedStatus = "unexpected_status", Server, "A complete response with a status that `--expect-status` does not list.";
    UnexpectedSize = "unexpected_size", Server, "A complete response whose body does not have \
        the size given with `--expect-size`.";
    UnexpectedBody = "unexpected_body", Server, "A complete response whose body does not match \
    the hash given with `--expect-sha256`, or lacks the text that its step expects.";
    Capture = "capture", Server, "A complete response in which a step of a journey did not find a value \
    that later steps need; a finding names it.";
    GrpcStatus = "grpc_status", Server, "A complete gRPC response whose `grpc-status` is not 0, or is \
    missing; a finding names the status.";
    Dns = "dns", Server, "The name did not resolve.";
    ConnectRefused = "connect_refused", Server, "The connection was refused: no server is \
        listening there.";
    ConnectTimeout = "connect_timeout", Server, "No connection within `--connect-timeout`.";
    ConnectUnreachable = "connect_unreachable", Server, "No route to the host or network.";
    ConnectFailed = "connect_failed", Server, "The connection attempt failed for another reason; \
    a finding names it.";
    NoLocalPort = "no_local_port", Generator, "No free local port or address to connect from.";
    TooManyFiles = "too_many_files", Generator, "The limit on open files was reached.";
    Tls = "tls", Server, "The TLS handshake or a TLS record failed.";
    Reset = "reset", Server, "The connection was reset before or during the response.";
    ClosedEarly = "closed_early", Server, "The connection was closed before the first byte of \
    the response.";
    Truncated = "truncated", Server, "The connection was closed during the response.";
    Protocol = "protocol", Server, "The response violated the protocol; a finding names the \
    violation.";
    Redirect = "redirect", Server, "A redirect could not be followed; a finding names the reason.";
    StoppedEarly = "stopped_early", Server, "A complete streamed response without an event, or that ended \
    within an event; a finding says which.";
    NoEndMarker = "no_end_marker", Server, "A complete streamed response without the event given with \
        `--end-marker`.";
    Stalled = "stalled", Server, "A streamed response without another event, or its end, within \
        `--gap-timeout`.";
    Timeout = "timeout", Server, "No complete response within `--timeout`. With `--events`, no \
        first event within it.";
    Unfinished = "unfinished", Schedule, "In flight when the load ended.";
    Unstarted = "unstarted", Schedule, "Due, but neither connecting nor sending had begun when \
        the load ended.";
}

impl Outcome {
    /// Returns true if the outcome counts as a failure. Being cut off by the end of the load does
    /// not.
    pub const fn is_failure(self) -> bool {
        matches!(
            self.party(),
            ResponsibleParty::Server | ResponsibleParty::Generator
        )
    }

    /// Returns true if the observed response time is only a lower bound on the true one.
    pub const fn is_censored(self) -> bool {
        matches!(
            self,
            Outcome::Timeout
                | Outcome::Stalled
                | Outcome::ConnectTimeout
                | Outcome::Unfinished
                | Outcome::Unstarted
        )
    }
}

/// Number of requests by outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeCounts([u64; Outcome::ALL.len()]);

impl Default for OutcomeCounts {
    fn default() -> Self {
        OutcomeCounts([0; Outcome::ALL.len()])
    }
}

impl OutcomeCounts {
    /// Counts one more request.
    pub fn add(&mut self, outcome: Outcome) {
        self.add_many(outcome, 1);
    }

    /// Counts `n` more requests.
    pub fn add_many(&mut self, outcome: Outcome, n: u64) {
        let count = &mut self.0[outcome as usize];
        *count = count.saturating_add(n);
    }

    /// Returns the number of requests with the given outcome.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Returns the number of failed requests.
    pub fn failed(&self) -> u64 {
        Outcome::ALL
            .iter()
            .filter(|o| o.is_failure())
            .map(|&o| self.get(o))
            // Counts from other machines may be arbitrarily large, so the sum saturates.
            .fold(0, u64::saturating_add)
    }

    /// Returns the number of requests that finished. Excludes requests that never began.
    pub fn ended(&self) -> u64 {
        let all = self.happened().map(|(_, n)| n);
        let all = all.fold(0, u64::saturating_add);
        all.saturating_sub(self.get(Outcome::Unstarted))
    }

    /// Adds the outcomes of another part of the load.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns the outcomes that occurred, with their counts, in the order of [`Outcome::ALL`].
    pub fn happened(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL
            .iter()
            .map(|&o| (o, self.get(o)))
            .filter(|&(_, n)| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_serde_writes() {
        for &outcome in Outcome::ALL {
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(json, format!("\"{}\"", outcome.name()));
        }
    }

    #[test]
    fn each_outcome_is_counted_in_its_own_place() {
        let mut counts = OutcomeCounts::default();
        for (n, &outcome) in Outcome::ALL.iter().enumerate() {
            counts.add_many(outcome, n as u64 + 1);
        }
        for (n, &outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(counts.get(outcome), n as u64 + 1);
        }
        let not_failed = [Outcome::Ok, Outcome::Unfinished, Outcome::Unstarted];
        let kept: u64 = not_failed.iter().map(|&o| counts.get(o)).sum();
        let all: u64 = counts.happened().map(|(_, n)| n).sum();
        assert_eq!(counts.failed(), all - kept);
    }
}
