//! Decides when each packet of one direction of a link arrives, and which packets are lost,
//! duplicated or reordered. Time is an argument, in nanoseconds since any fixed moment.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::time::Duration;

use prony_plan::topology::{JitterDistribution, LinkEmulation, NetworkLink, PacketShare};
use prony_record::RandomSequence;

/// Maximum number of packets that wait in one direction: 0.6 s at 1 Gbit/s with full frames.
pub(super) const PACKETS_MAX: usize = 50_000;

/// Properties of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DirectionProperties {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) distribution: JitterDistribution,
    pub(super) bursts: Option<LossBursts>,
    pub(super) reorder: PacketShare,
    pub(super) duplicate: PacketShare,
    /// Maximum number of packets that wait. Further packets are dropped.
    pub(super) packets_max: usize,
}

/// Losses in bursts: the simple model of Gilbert. The link alternates between a state in which it
/// delivers all packets and one in which it loses all packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LossBursts {
    /// Probability that a burst begins with a packet, in the state that delivers.
    pub(super) begin: f64,
    /// Probability that a burst has ended before a packet, in the state that loses.
    pub(super) end: f64,
}

/// Packets of one direction, with the times at which they arrive.
#[derive(Debug)]
pub(super) struct PacketSchedule<P> {
    properties: DirectionProperties,
    random: RandomSequence,
    in_burst: bool,
    /// Packets that skip the delay.
    ahead: VecDeque<(u64, P)>,
    /// Packets in the order in which they arrive.
    delayed: VecDeque<(u64, P)>,
    counts: PacketCounts,
}

/// Numbers of packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PacketCounts {
    /// Packets that left the schedule, including duplicates.
    pub(super) delivered: u64,
    /// Packets lost at random.
    pub(super) lost: u64,
    /// Packets that skipped the delay.
    pub(super) reordered: u64,
    /// Additional copies of packets.
    pub(super) duplicated: u64,
    /// Packets dropped because too many packets were waiting.
    pub(super) overflowed: u64,
}

impl DirectionProperties {
    /// Returns the properties of a link's direction: 0 is that of its first place to its second.
    pub(super) fn of_link(link: &NetworkLink, emulation: &LinkEmulation, direction: usize) -> Self {
        let bursts = link.burst_loss();
        Self {
            delay: emulation.delays[direction],
            jitter: emulation.jitter,
            distribution: emulation.distribution,
            bursts: bursts.map(|(loss, packets)| LossBursts::new(loss, packets)),
            reorder: emulation.reorder,
            duplicate: emulation.duplicate,
            packets_max: PACKETS_MAX,
        }
    }
}

impl LossBursts {
    /// Returns the bursts that lose this share of all packets, `mean_packets` in a row on average.
    pub(super) fn new(loss: PacketShare, mean_packets: u32) -> Self {
        let loss = share(loss);
        let end = 1.0 / f64::from(mean_packets.max(1));
        // In the long run, the share of time in the losing state is begin / (begin + end).
        let begin = loss * end / (1.0 - loss);
        Self { begin, end }
    }
}

impl<P: Clone> PacketSchedule<P> {
    pub(super) fn new(properties: DirectionProperties, seed: u64) -> Self {
        Self {
            properties,
            random: RandomSequence::new(seed),
            in_burst: false,
            ahead: VecDeque::new(),
            delayed: VecDeque::new(),
            counts: PacketCounts::default(),
        }
    }

    /// Adds a packet that was sent at `now_ns`.
    pub(super) fn send(&mut self, packet: P, now_ns: u64) {
        if self.is_lost() {
            self.counts.lost += 1;
            return;
        }
        if self.happens(share(self.properties.duplicate)) {
            self.counts.duplicated += 1;
            self.add(packet.clone(), now_ns);
        }
        self.add(packet, now_ns);
    }

    /// Returns the time at which the next packet arrives.
    pub(super) fn next_arrival_ns(&self) -> Option<u64> {
        let times = [&self.ahead, &self.delayed].map(|queue| queue.front().map(|(due, _)| *due));
        times.into_iter().flatten().min()
    }

    /// Removes the next packet that has arrived by `now_ns`, with its time of arrival.
    pub(super) fn arrived(&mut self, now_ns: u64) -> Option<(u64, P)> {
        let queue = match (self.ahead.front(), self.delayed.front()) {
            (Some((ahead, _)), Some((delayed, _))) if delayed < ahead => &mut self.delayed,
            (Some(_), _) => &mut self.ahead,
            (None, _) => &mut self.delayed,
        };
        queue.front().filter(|(due, _)| *due <= now_ns)?;
        self.counts.delivered += 1;
        queue.pop_front()
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.counts
    }

