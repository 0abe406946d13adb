//! Emulated links: delay, jitter, bursts of loss, reordered and duplicated packets.
//!
//! ```text
//! kernel   clients ── veth, netem ───────────── netem, veth ── front
//! relay    clients ── TAP ── thread of prony ── TAP ── front
//! ```

mod netem;
mod packet_schedule;
mod priority;
mod relay;
mod round_trip;
mod tap;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::time::Duration;

use prony_plan::topology::{EmulatorChoice, LinkEmulation, NetworkLink};
use prony_record::Finding;
use prony_record::Severity;
use prony_record::finding::{LinkOverloaded, RoundTripDeviates};

use super::NamespaceFd;
use super::netns_thread::run_in_new_netns;
use crate::environment::LinkFacts;
use crate::place::PlaceRefused;
use crate::place::refused::TUN_FILE;
use crate::system::HostError;
use packet_schedule::{DirectionProperties, PacketCounts};
use relay::{Relay, RelayCounts};
use round_trip::RoundTrips;

/// Deviation of the measured round-trip time from the planned one that needs no finding.
const DEVIATION_MAX: Duration = Duration::from_micros(300);

/// Share of a relay's frames that may be late without a finding.
const LATE_SHARE_MAX: f64 = 0.01;
/// Number of late frames below which there is no finding. Each core is busy for a moment now and then,
/// and a trial may consist of a hundred packets.
const LATE_MIN: u64 = 20;

/// Emulator of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emulator {
    /// The kernel's `sch_netem`.
    Kernel,
    /// A relay between two TAP devices.
    Relay,
}

/// An emulated link.
#[derive(Debug)]
pub(super) struct EmulatedLink {
    name: String,
    emulator: Emulator,
    planned: Duration,
    jitter: Duration,
    /// The relay; `None` if the kernel emulates the link.
    relay: Option<Relay>,
    /// Round-trip times before the load; `None` before they were measured.
    round_trips: Option<RoundTrips>,
}

impl Emulator {
    /// Returns the emulator for a choice of a plan.
    ///
    /// # Errors
    /// This machine can't emulate links in this way.
    pub(super) fn choose(choice: EmulatorChoice) -> Result<Self, PlaceRefused> {
        let kernel = || check_kernel().map(|()| Emulator::Kernel);
        let relay = || check_relay().map(|()| Emulator::Relay);
        match choice {
            EmulatorChoice::Kernel => kernel(),
            EmulatorChoice::Relay => relay(),
            EmulatorChoice::Auto => kernel().or_else(|_| relay()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Emulator::Kernel => "kernel",
            Emulator::Relay => "relay",
        }
    }
}

/// Checks that this machine can emulate links in the way that a plan chooses.
///
/// # Errors
/// The missing requirement, with a hint.
pub(crate) fn check(choice: EmulatorChoice) -> Result<(), PlaceRefused> {
    Emulator::choose(choice).map(drop)
}

/// Adds a `netem` in a temporary namespace.
fn check_kernel() -> Result<(), PlaceRefused> {
    let added = run_in_new_netns(netem::rehearse);
    added
        .map_err(PlaceRefused::NoThread)?
        .map_err(PlaceRefused::NoNetem)
}

/// Creates a TAP device in a temporary namespace.
fn check_relay() -> Result<(), PlaceRefused> {
    let created = run_in_new_netns(|| tap::create("prony"));
    created
        .map_err(PlaceRefused::NoThread)?
        .map(drop)
        .map_err(PlaceRefused::NoTap)
}

impl EmulatedLink {
    /// Creates the devices of a link that has a relay, and starts the relay. `namespaces` are those
    /// of the link's places.
    ///
    /// # Errors
    /// A device can't be created, or the relay can't run on its core.
    pub(super) fn with_relay(
        link: &NetworkLink,
        emulation: &LinkEmulation,
        namespaces: [&NamespaceFd; 2],
    ) -> Result<Self, HostError> {
        let device = |namespace: &NamespaceFd| {
            let created = namespace.run_inside(|| tap::create(&link.name));
            created
                .and_then(|created| created)
                .map_err(HostError::file("use", Path::new(TUN_FILE)))
        };
        let devices = [device(namespaces[0])?, device(namespaces[1])?];
        let properties = |direction| DirectionProperties::of_link(link, emulation, direction);
        let relay = Relay::start(
            devices,
            [properties(0), properties(1)],
            emulation.relay_core,
            RandomState::new().build_hasher().finish(),
        );
        let relay = relay.map_err(|error| HostError::Relay {
            link: link.name.clone(),
            core: emulation.relay_core,
            error,
        })?;
        Ok(Self::new(link, emulation, Emulator::Relay, Some(relay)))
    }

    /// Creates the record of a link that the kernel emulates.
    pub(super) fn with_netem(link: &NetworkLink, emulation: &LinkEmulation) -> Self {
        Self::new(link, emulation, Emulator::Kernel, None)
    }

    fn new(
        link: &NetworkLink,
        emulation: &LinkEmulation,
        emulator: Emulator,
        relay: Option<Relay>,
    ) -> Self {
        Self {
            name: link.name.clone(),
            emulator,
            planned: emulation.round_trip(),
            jitter: emulation.jitter,
            relay,
            round_trips: None,
        }
    }

    /// Measures the round-trip time from the link's first place to `address`, its second place.
    ///
    /// # Errors
    /// The first place can't send packets.
    pub(super) fn measure(
        &mut self,
        first: &NamespaceFd,
        address: std::net::Ipv4Addr,
    ) -> Result<(), HostError> {
        let (planned, jitter) = (self.planned, self.jitter);
        let measured = first.run_inside(|| round_trip::measure(address, planned, jitter));
        let measured =
            measured
                .and_then(|measured| measured)
                .map_err(|error| HostError::RoundTrip {
                    link: self.name.clone(),
                    error,
                })?;
        self.round_trips = Some(measured);
        Ok(())
    }

