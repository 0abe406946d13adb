//! The tables of reports, with formatted text. Each renderer lays them out.

pub(crate) mod capacity;
pub(crate) mod entries;
pub(crate) mod entry_comparison;
pub(crate) mod functions;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod profile;
mod results;
mod revisions;
pub(crate) mod runs;
pub(crate) mod scaling;
mod standing;
pub(crate) mod times;
mod why;

pub(crate) use results::{metrics_tables, outcomes_table, result_list, results, variants_table};
pub(crate) use revisions::revisions_table;
pub(crate) use standing::{Standing, change_texts, effect_of, level, standings, value_text};
pub(crate) use why::{cpu_table, moved_table, whys};
