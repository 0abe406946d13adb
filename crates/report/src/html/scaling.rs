//! The pictures of metrics along factors whose levels are numbers.

use prony_stats::VerdictDocument;
use serde::Serialize;

use crate::chart::Chart;
use crate::figures;
use crate::table::Table;
use crate::verdict_view::scaling;

/// One metric along one factor: picture and table.
#[derive(Debug, Serialize)]
pub(super) struct ScalingView {
    title: String,
    chart: Chart,
    table: Table,
}

/// One for each factor and metric, in their order.
pub(super) fn of(verdict: &VerdictDocument) -> Vec<ScalingView> {
    let groups = scaling::groups(verdict);
    groups
        .into_iter()
        .map(|(factor, metric, lines)| ScalingView {
            title: scaling::title(factor, metric),
            chart: figures::scaling(factor, metric, &lines),
            table: scaling::table(factor, metric, &lines),
        })
        .collect()
}