    /// Returns the name of the link.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the round-trip time before the load, if it could be measured.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trips?.median
    }

    /// Returns the facts that are stored with a result.
    pub(super) fn facts(&self) -> LinkFacts {
        LinkFacts {
            emulator: self.emulator.name().to_owned(),
        }
    }

    /// Returns the CPU time that the relay has used.
    pub(super) fn cpu_time(&self) -> Duration {
        self.relay.as_ref().map_or(Duration::ZERO, Relay::cpu_time)
    }

    /// Returns findings about a round-trip time that isn't the planned one, and about packets that
    /// the relay delayed or dropped.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(round_trips) = self.round_trips
            && deviates(self.planned, self.jitter, round_trips.median)
        {
            let us = |time: Duration| time.as_micros() as u64;
            let deviation = RoundTripDeviates {
                link: self.name.clone(),
                planned_us: us(self.planned),
                measured_us: round_trips.median.map(us),
                emulator: self.emulator.name().to_owned(),
            };
            findings.push(Finding::of(Severity::Warning, &deviation));
        }
        let counts = self.relay.as_ref().map(Relay::counts);
        findings.extend(counts.and_then(|counts| overload(&self.name, &counts)));
        findings
    }
}

/// Returns a finding if a relay dropped packets, or sent too many of them late.
fn overload(link: &str, counts: &RelayCounts) -> Option<Finding> {
    let sum = |of: fn(&PacketCounts) -> u64| {
        counts
            .directions
            .iter()
            .map(of)
            .fold(0, u64::saturating_add)
    };
    let (delivered, dropped) = (sum(|it| it.delivered), sum(|it| it.overflowed));
    let is_late = counts.late >= LATE_MIN && counts.late as f64 > LATE_SHARE_MAX * delivered as f64;
    (is_late || dropped > 0).then(|| {
        let overloaded = LinkOverloaded {
            link: link.to_owned(),
            packets: delivered,
            late: counts.late,
            late_us_max: counts.lateness_max.as_micros() as u64,
            dropped,
        };
        Finding::of(Severity::Warning, &overloaded)
    })
}

/// Makes the kernel emulate the packets that one end of a link sends. `direction` is 0 at the link's
/// first end, and 1 at its second end. Returns the parent of the queueing discipline of a rate.
///
/// # Errors
/// The kernel refuses.
pub(super) fn add_netem(
    link: &NetworkLink,
    emulation: &LinkEmulation,
    direction: usize,
    namespace: &NamespaceFd,
) -> Result<&'static str, HostError> {
    let added = namespace.run_inside(|| netem::add(link, emulation, direction));
    let added = added.and_then(|added| added);
    added.map_err(|error| HostError::Emulator {
        link: link.name.clone(),
        reason: PlaceRefused::NoNetem(error).to_string(),
    })?;
    Ok(netem::CHILD_PARENT)
}

/// Returns true if the median round-trip time differs from the plan by more than can be expected.
fn deviates(planned: Duration, jitter: Duration, median: Option<Duration>) -> bool {
    // If each of 21 round trips has a normal jitter in both directions, the standard deviation of
    // their median is 0.4 times the jitter.
    median.is_none_or(|median| median.abs_diff(planned) > DEVIATION_MAX + 2 * jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_deviates_beyond_the_tolerance_and_the_jitter() {
        let ms = Duration::from_millis;
        let planned = ms(20);
        let deviates = |jitter, median| deviates(planned, jitter, Some(median));
        assert!(!deviates(ms(0), Duration::from_micros(20_300)));
        assert!(deviates(ms(0), Duration::from_micros(20_301)));
        assert!(deviates(ms(0), ms(19)));
        assert!(!deviates(ms(2), Duration::from_micros(15_700)));
        assert!(deviates(ms(2), ms(25)));
        assert!(super::deviates(planned, ms(2), None), "no response");
    }

    #[test]
    fn a_link_with_another_round_trip_is_a_finding() {
        let link = |median| EmulatedLink {
            name: "wan".to_owned(),
            emulator: Emulator::Kernel,
            planned: Duration::from_millis(20),
            jitter: Duration::ZERO,
            relay: None,
            round_trips: Some(RoundTrips {
                median,
                requests: 21,
                responses: 21 * u16::from(median.is_some()),
            }),
        };
        let us = Duration::from_micros;
        assert_eq!(link(Some(us(20_100))).findings(), []);
        let deviating = link(Some(us(23_400))).findings();
        assert_eq!(deviating.len(), 1);
        assert!(deviating[0].text.contains("was 23.40 ms"), "{deviating:?}");
        assert_eq!(link(None).findings().len(), 1);
    }

    #[test]
    fn late_and_dropped_packets_are_a_finding() {
        let counts = |delivered, late, overflowed| RelayCounts {
            directions: [
                PacketCounts {
                    delivered,
                    ..PacketCounts::default()
                },
                PacketCounts {
                    delivered,
                    overflowed,
                    ..PacketCounts::default()
                },
            ],
            late,
            ..RelayCounts::default()
        };
        assert_eq!(overload("wan", &counts(5_000, 100, 0)), None);
        assert_eq!(overload("wan", &counts(50, 19, 0)), None);
        for (delivered, late, overflowed) in [(5_000, 101, 0), (50, 20, 0), (50, 0, 1)] {
            assert!(overload("wan", &counts(delivered, late, overflowed)).is_some());
        }
        assert_eq!(overload("wan", &RelayCounts::default()), None, "unused");
    }
}
