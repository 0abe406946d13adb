//! A badge for READMEs and pages: a small SVG image with the most important result.

use super::{CaseStatus, RunVerdicts};
use crate::table::xml;

/// Height of the badge in pixels.
const HEIGHT: f64 = 20.0;
/// Mean width of a character in pixels, at the size that the badge uses.
const CHARACTER: f64 = 6.4;
/// Maximum number of characters of the result.
const RESULT_MAX: usize = 60;

/// Returns the badge: the number of failures or, if nothing failed, the first decided result.
pub fn badge(judged: &RunVerdicts<'_>) -> String {
    let cases = judged.cases();
    let count = |status| cases.iter().filter(|case| case.status == status).count();
    let decided = cases.iter().find(|case| case.status == CaseStatus::Passed);
    let (mut result, color) = match (count(CaseStatus::Failed), decided) {
        (0, Some(case)) => (format!("{} · {}", case.word, case.name), "#1b7f4b"),
        (0, None) if cases.is_empty() => ("no results".to_owned(), "#5c6370"),
        (0, None) => ("undecided".to_owned(), "#5c6370"),
        (failed, _) => (format!("{failed} of {} failed", cases.len()), "#b3261e"),
    };
    if let Some((end, _)) = result.char_indices().nth(RESULT_MAX) {
        result.truncate(end);
        result.push('…');
    }
    let width = |text: &str| text.chars().count() as f64 * CHARACTER + 12.0;
    let (left, right) = (width("prony"), width(&result));
    let result = xml(&result);
    let text = |middle: f64, text: &str| {
        format!("<text x=\"{middle:.1}\" y=\"14\" text-anchor=\"middle\">{text}</text>")
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all:.1}\" height=\"{HEIGHT}\" role=\"img\" \
         aria-label=\"prony: {result}\">\
         <title>prony: {result}</title>\
         <rect width=\"{all:.1}\" height=\"{HEIGHT}\" rx=\"3\" fill=\"#3b4252\"/>\
         <rect x=\"{left:.1}\" width=\"{right:.1}\" height=\"{HEIGHT}\" rx=\"3\" fill=\"{color}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">{}{}</g></svg>\n",
        text(left / 2.0, "prony"),
        text(left + right / 2.0, &result),
        all = left + right,
    )
}
