//! Tables of the functions of a sampled server.

use std::collections::BTreeMap;

use prony_record::Record;
use prony_record::sampling::ServerProfile;

use crate::number;
use crate::table::{Table, plain};

/// Returns the time per request, in microseconds, of a thread that is busy during the whole load.
pub(crate) fn us_per_request(record: &Record) -> Option<f64> {
    let ended = record.totals.ok + record.totals.failed;
    (ended > 0).then(|| 1e6 * record.totals.elapsed_s / ended as f64)
}

/// The functions that used the most CPU time. `us_per_request` is that of a busy thread.
pub(crate) fn functions(
    profile: &ServerProfile,
    us_per_request: Option<f64>,
    rows_max: usize,
) -> Table {
    let cores = profile
        .cpu_s
        .map(|cpu_s| cpu_s / profile.seconds.max(f64::MIN_POSITIVE));
    let mut table = Table::of(profile.functions.iter().take(rows_max));
    if let Some((us, cores)) = us_per_request.zip(cores) {
        table = table.right("per request", move |it| number::time(it.share * cores * us));
    }
    table
        .right("CPU", |it| number::share(it.share))
        .left("function", |it| plain(&it.function.name))
        .left("in", |it| plain(&it.function.module))
        .build()
}

/// The programs and libraries, with the sum of their functions.
pub(crate) fn modules(profile: &ServerProfile) -> Table {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for function in &profile.functions {
        *shares.entry(&function.function.module).or_default() += function.share;
    }
    let mut shares: Vec<(&str, f64)> = shares.into_iter().collect();
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Table::of(&shares)
        .right("CPU", |(_, share)| number::share(*share))
        .left("program or library", |(module, _)| plain(module))
        .build()
}

/// The functions in which the most threads waited.
pub(crate) fn waits(
    profile: &ServerProfile,
    us_per_request: Option<f64>,
    rows_max: usize,
) -> Table {
    let mut table = Table::of(profile.waits.iter().take(rows_max));
    if let Some(us) = us_per_request {
        table = table.right("per request", move |it| number::time(it.threads * us));
    }
    table
        .right("threads", |it| number::fixed(it.threads, 2))
        .left("waiting for", |it| {
            let reason = it.function.waits_for.as_ref();
            reason.map_or_else(String::new, ToString::to_string)
        })
        .left("function", |it| plain(&it.function.name))
        .left("in", |it| plain(&it.function.module))
        .build()
}
