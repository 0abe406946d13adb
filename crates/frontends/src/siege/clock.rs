//! The time of day, as siege writes it: local, in English.

use jiff::Zoned;

/// `2026-11-22 06:05:07`
pub(super) fn time() -> String {
    Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `[Sun, 2026-11-22 06:05:07] `
pub(super) fn stamp() -> String {
    Zoned::now()
        .strftime("[%a, %Y-%m-%d %H:%M:%S] ")
        .to_string()
}
