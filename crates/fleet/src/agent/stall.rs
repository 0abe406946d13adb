//! Whether this process stood still in the middle of a load.
//!
//! A process that is stopped, or whose machine is, starts no requests and sees answers late. In the figures
//! that looks like a slow server. The thread beside the load notices, as it slept far longer than it meant to.

use std::time::{Duration, Instant};

use prony_record::{Finding, Severity};

use crate::names::AgentName;

/// A shorter sleep than this, beyond what was meant, is a busy machine's.
const LEAST: Duration = Duration::from_secs(1);

/// The times that a load stood still.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// When the load begins, once that is said.
    starts: Option<Instant>,
    /// How often it did.
    count: u32,
    /// The longest, and when it began, since the load's start.
    longest: Option<(Duration, Duration)>,
}

impl Stalls {
    /// The load begins then.
    pub(super) fn starts(&mut self, at: Instant) {
        self.starts = Some(at);
    }

    /// A sleep of `meant` at most was from one moment to another. What of it was before the load's start
    /// is not the load's.
    pub(super) fn slept(&mut self, from: Instant, to: Instant, meant: Duration) {
        let Some(starts) = self.starts else {
            return;
        };
        let still = to
            .saturating_duration_since(from.max(starts))
            .saturating_sub(meant);
        if still < LEAST {
            return;
        }
        self.count += 1;
        if self.longest.is_none_or(|(longest, _)| longest < still) {
            self.longest = Some((still, from.saturating_duration_since(starts)));
        }
    }

    /// What there is to say of it at the load's end.
    pub(super) fn finding(&self, agent: &AgentName) -> Option<Finding> {
        let (longest, at) = self.longest?;
        let times = match self.count {
            1 => String::new(),
            n => format!(", the longest of {n} times"),
        };
        Some(Finding::new(
            "agent-stalled",
            Severity::Warning,
            format!(
                "Agent {agent} stood still for {:.1} s, {:.1} s after the load's start{times}: its \
                 process was stopped, or its machine was. It began no requests then and saw answers \
                 late: rates and response times hold that, and the server has no part in it.",
                longest.as_secs_f64(),
                at.as_secs_f64()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_sleep_far_beyond_what_was_meant_is_told() {
        let agent: AgentName = "one".parse().unwrap();
        let mut stalls = Stalls::default();
        let start = Instant::now() + ms(10_000);
        // Nobody knows yet when it begins.
        stalls.slept(start - ms(9_000), start - ms(1_000), MEANT);
        stalls.starts(start);
        // Before its start, up to it, a little into it; as meant; on a busy machine.
        stalls.slept(start - ms(5_000), start, MEANT);
        stalls.slept(start - ms(5_000), start + ms(1_000), MEANT);
        stalls.slept(start + ms(1_000), start + ms(1_100), MEANT);
        stalls.slept(start + ms(1_100), start + ms(2_100), MEANT);
        assert_eq!(stalls.finding(&agent), None);
        stalls.slept(start + ms(2_500), start + ms(5_600), MEANT);
        let text = stalls.finding(&agent).unwrap().text;
        let told = "Agent one stood still for 3.0 s, 2.5 s after the load's start: its";
        assert!(text.starts_with(told), "{text}");
        stalls.slept(start + ms(6_000), start + ms(8_100), MEANT);
        let text = stalls.finding(&agent).unwrap().text;
        let told = "3.0 s, 2.5 s after the load's start, the longest of 2 times: its";
        assert!(text.contains(told), "{text}");
    }
}
