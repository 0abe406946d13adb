//! Which charts an experiment or a load has, and what is drawn in each: shared by the page, the PDF
//! and the files.

mod completions;
mod cpu;
mod forest;
mod scaling;
mod times;

pub(crate) use completions::until_done;
pub(crate) use cpu::cpu;
pub(crate) use forest::forest;
pub(crate) use scaling::scaling;
pub(crate) use times::{latency, latency_groups, of_load, over_time};
