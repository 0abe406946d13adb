//! Captions of sections, tables and charts.

pub(crate) const RESULT: &str = "Mean over the blocks (geometric; arithmetic for shares), and the \
    change relative to the reference with its 95% interval.";
pub(crate) const FOREST: &str = "The band shows the margin: changes within it count as no \
    difference. A variant is equivalent if its whole interval is inside the band; it can be faster \
    or slower only if its interval excludes zero.";
pub(crate) const MEANS: &str = "Means over the blocks.";
pub(crate) const OK_RATE: &str = "Rates count successful requests only.";
pub(crate) const EFFECTS: &str = "Averaged over the other factors, with 95% intervals.";
pub(crate) const WHY: &str = "A metric that changed along with performance did not necessarily \
    cause the difference. Metrics that could explain why a variant is slower come first, sorted by \
    their largest established change.";
pub(crate) const CPU: &str = "CPU time in user mode and in the kernel, summed over all processes of \
    the services. Means over the blocks, and the share of each mode.";
pub(crate) const FUNCTIONS: &str = "CPU time per request of each function itself, without the functions that it calls, \
    from samples. All rows add up to the service's CPU time. The intervals allow for the number of functions that \
    were compared.";
pub(crate) const SERVER_FUNCTIONS: &str =
    "CPU time of each function itself, without the functions that it calls, from samples.";
pub(crate) const WAITS: &str = "Time for which the services' threads were off their cores per request, by the function \
    that waits and what it waits for, from context switches in short periods. Threads wait at the same time, and idle \
    threads wait too, so the sum can be larger than the response time.";
pub(crate) const SCALING: &str = "Each panel has its own scale. Vertical bars are 95% intervals. The gray line shows \
    proportional growth.";
pub(crate) const SCALING_COLUMNS: &str = "Efficiency: the last value as a share of the value that \
    proportional growth from the first would reach. Slope: the gain per additional unit of the factor, \
    from a linear fit. R²: the share of the variation that the linear fit explains. All values are \
    means over the blocks.";
pub(crate) const UNTIL_DONE: &str = "Every trial sends the same number of requests. Each point \
    counts the completions since the previous point.";
pub(crate) const OVER_TIME: &str = "One line for each trial, in half-second steps. A line that \
    falls, rises or jumps shows that the server had not reached a steady state.";
pub(crate) const AGAINST_RATE: &str = "One dot for each half second and percentile. If dots at the same \
    rate are far apart, a queue remained from an earlier, higher rate, or the server was not yet warm.";
pub(crate) const BY_RATE: &str = "The load in half-second intervals, grouped by offered rate. \
    Each percentile is the median over the intervals of its group.";
pub(crate) const TRIAL_DOTS: &str = "One dot for each trial. The axes start at zero.";
pub(crate) const TRIAL_DOTS_BOUNDS: &str =
    "One dot for each trial. The axes start at zero. An arrow marks a lower bound.";
pub(crate) const ROUNDS: &str = "In each round, every variant has one slice of the load, in random \
    order. Above: the slices. Below: their ratio in each round, with the 95% interval from the \
    blocks as a band. A neighbor that slows down the machine affects both lines above, but hardly \
    affects the ratio below. Ratios beyond the axis are drawn at its edge.";
pub(crate) const DISTRIBUTIONS: &str = "Response times relative to those of the reference at each \
    percentile: the geometric mean over the blocks. The 95% band covers all percentiles together. \
    It is darker where it excludes no change, so the response times differ there. No verdict \
    depends on it.";
pub(crate) const PROBES: &str = "One dot for each probe of all blocks. The horizontal line is the \
    goal, and each vertical line a variant's capacity: the mean over the blocks. Values beyond the \
    vertical axis are drawn at its edge; probes at far higher rates are omitted.";
pub(crate) const EVENT_BOUNDS: &str =
    "≥ marks a lower bound: some streams stalled or were cut off.";
pub(crate) const DESCRIBED: &str = "These intervals are not adjusted for multiple comparisons, \
    so about one in twenty misses the true value by chance.";
pub(crate) const ENTRIES_POOLED: &str = "All blocks are pooled: counts are added, and percentiles \
    come from the merged histograms. These figures and their changes relative to the \
    reference have no intervals.";
pub(crate) const SEARCHES: &str = "The capacity is the geometric mean of these results, and its \
    interval follows from their spread. Each result is the rate at which a curve through all probes \
    of the search reaches the goal, so a single probe below it may have missed the goal, and one \
    above it may have met it.";
pub(crate) const SUCCESSFUL_PERCENTILES: &str = "Percentiles are those of successful responses. For a goal on a \
    percentile, a failed request counts as slower than any limit.";
pub(crate) const NO_FINDINGS: &str = "None: no check found a reason to doubt these results.";

pub(crate) const CHANGE_POINTS: &str = "Found by E-divisive with a permutation test. A series without \
    a change gets one with a probability of 0.2%.";

pub(crate) const LOWER_BOUNDS: &str =
    "≥ marks a lower bound: some requests timed out or were cut off.";
pub(crate) const AGENTS: &str = "Each agent's share of the load. CPU is the load's usage on the \
    agent's machine, as a percentage of one core.";

pub(crate) const UNPAIRED_RUNS: &str = "The two runs share no block, so their results are not \
    paired. The intervals don't cover changes between the runs that are not listed here, such as \
    the time of day or other load on the machine.";
pub(crate) const NO_COMMON_VARIANT: &str =
    "The two runs have no variant in common: nothing can be compared.";
pub(crate) const FOREST_RUNS: &str = "The band shows the margin: changes within it count as no \
    difference.";
pub(crate) const RELATIVE: &str = "Each variant is compared with its baseline within the blocks \
    of its run, so influences common to all variants in a block cancel out.";
pub(crate) const DESCRIBED_RUNS: &str = "These metrics have no verdict, and their intervals are \
    not adjusted for multiple comparisons, so about one in twenty misses the true value by chance.";

/// Explains the softirq column according to the kernel's accounting of interrupts.
pub(crate) fn softirq(included: Option<bool>) -> &'static str {
    match included {
        Some(true) => {
            "Softirq is the kernel's network processing on the whole machine, including the load \
             generator's share. This kernel also counts it in the other columns: don't add it to \
             them."
        }
        Some(false) => {
            "Softirq is the kernel's network processing on the whole machine, including the load \
             generator's share. This kernel charges it to no process, so it is in addition to the \
             other columns."
        }
        None => {
            "Softirq is the kernel's network processing on the whole machine, including the load \
             generator's share. The other columns may include it as well: don't add it to them."
        }
    }
}
