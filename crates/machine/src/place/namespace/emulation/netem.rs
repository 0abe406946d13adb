//! Emulation by the kernel's network emulator (tc-netem(8)), which is set up over rtnetlink(7).

use std::io;
use std::time::Duration;

use prony_plan::topology::{JitterDistribution, LinkEmulation, NetworkLink, PacketShare};
use prony_xdp::netlink::{Request, RequestKind};

use super::packet_schedule::{DirectionProperties, LossBursts};

/// RTM_NEWQDISC of rtnetlink(7).
const NEW_QDISC: u16 = 36;

/// Attributes of a queueing discipline.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;

/// Attributes of `netem` (include/uapi/linux/pkt_sched.h).
const DELAY_DISTRIBUTION: u16 = 2;
const REORDER: u16 = 3;
const LOSS: u16 = 5 | NESTED;
const RATE: u16 = 6;
const RATE_64: u16 = 8;

/// Flag of an attribute that contains attributes (NLA_F_NESTED).
const NESTED: u16 = 1 << 15;

/// NETEM_LOSS_GE: losses in bursts, within [`LOSS`].
const LOSS_BURSTS: u16 = 2;

/// Handle of the emulator, 1:0, and the parent of an interface's first queueing discipline.
const HANDLE: u32 = 0x1_0000;
const PARENT_ROOT: u32 = 0xffff_ffff;

/// Name of the emulator as the parent of another queueing discipline, in the notation of tc(8).
pub(super) const CHILD_PARENT: &str = "1:1";

/// Length of one tick of the kernel's packet scheduler, in nanoseconds.
const TICK_NS: f64 = 64.0;

/// A rate in bytes per second that delays a full packet by 12 ns. With any rate, `netem` keeps
/// packets in order even if they have jitter.
const ORDERING_RATE: u64 = 125_000_000_000;

/// One standard deviation in the kernel's table of a distribution.
const DISTRIBUTION_SCALE: f64 = 8192.0;

/// Adds the emulator to an interface of the current network namespace. It delays packets that the
/// interface sends. `direction` is 0 at the first end of the link, and 1 at the second.
///
/// # Errors
/// The interface doesn't exist, or the kernel has no `sch_netem`.
pub(super) fn add(
    link: &NetworkLink,
    emulation: &LinkEmulation,
    direction: usize,
) -> io::Result<()> {
    let properties = DirectionProperties::of_link(link, emulation, direction);
    request(interface_index(&link.name)?, &properties)
        .send(NEW_QDISC, RequestKind::CreateNew)
        .map(drop)
}

/// Adds an emulator to the loopback interface, to check that the kernel has one.
pub(super) fn rehearse() -> io::Result<()> {
    let properties = DirectionProperties {
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        distribution: JitterDistribution::Uniform,
        bursts: None,
        reorder: PacketShare::ZERO,
        duplicate: PacketShare::ZERO,
        packets_max: 1_000,
    };
    request(interface_index("lo")?, &properties)
        .send(NEW_QDISC, RequestKind::CreateNew)
        .map(drop)
}

fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name ends with a NUL.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Returns the request that adds the emulator to an interface.
fn request(interface: u32, properties: &DirectionProperties) -> Request {
    // struct tcmsg: the family and its padding, the interface, the handle, the parent, information.
    let fixed = [0, interface, HANDLE, PARENT_ROOT, 0].map(u32::to_ne_bytes);
    Request::new(fixed.as_flattened())
        .attribute(KIND, b"netem\0")
        .attribute(OPTIONS, options(properties).body())
}

/// Returns `struct tc_netem_qopt` and the attributes that follow it.
fn options(properties: &DirectionProperties) -> Request {
    let packets_max = u32::try_from(properties.packets_max).unwrap_or(u32::MAX);
    let reorders = properties.reorder > PacketShare::ZERO;
    let fixed = [
        ticks(properties.delay),
        packets_max,
        0, // independent loss, which nftables provides
        // The gap between packets that may be sent at once: 1 means that any packet may be.
        u32::from(reorders),
        probability(share(properties.duplicate)),
        ticks(properties.jitter),
    ];
    let mut options = Request::new(fixed.map(u32::to_ne_bytes).as_flattened());
    if reorders {
        let reorder = [probability(share(properties.reorder)), 0];
        options = options.attribute(REORDER, reorder.map(u32::to_ne_bytes).as_flattened());
    }
    if let Some(LossBursts { begin, end }) = properties.bursts {
        // struct tc_netem_gemodel: p, r, and the probabilities 1-h and 1-k of a delivery and a loss
        // in the other state.
        let model = [probability(begin), probability(end), 0, 0];
        let model =
            Request::default().attribute(LOSS_BURSTS, model.map(u32::to_ne_bytes).as_flattened());
        options = options.attribute(LOSS, model.body());
    }
    if properties.jitter > Duration::ZERO {
        // struct tc_netem_rate: the rate, which is in RATE_64 if it needs more bits, and no overhead.
        let rate = [u32::MAX, 0, 0, 0];
        options = options
            .attribute(RATE_64, &ORDERING_RATE.to_ne_bytes())
            .attribute(RATE, rate.map(u32::to_ne_bytes).as_flattened());
        if properties.distribution == JitterDistribution::Normal {
            let table: Vec<u8> = normal_table()
                .into_iter()
                .flat_map(i16::to_ne_bytes)
                .collect();
            options = options.attribute(DELAY_DISTRIBUTION, &table);
        }
    }
    options
}

