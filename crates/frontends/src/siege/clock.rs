//! Formats local times in English, as siege does.

use std::time::SystemTime;

use crate::local_time::LocalTime;

/// Formats the current time like `2026-11-22 06:05:07`.
pub(super) fn time() -> String {
    LocalTime::of(SystemTime::now()).date_and_time()
}

/// Formats the current time like `[Sun, 2026-11-22 06:05:07] `.
pub(super) fn stamp() -> String {
    let now = LocalTime::of(SystemTime::now());
    format!("[{}, {}] ", now.weekday(), now.date_and_time())
}
