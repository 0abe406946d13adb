//! How a request ended, and whose doing that was.

use serde::{Deserialize, Serialize};

/// Who is answerable for an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Nobody: the request succeeded.
    None,
    /// The server, or something between it and the generator.
    Server,
    /// The generator or the machine it runs on.
    Generator,
    /// The end of the load cut the request off.
    Schedule,
}

macro_rules! outcomes {
    ($($variant:ident = $name:literal, $party:ident, $doc:literal;)*) => {
        /// How a request ended: exactly one of these for each request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum Outcome { $(#[doc = $doc] $variant,)* }

        impl Outcome {
            /// Every outcome, in the order in which records list them.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)*];

            /// The name in records.
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)* }
            }

            /// Whose doing it was.
            pub const fn party(self) -> Party {
                match self { $(Outcome::$variant => Party::$party,)* }
            }
        }
    };
}

outcomes! {
    Ok = "ok", None, "The expected answer came whole.";
    UnexpectedStatus = "unexpected_status", Server, "A whole answer with a status outside `--expect-status`.";
    UnexpectedSize = "unexpected_size", Server, "A whole answer whose body is not of `--expect-size`.";
    UnexpectedBody = "unexpected_body", Server, "A whole answer whose body has not the hash of `--expect-sha256`.";
    Dns = "dns", Server, "The name did not resolve.";
    ConnectRefused = "connect_refused", Server, "Nobody listens there.";
    ConnectTimeout = "connect_timeout", Server, "No connection within `--connect-timeout`.";
    ConnectUnreachable = "connect_unreachable", Server, "No route to the host or network.";
    ConnectFailed = "connect_failed", Server, "No connection for another reason, which a finding names.";
    NoLocalPort = "no_local_port", Generator, "No free local port or address to connect from.";
    TooManyFiles = "too_many_files", Generator, "The limit of open files is reached.";
    Tls = "tls", Server, "The TLS handshake or a TLS record failed.";
    Reset = "reset", Server, "The connection was reset, before or within the answer.";
    ClosedEarly = "closed_early", Server, "The connection closed before any byte of the answer.";
    Truncated = "truncated", Server, "The connection closed within the answer.";
    Protocol = "protocol", Server, "The answer broke the protocol; a finding names how.";
    Redirect = "redirect", Server, "A redirect that was to be followed and can't be; a finding names why.";
    Timeout = "timeout", Server, "No whole answer within `--timeout`.";
    Unfinished = "unfinished", Schedule, "Still running when the load ended.";
    Unstarted = "unstarted", Schedule, "Due, but neither connect nor send had begun when the load ended.";
}

impl Outcome {
    /// Whether it counts among `failed`: everything but success and what the load's end cut off.
    pub const fn is_failure(self) -> bool {
        matches!(self.party(), Party::Server | Party::Generator)
    }

    /// Whether the request's real response time is only known to be *at least* the one observed.
    pub const fn is_censored(self) -> bool {
        matches!(
            self,
            Outcome::Timeout | Outcome::ConnectTimeout | Outcome::Unfinished | Outcome::Unstarted
        )
    }
}

/// How many requests ended in each way.
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

    /// How many ended so.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// How many failed, of whatever kind.
    pub fn failed(&self) -> u64 {
        Outcome::ALL
            .iter()
            .filter(|o| o.is_failure())
            .map(|&o| self.get(o))
            // Another machine may claim any number.
            .fold(0, u64::saturating_add)
    }

    /// Adds the counts of another part of the same load.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Those that happened, in the order of [`Outcome::ALL`].
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
