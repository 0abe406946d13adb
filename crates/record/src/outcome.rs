//! Outcomes of requests, and the party responsible for each.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::CallFailure;

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
    (
        { $($first:ident = $first_name:literal, $first_party:ident, $first_doc:literal;)* }
        { $($rest:ident = $rest_name:literal, $rest_party:ident, $rest_doc:literal;)* }
    ) => {
        /// Outcome of a request. Every request has exactly one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Outcome {
            $(#[doc = $first_doc] $first,)*
            /// A complete response of a gRPC call that failed; a finding names the reason.
            Call(CallFailure),
            $(#[doc = $rest_doc] $rest,)*
        }

        /// Positions of the outcomes, as if calls had a single one.
        enum Position { $($first,)* Call, $($rest,)* }

        /// Number of outcomes.
        const COUNT: usize = [$(Outcome::$first,)* $(Outcome::$rest,)*].len() + CallFailure::ALL.len();

        impl Outcome {
            /// Every outcome, in the order in which records list them.
            pub const ALL: &'static [Outcome] = &{
                let first = [$(Outcome::$first,)*];
                let rest = [$(Outcome::$rest,)*];
                let (calls, mut at) = (CallFailure::ALL, 0);
                let mut all = [Outcome::Ok; COUNT];
                while at < COUNT {
                    all[at] = if at < first.len() {
                        first[at]
                    } else if at < first.len() + calls.len() {
                        Outcome::Call(calls[at - first.len()])
                    } else {
                        rest[at - first.len() - calls.len()]
                    };
                    at += 1;
                }
                all
            };

            /// Returns the name of the outcome in records.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Outcome::$first => $first_name,)*
                    Outcome::Call(failure) => failure.name(),
                    $(Outcome::$rest => $rest_name,)*
                }
            }

            /// Returns the party responsible for the outcome.
            pub const fn party(self) -> ResponsibleParty {
                match self {
                    $(Outcome::$first => ResponsibleParty::$first_party,)*
                    Outcome::Call(_) => ResponsibleParty::Server,
                    $(Outcome::$rest => ResponsibleParty::$rest_party,)*
                }
            }

            /// Index of the outcome in [`Outcome::ALL`].
            #[inline]
            pub(crate) const fn index(self) -> usize {
                match self {
                    $(Outcome::$first => Position::$first as usize,)*
                    Outcome::Call(failure) => Position::Call as usize + failure as usize,
                    $(Outcome::$rest => Position::$rest as usize + CallFailure::ALL.len() - 1,)*
                }
            }
        }
    };
}

outcomes! {{
    Ok = "ok", None, "The expected response arrived completely.";
    UnexpectedStatus = "unexpected_status", Server, "A complete response with a status that `--expect-status` does not list.";
    UnexpectedSize = "unexpected_size", Server, "A complete response whose body does not have \
        the size given with `--expect-size`.";
    UnexpectedBody = "unexpected_body", Server, "A complete response whose body does not match \
    the hash given with `--expect-sha256`, or lacks the text that its step expects.";
    Capture = "capture", Server, "A complete response in which a step of a journey did not find a value \
    that later steps need; a finding names it.";
} {
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
}}

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

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        let name = String::deserialize(deserializer)?;
        // Earlier records didn't distinguish the failures of calls.
        if name == "grpc_status" {
            return Ok(Outcome::Call(CallFailure::NoStatus));
        }
        let mut all = Outcome::ALL.iter().copied();
        all.find(|outcome| outcome.name() == name)
            .ok_or_else(|| D::Error::custom(format!("unknown outcome \"{name}\"")))
    }
}

/// Number of requests by outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeCounts([u64; COUNT]);

impl Default for OutcomeCounts {
    fn default() -> Self {
        OutcomeCounts([0; COUNT])
    }
}

impl OutcomeCounts {
    /// Counts one more request.
    pub fn add(&mut self, outcome: Outcome) {
        self.add_many(outcome, 1);
    }

    /// Counts `n` more requests.
    pub fn add_many(&mut self, outcome: Outcome, n: u64) {
        let count = &mut self.0[outcome.index()];
        *count = count.saturating_add(n);
    }

    /// Returns the number of requests with the given outcome.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome.index()]
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
            assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
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
