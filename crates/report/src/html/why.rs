//! What moved with each difference, for the page.

use prony_stats::VerdictDocument;
use serde::Serialize;

use crate::table::Table;
use crate::verdict_view as view;

/// One difference and what moved with it.
#[derive(Serialize)]
pub(super) struct WhyView {
    heading: String,
    text: String,
    limits: Vec<String>,
    table: Option<Table>,
    rest: Vec<String>,
}

/// Every difference, in the order of the comparisons.
pub(super) fn whys(verdict: &VerdictDocument) -> Vec<WhyView> {
    let each = view::whys(verdict).into_iter().map(|why| WhyView {
        heading: view::heading(why),
        text: why.text.clone(),
        limits: why.limits.iter().map(|limit| limit.text.clone()).collect(),
        table: view::moved_table(why, usize::MAX),
        rest: view::rest(why),
    });
    each.collect()
}
