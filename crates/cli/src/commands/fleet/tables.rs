//! Prints the tables and JSON of `prony fleet list` and `prony fleet check`.

use std::time::Duration;

use prony_fleet::clock::ClockOffset;
use prony_fleet::coordinator::{CheckedAgent, ClockCheck, ListedAgent, TargetCheck};
use prony_report::number;
use prony_report::table::{Align, Table};
use serde_json::{Value, json};

/// Returns the table of registered agents.
pub(crate) fn agents_text(listed: &[ListedAgent]) -> String {
    let headings = [
        "agent",
        "host",
        "system",
        "cores",
        "addresses",
        "labels",
        "version",
        "busy with",
        "last seen",
    ];
    let mut table = Table::new(&headings);
    align_left(&mut table, &[1, 2, 4, 5, 6, 7]);
    for one in listed {
        let agent = &one.agent;
        table.push(vec![
            agent.name.to_string(),
            agent.host.clone(),
            agent.system.clone(),
            agent.cores.to_string(),
            joined(agent.addresses.iter().map(ToString::to_string)),
            joined(
                agent
                    .labels
                    .iter()
                    .map(|(key, value)| format!("{key}={value}")),
            ),
            agent.sender.prony.clone(),
            agent
                .busy_with
                .as_ref()
                .map_or("-".to_owned(), ToString::to_string),
            format!("{} ago", number::span(one.age.as_secs_f64())),
        ]);
    }
    table_text(&table)
}

pub(crate) fn checks_text(checked: &[CheckedAgent]) -> String {
    let headings = [
        "agent",
        "version",
        "clock offset",
        "offset error",
        "clock",
        "open files",
        "policy",
        "state",
        "target",
    ];
    let mut table = Table::new(&headings);
    align_left(&mut table, &[1, 4, 6, 7, 8]);
    for one in checked {
        let agent = &one.listed.agent;
        let (apart, bound) = clock(&one.clock);
        table.push(vec![
            agent.name.to_string(),
            agent.sender.prony.clone(),
            apart,
            bound,
            agent.clock.clone().unwrap_or_else(|| "-".to_owned()),
            number::count(agent.open_files),
            agent.policy.clone(),
            one.listed
                .unavailability()
                .unwrap_or_else(|| "ready".to_owned()),
            match &one.target {
                None => "-".to_owned(),
                Some(TargetCheck::Answers { answer, forecast }) => {
                    let forecast = forecast.iter().map(|finding| format!("; {}", finding.text));
                    format!("{answer}{}", forecast.collect::<String>())
                }
                Some(TargetCheck::Fails(why)) => format!("fails: {why}"),
            },
        ]);
    }
    if checked.iter().all(|one| one.target.is_none()) {
        table.columns.pop();
    }
    table_text(&table)
}

/// Returns the registered agents as JSON.
pub(crate) fn agents_json(listed: &[ListedAgent]) -> Value {
    listed.iter().map(listed_json).collect()
}

pub(crate) fn checks_json(checked: &[CheckedAgent]) -> Value {
    let each = checked.iter().map(|one| {
        let mut value = listed_json(&one.listed);
        value["clock_offset_us"] = offset(&one.clock).map(|it| it.ns as f64 / 1e3).into();
        value["clock_bound_us"] = offset(&one.clock).map(|it| it.bound_ns as f64 / 1e3).into();
        value["clock_error"] = match &one.clock {
            ClockCheck::Known(_) => Value::Null,
            ClockCheck::TooCoarse(_) => "not known well enough".into(),
            ClockCheck::Unknown(why) => why.as_str().into(),
        };
        value["hindrance"] = one.listed.unavailability().into();
        value["target"] = match &one.target {
            None => Value::Null,
            Some(TargetCheck::Answers { answer, forecast }) => {
                json!({ "answers": true, "text": answer, "findings": forecast })
            }
            Some(TargetCheck::Fails(why)) => json!({ "answers": false, "text": why }),
        };
        value["is_wrong"] = one.is_wrong().into();
        value
    });
    each.collect()
}

fn listed_json(one: &ListedAgent) -> Value {
    let mut value = json!(one.agent);
    value["age_s"] = (one.age.as_millis() as f64 / 1e3).into();
    value
}

fn offset(clock: &ClockCheck) -> Option<&ClockOffset> {
    match clock {
        ClockCheck::Known(offset) | ClockCheck::TooCoarse(offset) => Some(offset),
        ClockCheck::Unknown(_) => None,
    }
}

/// Formats a clock's offset and its error bound.
fn clock(clock: &ClockCheck) -> (String, String) {
    let us = |ns: u64| number::time(ns as f64 / 1e3);
    let apart = |offset: &ClockOffset| {
        let sign = if offset.ns < 0 { "-" } else { "" };
        let apart = Duration::from_nanos(offset.ns.unsigned_abs());
        match apart.as_secs() {
            0..60 => format!("{sign}{}", us(offset.ns.unsigned_abs())),
            _ => format!("{sign}{}", number::span(apart.as_secs_f64())),
        }
    };
    match clock {
        ClockCheck::Known(offset) => (apart(offset), us(offset.bound_ns)),
        ClockCheck::TooCoarse(offset) => (
            apart(offset),
            format!("{} (too coarse)", us(offset.bound_ns)),
        ),
        ClockCheck::Unknown(why) => (why.clone(), "-".to_owned()),
    }
}

fn align_left(table: &mut Table, columns: &[usize]) {
    for &column in columns {
        table.columns[column].1 = Align::Left;
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(",")
    }
}

/// Renders the table as text, or returns an empty string if it has no rows.
fn table_text(table: &Table) -> String {
    if table.is_empty() {
        String::new()
    } else {
        table.to_text("")
    }
}
