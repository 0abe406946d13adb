//! Findings about the log that a load sent again.

use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, TrialFolding, WithheldVerdicts};
use crate::number;
use crate::replay::SkippedLines;

const BASE: FindingInfo = FindingInfo::BASE;

pub(in crate::finding) const LINES_SKIPPED: FindingInfo = FindingInfo {
    seen: "Lines of the log (`--replay`) were not sent.",
    severities: &[
        (Note, "a tenth of the lines or fewer"),
        (Warning, "more than a tenth of the lines"),
    ],
    meaning: "The load is lighter than the recorded traffic. The finding counts the lines by \
              reason, and names the first ones.",
    action: "Allow other methods with `--replay-methods` if the server may be changed. If lines \
             are in another format, give the server's own format string with `--log-format`.",
    ..BASE
};

figures! {
    /// Lines of a log that were not sent.
    LinesSkipped {
        /// Number of lines that were not sent.
        skipped: u64 = sum,
        /// Number of all lines.
        lines: u64 = sum,
        /// The lines by reason.
        reasons: Vec<SkippedLines> = same,
    }
    |it, _subject| {
        let named = it.reasons.iter().map(|skipped| {
            let first = skipped.first.iter().map(u64::to_string);
            let line = if skipped.lines == 1 { "line" } else { "lines" };
            let more = if skipped.lines > skipped.first.len() as u64 { ", …" } else { "" };
            format!(
                "{} {} ({line} {}{more})",
                number::count(skipped.lines),
                skipped.reason,
                Vec::from_iter(first).join(", ")
            )
        });
        format!(
            "{} of {} lines of the log were not sent: {}.",
            number::count(it.skipped),
            number::count(it.lines),
            Vec::from_iter(named).join("; ")
        )
    }
}

pub(in crate::finding) const LOG_UNREADABLE: FindingInfo = FindingInfo {
    seen: "The rest of the log (`--replay`) could not be read.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The load ended with the last line before the error.",
    action: "Check the file: it may have been cut or changed during the load, or be compressed \
             with a window of more than 8 MiB (`zstd --long`).",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

figures! {
    /// A log that could not be read to its end.
    LogUnreadable {
        /// Number of lines that were read.
        lines: u64 = same,
        /// The error.
        error: String = same,
    }
    |it, _subject| format!(
        "The log could not be read beyond line {} ({}), so the load ended there.",
        number::count(it.lines),
        it.error
    )
}
