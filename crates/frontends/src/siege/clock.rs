//! Formats local times as siege does, in English.

use jiff::Zoned;

/// Formats a time as `2026-11-22 06:05:07`.
pub(super) fn time() -> String {
    Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats a time as `[Sun, 2026-11-22 06:05:07] `.
pub(super) fn stamp() -> String {
    Zoned::now()
        .strftime("[%a, %Y-%m-%d %H:%M:%S] ")
        .to_string()
}
