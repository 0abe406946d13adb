//! Keys of `[link.NAME]` that need an emulator: delay, jitter, bursts of loss, reordering and
//! duplicates.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlTable};
use crate::topology::{EmulatorChoice, JitterDistribution, LinkEmulation, PacketShare};

/// Keys that give a link an emulator. The others only describe how it works.
const EMULATED_KEYS: [&str; 6] = [
    "round_trip",
    "delay",
    "jitter",
    "loss_burst",
    "reorder",
    "duplicate",
];

/// Accepted mean numbers of packets that are lost in a row.
const LOSS_BURST: RangeInclusive<u64> = 1..=LinkEmulation::LOSS_BURST_MAX as u64;

/// Returns the line of the first key that needs an emulator.
pub(super) fn first_line(table: &TomlTable) -> usize {
    let keys = EMULATED_KEYS.into_iter();
    let mut present = keys.filter(|key| table.get(key).is_some());
    table.line_of(present.next().unwrap_or("emulator"))
}

/// Reads the keys that need an emulator. Returns `None` if there are none, or if the delay is
/// wrong.
pub(super) fn read(
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<LinkEmulation> {
    if !EMULATED_KEYS.iter().any(|key| table.get(key).is_some()) {
        for key in ["distribution", "emulator", "relay_core"] {
            if table.get(key).is_some() {
                let message = format!("{key} of {owner} has no effect without a delay");
                let hint = format!("add round_trip = \"20ms\", or remove {key}");
                let line = table.line_of(key);
                reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
            }
        }
        return None;
    }
    let mut emulation = LinkEmulation::with_delays(read_delays(table, owner, reader)?);
    read_jitter(&mut emulation, table, owner, reader);
    emulation.loss_burst = read_loss_burst(table, owner, reader);
    for (key, share) in [
        ("reorder", &mut emulation.reorder),
        ("duplicate", &mut emulation.duplicate),
    ] {
        *share = read_share(table, key, owner, reader).unwrap_or_default();
    }
    let has_delay = ["round_trip", "delay"].map(|key| table.get(key).is_some());
    if table.get("reorder").is_some() && !has_delay.contains(&true) {
        let message = format!("reorder of {owner} has no effect without a delay");
        let hint = "packets overtake others by skipping the delay; add round_trip = \"20ms\"";
        let line = table.line_of("reorder");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
    emulation.emulator = read_emulator(table, owner, reader);
    emulation.relay_core = read_relay_core(emulation.emulator, table, owner, reader);
    Some(emulation)
}

/// Reads a percentage of packets.
pub(super) fn read_share(
    table: &TomlTable,
    key: &str,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<PacketShare> {
    let node = table.get(key)?;
    let text = reader.scalar(node, &format!("{key} of {owner}"))?;
    let subject = match key {
        "loss" => format!("loss on {owner}"),
        _ => format!("{key} of {owner}"),
    };
    reader.valid(PacketShare::parse(&text), node, &subject)
}

/// Reads the delay of each direction. Without a key, there is none.
fn read_delays(
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<[Duration; 2]> {
    match (table.get("round_trip"), table.get("delay")) {
        (None, None) => Some([Duration::ZERO; 2]),
        (Some(_), Some(delay)) => {
            let message = format!("{owner} has both round_trip and delay");
            let hint = "round_trip is the sum of both directions, and delay sets each of them; \
                        remove one";
            reader.report_with_hint(DiagnosticKind::Structure, delay.line, message, hint);
            None
        }
        (Some(node), None) => {
            let text = reader.scalar(node, &format!("round_trip of {owner}"))?;
            let whole = read_delay(&text, "round_trip", 2, node.line, owner, reader)?;
            // The halves add up to the whole, even if it is an odd number of nanoseconds.
            Some([whole / 2, whole - whole / 2])
        }
        (None, Some(node)) => {
            let texts = reader.texts(node, &format!("delay of {owner}"))?;
            let mut delays = Vec::new();
            for text in &texts {
                delays.push(read_delay(text, "delay", 1, node.line, owner, reader)?);
            }
            match *delays.as_slice() {
                [both] => Some([both; 2]),
                [first, second] => Some([first, second]),
                _ => {
                    let message = format!(
                        "delay of {owner} has {} times, not one or two",
                        delays.len()
                    );
                    let hint = "give one for both directions, or one for each, starting with the \
                                direction from the first place of `between` to the second";
                    reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
                    None
                }
            }
        }
    }
}

/// Parses a time of 0 to `directions` times the largest delay.
fn read_delay(
    text: &str,
    key: &str,
    directions: u32,
    line: usize,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<Duration> {
    let max = LinkEmulation::DELAY_MAX * directions;
    // Elsewhere, a number without a unit means seconds. For a delay, it is more likely a mistake.
    let lacks_unit = text.parse::<f64>().is_ok_and(|number| number != 0.0);
    let message = match prony_record::quantity::time(text) {
        Ok(_) if lacks_unit => {
            let message = format!("{key} of {owner} is \"{text}\", without a unit");
            let hint = format!("write {key} = \"{text}ms\"");
            reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
            return None;
        }
        Ok(time) if time <= max => return Some(time),
        Ok(_) => format!("{key} of {owner} is \"{text}\", not 0ms to {max:?}"),
        Err(error) => format!("{key} of {owner}: {error}"),
    };
    reader.report(DiagnosticKind::BadValue, line, message);
    None
}

fn read_jitter(
    emulation: &mut LinkEmulation,
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) {
    if let Some(node) = table.get("distribution") {
        if table.get("jitter").is_none() {
            let message = format!("distribution of {owner} has no effect without jitter");
            let hint = "add jitter = \"2ms\", or remove distribution";
            reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
        }
        let words = ["uniform", "normal"];
        let subject = format!("distribution of {owner}");
        if reader.choice(node, &subject, &words) == Some("normal") {
            emulation.distribution = JitterDistribution::Normal;
        }
    }
    let Some(node) = table.get("jitter") else {
        return;
    };
    let Some(jitter) = reader.duration(node, &format!("jitter of {owner}")) else {
        return;
    };
    let [first, second] = emulation.delays;
    let smallest = first.min(second);
    let reach = emulation.distribution.reach();
    if jitter.saturating_mul(reach) > smallest {
        let (message, hint) = match emulation.distribution {
            JitterDistribution::Uniform => (
                format!("jitter of {owner} exceeds its delay of {smallest:?} in each direction"),
                "packets would arrive before they are sent; use a smaller jitter or a larger \
                 round_trip"
                    .to_owned(),
            ),
            JitterDistribution::Normal => (
                format!(
                    "jitter of {owner} exceeds a quarter of its delay of {smallest:?} in each \
                     direction"
                ),
                "it is the standard deviation, and some packets would arrive before they are \
                 sent; use a smaller jitter or a larger round_trip"
                    .to_owned(),
            ),
        };
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        return;
    }
    emulation.jitter = jitter;
}

fn read_loss_burst(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) -> Option<u32> {
    let node = table.get("loss_burst")?;
    if table.get("loss").is_none() {
        let message = format!("loss_burst of {owner} has no effect without loss");
        let hint = "add loss = \"1%\", or remove loss_burst";
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
    }
    let packets = reader.whole(node, &format!("loss_burst of {owner}"), LOSS_BURST)?;
    u32::try_from(packets).ok()
}

fn read_emulator(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) -> EmulatorChoice {
    let choice = table.get("emulator").and_then(|node| {
        let subject = format!("emulator of {owner}");
        reader.choice(node, &subject, &["auto", "kernel", "relay"])
    });
    match choice {
        Some("kernel") => EmulatorChoice::Kernel,
        Some("relay") => EmulatorChoice::Relay,
        _ => EmulatorChoice::Auto,
    }
}

fn read_relay_core(
    emulator: EmulatorChoice,
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<usize> {
    let node = table.get("relay_core")?;
    if emulator == EmulatorChoice::Kernel {
        let message = format!("relay_core of {owner} has no effect with emulator = \"kernel\"");
        let hint = "remove it, or use emulator = \"relay\"";
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
    }
    let cores = reader.cores(node, &format!("relay_core of {owner}"))?;
    if let &[core] = cores.as_slice() {
        return Some(core);
    }
    let message = format!("relay_core of {owner} is not one core");
    let hint = "a relay is one thread";
    reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    None
}