    fn add(&mut self, packet: P, now_ns: u64) {
        if self.ahead.len() + self.delayed.len() >= self.properties.packets_max {
            self.counts.overflowed += 1;
            return;
        }
        if self.happens(share(self.properties.reorder)) {
            self.counts.reordered += 1;
            self.ahead.push_back((now_ns, packet));
            return;
        }
        let due = now_ns.saturating_add(self.delay_ns());
        // Jitter alone never changes the order of packets.
        let last = self.delayed.back().map_or(0, |(due, _)| *due);
        self.delayed.push_back((due.max(last), packet));
    }

    fn is_lost(&mut self) -> bool {
        let Some(bursts) = self.properties.bursts else {
            return false;
        };
        self.in_burst = if self.in_burst {
            !self.happens(bursts.end)
        } else {
            self.happens(bursts.begin)
        };
        self.in_burst
    }

    fn delay_ns(&mut self) -> u64 {
        let delay = self.properties.delay.as_nanos() as f64;
        let jitter = self.properties.jitter.as_nanos() as f64;
        if jitter == 0.0 {
            return delay as u64;
        }
        let variation = match self.properties.distribution {
            JitterDistribution::Uniform => 2.0 * self.random.next_share() - 1.0,
            JitterDistribution::Normal => self.normal(),
        };
        // A plan's jitter is never so large that the delay becomes negative.
        (delay + jitter * variation).max(0.0) as u64
    }

