//! The plan that compares the baseline of a plan with itself.

use std::path::Path;

use prony_machine::profile::MachineProfile;
use prony_plan::Plan;
use toml::{Table, Value};

use crate::ending::Failure;
use crate::experiment::plan_file;

/// Factor that distinguishes the two copies.
const COPY: &str = "noise_copy";

/// Reads a plan, and composes one that compares two copies of its baseline.
pub(super) fn plan(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))?;
    // Errors in the plan itself are reported with its own lines.
    let read = |text: &str| {
        Plan::from_str(text, path, MachineProfile::this())
            .map_err(|errors| plan_file::wrong_plan(&errors))
    };
    read(&text)?;
    let copies = text.parse::<Table>().map_err(Failure::wrong)?;
    read(&copied(copies).to_string())
}

/// Adds a factor with two levels that nothing uses, and reduces the variants to the baseline with each
/// of them.
fn copied(mut plan: Table) -> Table {
    let baseline = match plan.get("baseline") {
        Some(Value::Table(table)) => table.clone(),
        Some(Value::Array(tables)) => {
            let tables = tables.iter().rev().filter_map(Value::as_table);
            tables.flat_map(|table| table.clone()).collect()
        }
        _ => Table::new(),
    };
    let mut levels = Table::new();
    if let Some(Value::Table(factors)) = plan.get_mut("factors") {
        for (name, of_factor) in &*factors {
            // A factor with a single level is a constant, which variants don't name.
            if let Value::Array(of_factor) = of_factor
                && let [first, _, ..] = of_factor.as_slice()
            {
                let level = level_name(baseline.get(name).unwrap_or(first));
                levels.insert(name.clone(), Value::from(level));
            }
        }
        factors.insert(COPY.to_owned(), Value::from(vec!["a", "b"]));
    }
    let variant = |copy: &str| {
        let mut levels = levels.clone();
        levels.insert(COPY.to_owned(), Value::from(copy));
        Value::Table(levels)
    };
    let variants = vec![variant("a"), variant("b")];
    plan.insert("variants".to_owned(), Value::Array(variants));
    let constants = baseline
        .into_iter()
        .filter(|(name, _)| !levels.contains_key(name));
    let copy = (COPY.to_owned(), Value::from("a"));
    let baseline = constants.chain([copy]).collect();
    plan.insert("baseline".to_owned(), Value::Table(baseline));
    plan
}

/// Returns the name of a level: its value, or the `name` of a table.
fn level_name(level: &Value) -> String {
    let name = level.get("name").unwrap_or(level);
    name.as_str()
        .map_or_else(|| name.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_levels_of_the_baseline_remain() {
        let plan = r#"
            baseline = { socket = "unix", workers = 4 }
            [factors]
            socket = ["tcp", "unix"]
            workers = [1, 4]
            size = [{ name = "small", bytes = 1 }, { name = "large", bytes = 9 }]
        "#;
        let copied = copied(plan.parse().unwrap());
        let expected = r#"[
            { socket = "unix", workers = "4", size = "small", noise_copy = "a" },
            { socket = "unix", workers = "4", size = "small", noise_copy = "b" },
        ]"#;
        let expected: Table = format!("variants = {expected}").parse().unwrap();
        assert_eq!(copied["variants"], expected["variants"]);
        assert_eq!(copied["factors"][COPY], Value::from(vec!["a", "b"]));
        assert_eq!(copied["baseline"].as_table().unwrap().len(), 1);
    }
}
