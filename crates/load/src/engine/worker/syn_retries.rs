//! Detects connection attempts whose duration suggests that the SYN was lost and sent again.

use prony_record::finding::SynRetransmitted;
use prony_record::{Finding, Nanos, Severity};

/// Times at which a SYN is retransmitted, in seconds after the first SYN. RFC 6298 leads to 1 and 3
/// seconds; Linux adds the other times if its first retries are linear.
const SYN_RETRIES_S: [u64; 6] = [1, 2, 3, 4, 5, 7];
/// Time after a retransmission within which a connect that completes counts as retransmitted. The
/// window allows for delays by the kernel's timers and by the generator.
const RETRY_WINDOW: Nanos = Nanos::from_millis(100);
/// Divisor for an additional part of the window, which is 1/25 of the time until the
/// retransmission.
const RETRY_WINDOW_PART: u64 = 25;
/// Share of retransmitted connects above which the finding is a warning.
const RETRANSMITTED_SHARE_WARNING: f64 = 0.01;

/// Connects over TCP in the measured part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectCounts {
    made: u64,
    /// Number of connection attempts that took about as long as one with a retransmitted SYN.
    retransmitted: u64,
}

impl ConnectCounts {
    /// Adds another worker's counts.
    pub(crate) fn merge(&mut self, other: ConnectCounts) {
        self.made += other.made;
        self.retransmitted += other.retransmitted;
    }

    /// Records the duration of a successful connect.
    pub(super) fn add(&mut self, took: Nanos) {
        self.made += 1;
        self.retransmitted += u64::from(is_retransmitted(took));
    }

    /// The finding about connection attempts whose SYN was retransmitted.
    pub(crate) fn finding(&self) -> Option<Finding> {
        if self.retransmitted == 0 {
            return None;
        }
        let share = self.retransmitted as f64 / self.made as f64;
        let severity = if share > RETRANSMITTED_SHARE_WARNING {
            Severity::Warning
        } else {
            Severity::Note
        };
        let figures = SynRetransmitted {
            retransmitted: self.retransmitted,
            connects: self.made,
        };
        Some(Finding::of(severity, &figures))
    }
}

fn is_retransmitted(took: Nanos) -> bool {
    let mut retries = SYN_RETRIES_S.iter();
    retries.any(|&retry| {
        let retry = Nanos::from_secs(retry);
        let window = RETRY_WINDOW + Nanos(retry.0 / RETRY_WINDOW_PART);
        (retry..retry + window).contains(&took)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_after_a_retry_count() {
        for (ms, counts) in [
            (0, false),
            (999, false),
            (1_000, true),
            (1_139, true),
            (1_140, false),
            (1_900, false),
            (3_020, true),
            (4_110, true),
            (6_000, false),
            (7_001, true),
        ] {
            assert_eq!(is_retransmitted(Nanos::from_millis(ms)), counts, "{ms}");
        }
    }
}