    /// Returns a random number from the standard normal distribution (Box and Muller, 1958), without
    /// the tails that the distribution of a plan excludes.
    fn normal(&mut self) -> f64 {
        let reach = f64::from(JitterDistribution::Normal.reach());
        loop {
            let radius = (-2.0 * (1.0 - self.random.next_share()).ln()).sqrt();
            let number = radius * (TAU * self.random.next_share()).cos();
            if number.abs() <= reach {
                return number;
            }
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.next_share() < probability
    }
}

fn share(share: PacketShare) -> f64 {
    f64::from(share.per_million()) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn properties(delay_ms: u64) -> DirectionProperties {
        DirectionProperties {
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::ZERO,
            distribution: JitterDistribution::Uniform,
            bursts: None,
            reorder: PacketShare::ZERO,
            duplicate: PacketShare::ZERO,
            packets_max: usize::MAX,
        }
    }

    fn percent(text: &str) -> PacketShare {
        PacketShare::parse(text).unwrap()
    }

    /// Sends packets numbered from 0, one every `gap_ns`, and returns all arrivals: the number of
    /// the packet and its time.
    fn arrivals(
        schedule: &mut PacketSchedule<usize>,
        packets: usize,
        gap_ns: u64,
    ) -> Vec<(usize, u64)> {
        let mut arrivals = Vec::new();
        for packet in 0..packets {
            let now = packet as u64 * gap_ns;
            // Whatever arrives before the next packet is sent is removed at its own time.
            while let Some(due) = schedule.next_arrival_ns().filter(|due| *due < now) {
                arrivals.extend(schedule.arrived(due).map(|(due, packet)| (packet, due)));
            }
            schedule.send(packet, now);
        }
        while let Some(due) = schedule.next_arrival_ns() {
            arrivals.extend(schedule.arrived(due).map(|(due, packet)| (packet, due)));
        }
        arrivals
    }

    #[test]
    fn packets_arrive_after_exactly_the_delay() {
        let mut schedule = PacketSchedule::new(properties(50), 1);
        schedule.send('a', 3);
        schedule.send('b', 4 * MS);
        assert_eq!(schedule.next_arrival_ns(), Some(50 * MS + 3));
        assert_eq!(schedule.arrived(50 * MS + 2), None);
        assert_eq!(schedule.arrived(60 * MS), Some((50 * MS + 3, 'a')));
        assert_eq!(schedule.arrived(60 * MS), Some((54 * MS, 'b')));
        assert_eq!(schedule.next_arrival_ns(), None);
        let mut immediate = PacketSchedule::new(properties(0), 1);
        immediate.send('a', 7);
        assert_eq!(immediate.arrived(7), Some((7, 'a')));
    }

    #[test]
    fn jitter_has_its_distribution_and_keeps_the_order() {
        const PACKETS: usize = 20_000;
        for (distribution, within, deviation) in [
            // The standard deviation of a uniform distribution from -1 to 1 is 1 / sqrt(3).
            (JitterDistribution::Uniform, 2.0, 2.0 / 3f64.sqrt()),
            (JitterDistribution::Normal, 8.0, 2.0),
        ] {
            let properties = DirectionProperties {
                jitter: Duration::from_millis(2),
                distribution,
                ..properties(50)
            };
            // The packets are too far apart to meet.
            let mut schedule = PacketSchedule::new(properties.clone(), 7);
            let apart = arrivals(&mut schedule, PACKETS, 20 * MS);
            let variations: Vec<f64> = apart
                .iter()
                .map(|&(packet, due)| due as f64 / 1e6 - packet as f64 * 20.0 - 50.0)
                .collect();
            assert!(variations.iter().all(|it| it.abs() <= within));
            let mean = variations.iter().sum::<f64>() / PACKETS as f64;
            let variance = variations.iter().map(|it| it * it).sum::<f64>() / PACKETS as f64;
            assert!(mean.abs() < 0.06, "{distribution:?}: {mean}");
            let found = variance.sqrt();
            assert!(
                (found - deviation).abs() < 0.05,
                "{distribution:?}: {found}"
            );
            let largest = variations
                .iter()
                .fold(0.0, |most: f64, it| it.abs().max(most));
            match distribution {
                JitterDistribution::Uniform => assert!(largest > 1.99, "{largest}"),
                JitterDistribution::Normal => assert!(largest > 6.0, "{largest}"),
            }
            let close = arrivals(&mut PacketSchedule::new(properties, 7), PACKETS, MS / 10);
            let order: Vec<usize> = close.iter().map(|(packet, _)| *packet).collect();
            assert_eq!(order, Vec::from_iter(0..PACKETS));
            assert!(close.is_sorted_by_key(|(_, due)| *due));
        }
    }

    #[test]
    fn losses_have_their_share_and_their_mean_length() {
        const PACKETS: usize = 400_000;
        for (loss, burst) in [("1%", 1), ("1%", 5), ("10%", 20), ("50%", 2)] {
            let properties = DirectionProperties {
                bursts: Some(LossBursts::new(percent(loss), burst)),
                ..properties(0)
            };
            let mut schedule = PacketSchedule::new(properties, 11);
            let mut arrived = vec![false; PACKETS];
            for (packet, _) in arrivals(&mut schedule, PACKETS, 1_000) {
                arrived[packet] = true;
            }
            let lost = arrived.iter().filter(|arrived| !**arrived).count();
            let bursts = arrived.windows(2).filter(|it| it[0] && !it[1]).count();
            assert_eq!(schedule.counts().lost, lost as u64);
            let (share, mean) = (
                lost as f64 / PACKETS as f64,
                lost as f64 / bursts.max(1) as f64,
            );
            let wanted = f64::from(percent(loss).per_million()) / 1e6;
            assert!((share / wanted - 1.0).abs() < 0.15, "{loss}: {share}");
            assert!(
                (mean / f64::from(burst) - 1.0).abs() < 0.15,
                "{loss}, {burst} in a row: {mean}"
            );
        }
    }

    #[test]
    fn some_packets_skip_the_delay_and_some_arrive_twice() {
        const PACKETS: usize = 50_000;
        let properties = DirectionProperties {
            reorder: percent("2%"),
            duplicate: percent("3%"),
            ..properties(10)
        };
        let mut schedule = PacketSchedule::new(properties, 3);
        let all = arrivals(&mut schedule, PACKETS, MS);
        let counts = schedule.counts();
        assert_eq!(all.len() as u64, PACKETS as u64 + counts.duplicated);
        assert_eq!(counts.delivered, all.len() as u64);
        let at_once = all
            .iter()
            .filter(|&&(packet, due)| due == packet as u64 * MS);
        assert_eq!(at_once.count() as u64, counts.reordered);
        let late = all
            .iter()
            .filter(|&&(packet, due)| due == packet as u64 * MS + 10 * MS);
        assert_eq!(late.count() as u64, counts.delivered - counts.reordered);
        for (count, share) in [(counts.reordered, 0.0206), (counts.duplicated, 0.03)] {
            let found = count as f64 / PACKETS as f64;
            assert!((found / share - 1.0).abs() < 0.15, "{found}");
        }
    }

    #[test]
    fn a_full_queue_drops_packets() {
        let properties = DirectionProperties {
            packets_max: 3,
            ..properties(10)
        };
        let mut schedule = PacketSchedule::new(properties, 1);
        for packet in 0..5 {
            schedule.send(packet, 0);
        }
        assert_eq!(schedule.counts().overflowed, 2);
        assert_eq!(schedule.arrived(10 * MS), Some((10 * MS, 0)));
        schedule.send(5, 10 * MS);
        let rest: Vec<i32> = std::iter::from_fn(|| schedule.arrived(90 * MS))
            .map(|(_, packet)| packet)
            .collect();
        assert_eq!(rest, [1, 2, 5]);
    }

    #[test]
    fn the_same_seed_gives_the_same_packets() {
        let run = |seed| {
            let properties = DirectionProperties {
                jitter: Duration::from_millis(3),
                bursts: Some(LossBursts::new(percent("5%"), 3)),
                reorder: percent("5%"),
                ..properties(20)
            };
            arrivals(&mut PacketSchedule::new(properties, seed), 1_000, MS)
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