fn ticks(time: Duration) -> u32 {
    // A plan's delay of at most 10 s is far below the limit of the field.
    (time.as_nanos() as f64 / TICK_NS) as u32
}

fn probability(share: f64) -> u32 {
    (share * f64::from(u32::MAX)).round() as u32
}

fn share(share: PacketShare) -> f64 {
    f64::from(share.per_million()) / 1e6
}

/// Returns the table of the normal distribution in steps of equal probability, as in iproute2's
/// `normal.dist`.
fn normal_table() -> Vec<i16> {
    /// iproute2 computes this many entries and uses every fourth one.
    const ENTRIES: usize = 16_384;
    const STEP: f64 = 0.000_05;
    const FIRST: f64 = -10.0;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let mut table = Vec::with_capacity(ENTRIES / 4);
    // The entry of a probability is the last multiple of the step below its quantile.
    let (mut step, mut below) = (0.0_f64, 0.0);
    for entry in (0..ENTRIES).step_by(4) {
        let wanted = (entry as f64 + 0.5) / ENTRIES as f64;
        loop {
            let x = FIRST + step * STEP;
            // Simpson's rule.
            let part = density(x) + 4.0 * density(x + STEP / 2.0) + density(x + STEP);
            let next = below + part * STEP / 6.0;
            if next >= wanted {
                break;
            }
            (step, below) = (step + 1.0, next);
        }
        let scaled = ((FIRST + step * STEP) * DISTRIBUTION_SCALE).round();
        table.push(scaled as i16); // the conversion limits the value
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Messages that tc(8) of iproute2 6.1 sends, recorded by `record-tc.sh`.
    const RECORDED: &str = include_str!("tc-messages.txt");

    fn recorded() -> BTreeMap<&'static str, &'static str> {
        let mut lines = RECORDED.lines().filter(|line| !line.starts_with("//"));
        let mut messages = BTreeMap::new();
        while let (Some(command), Some(message)) = (lines.next(), lines.next()) {
            let (_, options) = command.split_once(" netem ").unwrap();
            messages.insert(options, message);
        }
        messages
    }

    fn properties() -> DirectionProperties {
        DirectionProperties {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            distribution: JitterDistribution::Uniform,
            bursts: None,
            reorder: PacketShare::ZERO,
            duplicate: PacketShare::ZERO,
            packets_max: 50_000,
        }
    }

    fn percent(text: &str) -> PacketShare {
        PacketShare::parse(text).unwrap()
    }

    #[test]
    fn messages_are_those_of_tc() {
        let ms = Duration::from_millis;
        let bursts = |begin, end| Some(LossBursts { begin, end });
        let cases = [
            ("limit 50000", properties()),
            (
                "limit 50000 delay 10ms",
                DirectionProperties {
                    delay: ms(10),
                    ..properties()
                },
            ),
            (
                "limit 50000 delay 10ms 2ms rate 1000gbit",
                DirectionProperties {
                    delay: ms(10),
                    jitter: ms(2),
                    ..properties()
                },
            ),
            (
                "limit 50000 delay 10ms 2ms distribution normal rate 1000gbit",
                DirectionProperties {
                    delay: ms(10),
                    jitter: ms(2),
                    distribution: JitterDistribution::Normal,
                    ..properties()
                },
            ),
            (
                "limit 50000 loss gemodel 0.2% 20%",
                DirectionProperties {
                    bursts: bursts(0.002, 0.2),
                    ..properties()
                },
            ),
            (
                "limit 50000 delay 50us reorder 1% gap 1",
                DirectionProperties {
                    delay: Duration::from_micros(50),
                    reorder: percent("1%"),
                    ..properties()
                },
            ),
            (
                "limit 50000 delay 10ms duplicate 0.1%",
                DirectionProperties {
                    delay: ms(10),
                    duplicate: percent("0.1%"),
                    ..properties()
                },
            ),
            (
                "limit 50000 delay 10ms 2ms reorder 2% gap 1 duplicate 3% loss gemodel 1% 50% rate 1000gbit",
                DirectionProperties {
                    delay: ms(10),
                    jitter: ms(2),
                    bursts: bursts(0.01, 0.5),
                    reorder: percent("2%"),
                    duplicate: percent("3%"),
                    ..properties()
                },
            ),
        ];
        let mut recorded = recorded();
        for (options, properties) in cases {
            let wanted = recorded
                .remove(options)
                .unwrap_or_else(|| panic!("`{options}` was not recorded"));
            let message = request(1, &properties).message(NEW_QDISC, RequestKind::CreateNew);
            let found: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
            // The sequence number, in bytes 8 to 11, is any number.
            assert_eq!(found[..16], wanted[..16], "{options}");
            assert_eq!(found[24..], wanted[24..], "{options}");
        }
        assert!(recorded.is_empty(), "not compared: {recorded:?}");
    }

    #[test]
    fn bursts_of_a_plan_have_the_probabilities_of_the_kernels_model() {
        // 1% in bursts of 5: a burst ends with 20%, so it must begin with 0.01 x 0.2 / 0.99.
        let bursts = LossBursts::new(percent("1%"), 5);
        assert!((bursts.end - 0.2).abs() < 1e-12);
        assert!((bursts.begin - 0.002_020_202).abs() < 1e-9);
    }
}
