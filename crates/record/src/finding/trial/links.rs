//! Findings about emulated links, and their figures.

use super::BASE;
use crate::finding::FindingInfo;
use crate::finding::Severity::Warning;
use crate::finding::figures::figures;
use crate::number;

pub(in crate::finding) const ROUND_TRIP_DEVIATES: FindingInfo = FindingInfo {
    seen: "The round-trip time of a link differed from the planned one before the load.",
    severities: &[(
        Warning,
        "by more than 0.3 ms plus twice the jitter, or no response arrived",
    )],
    meaning: "Before each trial, 21 echo requests (ICMP) cross every link with a delay. The figures \
        have the median of their round-trip times. The load has at least this round-trip time \
        instead of the planned one.",
    action: "Check what else uses the machine. Give the relay a core of its own (`relay_core`), or \
        use a kernel with `sch_netem`.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// A link whose round-trip time is not the planned one.
    RoundTripDeviates {
        /// Name of the link.
        link: String = same,
        /// Planned round-trip time, in microseconds.
        planned_us: u64 = same,
        /// Median of the measured round-trip times, in microseconds; none without a response.
        measured_us: Option<u64> = most,
        /// The emulator: `kernel` or `relay`.
        emulator: String = same,
    }
    |it, _subject| {
        // The difference may be small, so the times have more digits than others.
        let ms = |us: u64| format!("{} ms", number::fixed(us as f64 / 1e3, 2));
        let planned = ms(it.planned_us);
        match it.measured_us {
            Some(measured) => format!(
                "Before the load, the round-trip time of link \"{}\" was {}, and the plan asks for \
                 {planned}. Response times include the round-trip time that was measured.",
                it.link,
                ms(measured),
            ),
            None => format!(
                "The round-trip time of link \"{}\" could not be measured before the load: no echo \
                 request was answered. The plan asks for {planned}.",
                it.link
            ),
        }
    }
}

pub(in crate::finding) const LINK_OVERLOADED: FindingInfo = FindingInfo {
    seen: "The relay of a link delayed packets longer than planned, or dropped some.",
    severities: &[(
        Warning,
        "over 1% of the packets, at least 20, were more than 0.3 ms late, or any was dropped",
    )],
    meaning: "A relay is a thread of prony that forwards the packets of a link with a delay, if the \
        kernel has no `sch_netem`. It is late if it gets no core in time or has more packets than it \
        can forward, and it drops packets when 50,000 of them wait in one direction. The figures \
        count from the start of the trial, including its warm-up.",
    action: "Give the relay a core of its own (`relay_core`), set a `rate`, or use a lower load. A \
        kernel with `sch_netem` needs no relay.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// A relay that delayed or dropped packets.
    LinkOverloaded {
        /// Name of the link.
        link: String = same,
        /// Packets that the relay forwarded.
        packets: u64 = sum,
        /// Packets forwarded more than 0.3 ms after they were due.
        late: u64 = sum,
        /// Longest time after which a packet was forwarded, beyond its due time, in microseconds.
        late_us_max: u64 = most,
        /// Packets that were dropped because too many were waiting.
        dropped: u64 = sum,
    }
    |it, _subject| {
        let dropped = match it.dropped {
            0 => String::new(),
            dropped => format!(", and dropped {}", number::count(dropped)),
        };
        format!(
            "The relay of link \"{}\" forwarded {} of {} more than 0.3 ms late (up to {}){dropped}. \
             Response times include these delays. Give the relay a core of its own (relay_core), \
             set a rate, or use a lower load.",
            it.link,
            number::count(it.late),
            number::plural(it.packets, "packet", "packets"),
            number::time(it.late_us_max as f64),
        )
    }
}
