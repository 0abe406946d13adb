//! Sentences about functions whose CPU time changed.

use prony_record::number;
use prony_stats::ChangedFunction;

/// Describes the change of one function: `AES_encrypt in libcrypto.so.3 takes 96 µs more per request
/// (91 µs to 101 µs), 83% of the change in CPU per request`, or `take in web waits 2 ms longer per
/// request for a lock`.
#[must_use]
pub fn changed_function(changed: &ChangedFunction) -> String {
    let more = changed.us >= 0.0;
    let (function, time) = (&changed.function, number::time(changed.us.abs()));
    let mut text = match (function.waits_for, more) {
        (None, true) => format!("{function} takes {time} more per request"),
        (None, false) => format!("{function} takes {time} less per request"),
        (Some(reason), true) => format!("{function} waits {time} longer per request for {reason}"),
        (Some(reason), false) => format!("{function} waits {time} less per request for {reason}"),
    };
    if let Some(service) = &changed.service {
        text = format!("{service}: {text}");
    }
    if let (Some(low), Some(high)) = (changed.low_us, changed.high_us) {
        let (low, high) = if more { (low, high) } else { (-high, -low) };
        text += &format!(" ({} to {})", number::time(low), number::time(high));
    }
    match changed.share {
        Some(share) if share > 0.0 => {
            text += &format!(
                ", {}% of the change in CPU per request",
                number::fixed(100.0 * share, 0)
            );
        }
        Some(_) => text += ", against the change in CPU per request",
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use prony_record::sampling::{SampledFunction, WaitReason};

    use super::*;

    #[test]
    fn a_change_has_its_direction_interval_and_share() {
        let mut changed = ChangedFunction {
            service: None,
            function: SampledFunction::new("AES_encrypt", "libcrypto.so.3"),
            us: 96.0,
            low_us: Some(91.0),
            high_us: Some(101.0),
            share: Some(0.83),
            text: String::new(),
        };
        assert_eq!(
            changed_function(&changed),
            "AES_encrypt in libcrypto.so.3 takes 96.0 µs more per request (91.0 µs to 101 µs), 83% \
             of the change in CPU per request"
        );
        changed.service = Some("web".to_owned());
        changed.share = None;
        (changed.us, changed.low_us, changed.high_us) = (-2.0, Some(-3.0), Some(-1.0));
        assert_eq!(
            changed_function(&changed),
            "web: AES_encrypt in libcrypto.so.3 takes 2.00 µs less per request (1.00 µs to 3.00 µs)"
        );
        changed.function.waits_for = Some(WaitReason::Lock);
        changed.us = 2.0;
        let text = changed_function(&changed);
        let expected =
            "web: AES_encrypt in libcrypto.so.3 waits 2.00 µs longer per request for a lock";
        assert!(text.starts_with(expected), "{text}");
    }
}
