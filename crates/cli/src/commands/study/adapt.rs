//! Adapts a study's plan before anything starts: adds levels from the command line, and removes
//! variants that this machine can't run.
//!
//! Both operations edit the text of the plan, so the stored plan is the one that ran.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use prony_machine::profile::MachineProfile;
use prony_plan::{DiagnosticKind, LevelSelection, Plan, PlanError, PlanErrors};
use prony_report::number;
use serde::Deserialize;
use toml::Spanned;

use crate::ending::Failure;
use crate::experiment::plan_file::wrong_plan;

/// A study's plan without the variants that this machine can't run.
pub(crate) struct AdaptedPlan {
    pub(crate) text: String,
    /// One line for each limitation of this machine, with the variants that it removed.
    pub(crate) left_out: Vec<String>,
    /// The limitations alone, without the variants, in the same order as `left_out`.
    reasons: Vec<String>,
}

impl AdaptedPlan {
    /// Reports an error if a level typed as `FACTOR=LEVEL` is in none of the remaining variants.
    pub(crate) fn refuse_lost_level(&self, text: &str, plan: &Plan) -> Result<(), Failure> {
        let Some((factor, level)) = text.split_once('=') else {
            return Ok(());
        };
        let (factor, level) = (factor.trim(), level.trim());
        let name = match toml::from_str::<toml::Table>(&format!("level = {level}")) {
            Ok(table) => table.get("level").map(name_of).unwrap_or_default(),
            Err(_) => level.to_owned(),
        };
        let mut variants = plan.variants.iter();
        if variants.any(|variant| variant.levels.get(factor) == Some(name.as_str())) {
            return Ok(());
        }
        let why = if self.reasons.is_empty() {
            "every variant with this level was removed".to_owned()
        } else {
            self.reasons.join("; ")
        };
        Err(Failure::wrong(format!(
            "--level {text}: this machine can't run \"{name}\": {why}"
        )))
    }
}

/// Reason why a plan can't run on this machine.
#[derive(Debug)]
pub(crate) enum CannotAdapt {
    /// The arguments or the plan are wrong.
    Wrong(Failure),
    /// Every variant, or the baseline, needs something that this machine lacks. Contains the
    /// sentence to print.
    Lacks(String),
}

impl From<Failure> for CannotAdapt {
    fn from(failure: Failure) -> CannotAdapt {
        CannotAdapt::Wrong(failure)
    }
}

impl From<CannotAdapt> for Failure {
    fn from(classify: CannotAdapt) -> Failure {
        match classify {
            CannotAdapt::Wrong(failure) => failure,
            CannotAdapt::Lacks(why) => Failure::wrong(why),
        }
    }
}

/// Decides whether a plan's errors come from a limitation of this machine or from a mistake in the
/// plan.
fn classify(errors: &PlanErrors) -> CannotAdapt {
    let lacks = errors
        .iter()
        .all(|error| error.kind == DiagnosticKind::Machine);
    if lacks {
        // Several parts of the plan may fail because this machine lacks the same feature. Print
        // only the first error, with the number of further errors.
        let more = match errors.iter().count() as u64 - 1 {
            0 => String::new(),
            more => format!(
                ", and {}",
                number::plural(more, "more error", "more errors")
            ),
        };
        CannotAdapt::Lacks(describe(errors.first()) + &more)
    } else {
        CannotAdapt::Wrong(wrong_plan(errors))
    }
}

/// Formats an error without its line number, because the user didn't write the study's plan.
fn describe(error: &PlanError) -> String {
    let hint = error.hint.as_ref();
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", error.message)
}

/// Byte ranges of the factors and variants in the text of a plan.
#[derive(Deserialize)]
struct PlanSpans {
    #[serde(default)]
    factors: BTreeMap<String, Vec<Spanned<toml::Value>>>,
    variants: Option<Spanned<toml::Value>>,
}

fn plan_spans(text: &str) -> Option<PlanSpans> {
    toml::from_str(text).ok()
}

