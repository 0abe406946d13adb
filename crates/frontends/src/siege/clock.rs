//! Formats local times as siege does, in English.

use std::time::SystemTime;

use crate::local_time::LocalTime;

/// Formats a time as `2026-11-22 06:05:07`.
pub(super) fn time() -> String {
    LocalTime::of(SystemTime::now()).date_and_time()
}

/// Formats a time as `[Sun, 2026-11-22 06:05:07] `.
pub(super) fn stamp() -> String {
    let now = LocalTime::of(SystemTime::now());
    format!("[{}, {}] ", now.weekday(), now.date_and_time())
}
