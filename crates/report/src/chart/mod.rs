//! Charts as lists of shapes, and the shapes as SVG.
//!
//! Every chart is drawn twice, for a wide page and for a phone, because the text of a wide chart
//! scaled to a phone would be unreadable. The page shows one of the two. Colors are from the light
//! scheme, as hex values. The page maps them to the dark scheme by attribute selectors
//! ([`palette`]), so charts need neither scripts nor classes.

mod along;
mod bars;
mod canvas;
mod completions;
mod distribution;
mod drawing;
mod flame;
mod forest;
mod heat;
pub(crate) mod palette;
mod panels;
mod percentile_ratios;
mod probes;
mod rounds;
mod strips;
mod svg;
mod timed;

pub(crate) use along::{ScalingLine, ScalingPanel, along};
pub(crate) use bars::{Bar, CpuMeasure, cpu_bars};
pub(crate) use completions::{VARIANTS_MAX, VariantTrials, completions, ends_in_words};
pub(crate) use distribution::{Bin, distribution};
pub(crate) use drawing::Chart;
pub(crate) use flame::{FlameColors, flame};
pub(crate) use forest::{ForestRow, forest};
pub(crate) use heat::{HeatColumn, heat};
pub(crate) use panels::{RatePanel, over_time, short};
pub(crate) use percentile_ratios::percentile_ratios;
pub(crate) use probes::{GoalAxis, ProbePoints, probes};
pub(crate) use rounds::{RoundBlock, RoundLines, RoundPoint, rounds};
pub(crate) use strips::{Strip, StripGroup, range_in_words, strips};
pub(crate) use timed::{RateDots, TimedLine, against_rate, by_run, timed};