/// Adds a level, typed as `FACTOR=LEVEL`, after the existing levels of the factor. LEVEL is TOML,
/// as in a plan; a bare word is a string.
pub(crate) fn with_level(text: &str, input: &str) -> Result<String, Failure> {
    let wrong = |what: String| Failure::wrong(format!("--level {input}: {what}"));
    let hint = "write FACTOR=LEVEL, such as stack='{ name = \"bypass\", wrapper = [\"onload\"] }'";
    let Some((factor, level)) = input.split_once('=') else {
        return Err(wrong(hint.to_owned()));
    };
    let (factor, level) = (factor.trim(), level.trim());
    let Some(places) = plan_spans(text) else {
        return Err(wrong("the study's plan can't be read".to_owned()));
    };
    let Some(levels) = places.factors.get(factor) else {
        let known: Vec<&str> = places.factors.keys().map(String::as_str).collect();
        let what = format!("the study has no factor \"{factor}\"");
        return Err(wrong(format!(
            "{what}; its factors are: {}",
            known.join(", ")
        )));
    };
    let written = match toml::from_str::<toml::Table>(&format!("level = {level}")) {
        Ok(table) if table.len() == 1 => level.to_owned(),
        _ if is_word(level) => toml::Value::String(level.to_owned()).to_string(),
        Ok(_) => return Err(wrong(hint.to_owned())),
        Err(error) => return Err(wrong(format!("{}; {hint}", error.message()))),
    };
    let Some(last) = levels.last() else {
        return Err(wrong(format!("factor \"{factor}\" has no level")));
    };
    let (before, behind) = text.split_at(last.span().end);
    Ok(format!("{before},\n    {written}{behind}"))
}

/// Byte ranges of the keys that set the length of trials, in the text of a plan.
#[derive(Deserialize, Default)]
struct LengthSpans {
    #[serde(default)]
    trials: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    load: BTreeMap<String, Spanned<toml::Value>>,
}

/// Sets `duration`, `warmup` or `requests`, replacing an existing value in `[load]` or `[trials]`.
/// `value` is written as in a plan.
pub(crate) fn with_length(text: &str, key: &str, value: &str) -> String {
    let lengths: LengthSpans = toml::from_str(text).unwrap_or_default();
    if let Some(old) = lengths.load.get(key).or_else(|| lengths.trials.get(key)) {
        let span = old.span();
        return format!("{}{value}{}", &text[..span.start], &text[span.end..]);
    }
    let section = if key == "requests" {
        "[load]"
    } else {
        "[trials]"
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim_start().starts_with(section) {
            return format!("{}{key} = {value}\n{}", &text[..at], &text[at..]);
        }
    }
    format!("{text}\n{section}\n{key} = {value}\n")
}

fn is_word(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && chars.all(|c| c.is_ascii_alphanumeric() || "._-+/".contains(c))
}

/// Removes the variants for which this machine lacks cores, places or privileges. Missing programs
/// don't remove a variant: the user can install them, so the plan is rejected with a list of them.
pub(crate) fn to_machine(
    text: &str,
    origin: &Path,
    machine: &MachineProfile,
) -> Result<AdaptedPlan, CannotAdapt> {
    let mut adapted = AdaptedPlan {
        text: text.to_owned(),
        left_out: Vec::new(),
        reasons: Vec::new(),
    };
    let read = |text: &str| Plan::from_str(text, origin, machine.clone());
    let mut plan = read(text).map_err(|errors| wrong_plan(&errors))?;
    // A check may stop before it finds all errors, so repeat it after each removal of variants.
    while let Err(errors) = plan.check_machine() {
        let Some((kept, why)) = runnable_variants(&plan, &errors) else {
            return Err(classify(&errors));
        };
        let narrowed = narrowed(&adapted.text, &plan, &kept);
        // If the baseline can't run, or nothing remains to compare it with, report the original
        // errors.
        match narrowed.and_then(|text| Some((read(&text).ok()?, text))) {
            Some((fewer, text)) => (plan, adapted.text) = (fewer, text),
            None => return Err(classify(&errors)),
        }
        adapted.left_out.extend(why);
        adapted.reasons.extend(errors.iter().map(describe));
    }
    let comments = adapted.left_out.iter().map(|line| format!("# {line}\n"));
    adapted.text = comments.collect::<String>() + &adapted.text;
    Ok(adapted)
}

