//! Goals of a capacity search in sentences.

/// Joins the goals to a phrase: `p99 < 50 ms and failed < 0.1%`.
pub fn goals_phrase(goals: &[String]) -> String {
    let spaced: Vec<String> = goals.iter().map(|goal| spaced(goal)).collect();
    spaced.join(" and ")
}

/// Returns the readings of all goals as one clause. If the server did not keep up with the rate, the
/// clause states that.
pub fn readings_phrase<'a>(readings: impl Iterator<Item = &'a str>, kept_up: bool) -> String {
    let mut texts: Vec<&str> = readings.collect();
    if !kept_up {
        texts.push("the server did not keep up");
    } else if texts.is_empty() {
        texts.push("no request ended in time to be measured");
    }
    texts.join(", ")
}

/// Returns a goal with spaces around its comparison operator and before its unit.
fn spaced(goal: &str) -> String {
    let is_sign = |c: char| matches!(c, '<' | '>' | '=');
    let (Some(from), Some(to)) = (goal.find(is_sign), goal.rfind(is_sign)) else {
        return goal.to_owned();
    };
    let (metric, sign) = (&goal[..from], &goal[from..=to]);
    let limit = goal[to + 1..].trim();
    let unit = limit.find(|c: char| c.is_alphabetic());
    let (number, unit) = limit.split_at(unit.unwrap_or(limit.len()));
    let gap = if unit.is_empty() { "" } else { " " };
    format!("{} {sign} {}{gap}{unit}", metric.trim(), number.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_spaced_and_joined() {
        let goals = ["p99<50ms", "failed <= 0.1%", "p99.9<1.5s"].map(str::to_owned);
        let phrase = "p99 < 50 ms and failed <= 0.1% and p99.9 < 1.5 s";
        assert_eq!(goals_phrase(&goals), phrase);
    }
}