/// Returns the variants that this machine can run, and the reasons why it can't run the others.
/// Returns `None` if an error affects all variants or is not a limitation of the machine, or if
/// fewer than two variants remain.
fn runnable_variants(
    plan: &Plan,
    errors: &PlanErrors,
) -> Option<(Vec<LevelSelection>, Vec<String>)> {
    let lacking = errors
        .iter()
        .all(|error| error.kind == DiagnosticKind::Machine && !error.variants.is_empty());
    if !lacking {
        return None;
    }
    let affected = |id: &String| errors.iter().any(|error| error.variants.contains(id));
    let kept = plan
        .variants
        .iter()
        .filter(|variant| !affected(&variant.id));
    let kept: Vec<LevelSelection> = kept.map(|variant| variant.levels.clone()).collect();
    let why = errors.iter().map(|error| {
        let variants = error.variants.join(", ");
        format!("left out on this machine: {variants}: {}", describe(error))
    });
    (kept.len() > 1).then(|| (kept, why.collect()))
}

/// Returns the text of the plan reduced to the variants in `kept`. Removes the levels that none of
/// these variants uses. If that isn't enough, adds an explicit list of variants.
fn narrowed(text: &str, plan: &Plan, kept: &[LevelSelection]) -> Option<String> {
    let mut text = text.to_owned();
    let mut product = 1;
    let mut varying = Vec::new();
    for factor in &plan.factors {
        let has = |level: &str| {
            kept.iter()
                .any(|levels| levels.get(&factor.name) == Some(level))
        };
        let used = factor
            .levels
            .iter()
            .filter(|level| has(&level.name))
            .count();
        // If only one level of a factor remains, the level must be a table with a name, not a plain
        // value.
        let named = plan.baseline.get(&factor.name).is_some_and(has);
        let can_shrink = used > 1 || named && is_table(&text, &factor.name)?;
        if used < factor.levels.len() && can_shrink {
            for level in factor.levels.iter().filter(|level| !has(&level.name)) {
                text = without_level(&text, &factor.name, &level.name)?;
            }
        }
        let left = if can_shrink {
            used
        } else {
            factor.levels.len()
        };
        product *= left;
        if left > 1 {
            varying.push(factor.name.as_str());
        }
    }
    let listed = plan_spans(&text)?.variants.map(|value| value.span());
    if listed.is_none() && product == kept.len() {
        return Some(text);
    }
    Some(with_variants(&text, listed, kept, &varying))
}

fn with_variants(
    text: &str,
    listed: Option<Range<usize>>,
    kept: &[LevelSelection],
    varying: &[&str],
) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let rows = kept.iter().map(|levels| {
        let varied = levels.iter().filter(|(factor, _)| varying.contains(factor));
        let pairs: Vec<String> = varied
            .map(|(factor, level)| format!("{factor} = {}", quoted(level)))
            .collect();
        format!("    {{ {} }},\n", pairs.join(", "))
    });
    let list = format!("[\n{}]", rows.collect::<String>());
    match listed {
        Some(range) => format!("{}{list}{}", &text[..range.start], &text[range.end..]),
        // Keys before the first table belong to the plan itself.
        None => format!("variants = {list}\n{text}"),
    }
}

fn name_of(level: &toml::Value) -> String {
    let named = level.get("name").unwrap_or(level);
    match named.as_str() {
        Some(text) => text.to_owned(),
        None => named.to_string(),
    }
}

fn is_table(text: &str, factor: &str) -> Option<bool> {
    let places = plan_spans(text)?;
    let levels = places.factors.get(factor)?;
    Some(levels.iter().all(|level| level.get_ref().is_table()))
}

/// Removes one level of a factor, with its comma, from the text of a plan.
fn without_level(text: &str, factor: &str, name: &str) -> Option<String> {
    let places = plan_spans(text)?;
    let levels = places.factors.get(factor)?;
    let at = levels
        .iter()
        .position(|level| name_of(level.get_ref()) == name)?;
    let span = levels[at].span();
    let gone = match at {
        0 => span.start..levels.get(1)?.span().start,
        at => levels[at - 1].span().end..span.end,
    };
    Some(format!("{}{}", &text[..gone.start], &text[gone.end..]))
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
