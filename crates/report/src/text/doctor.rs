//! The results of `prony doctor` on a terminal.

use super::{Paint, TextOptions};
use crate::doctor::{CheckLevel, DoctorDocument, StoredCheck, StoredSubject};
use crate::number;
use crate::tables::profile as profile_tables;
use prony_record::sampling::ServerProfile;

/// Width of the column with a check's level, in characters.
const LEVEL_WIDTH: usize = 9;

/// Formats the checks that did not pass, and the number of checks that did. If `all` is true,
/// formats all checks.
///
/// To avoid repetition, servers with the same results share a heading, checks that differ only in
/// the observed value share an explanation, and an explanation is printed only for the first
/// server.
#[must_use]
pub fn doctor(doctor: &DoctorDocument, all: bool, options: TextOptions) -> String {
    let paint = Paint::new(options);
    let mut groups: Vec<Vec<&StoredSubject>> = Vec::new();
    for subject in &doctor.subjects {
        let is_same = |group: &&mut Vec<&StoredSubject>| {
            (&group[0].lines, &group[0].unknown, &group[0].profile)
                == (&subject.lines, &subject.unknown, &subject.profile)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(subject),
            None => groups.push(vec![subject]),
        }
    }
    let mut explained: Vec<(&StoredCheck, &str)> = Vec::new();
    let parts: Vec<String> = groups
        .iter()
        .map(|group| one(group, all, &mut explained, paint))
        .collect();
    parts.join("\n")
}

fn one<'d>(
    group: &[&'d StoredSubject],
    all: bool,
    explained: &mut Vec<(&'d StoredCheck, &'d str)>,
    paint: Paint,
) -> String {
    let subject = group[0];
    let names = group
        .iter()
        .map(|subject| crate::table::plain(&subject.name));
    let names: Vec<String> = names.collect();
    let mut out = format!("{}\n", paint.bold(&names.join("; ")));
    let mut alike: Vec<Vec<&StoredCheck>> = Vec::new();
    for shown in subject.shown(all) {
        match alike
            .iter_mut()
            .find(|lines| is_explained_alike(lines[0], shown))
        {
            Some(lines) => lines.push(shown),
            None => alike.push(vec![shown]),
        }
    }
    for lines in alike {
        out += &observed_lines(&lines, paint);
        let known = explained
            .iter()
            .find(|(known, _)| is_explained_alike(known, lines[0]));
        match known {
            _ if lines[0].level == CheckLevel::Ok => {}
            Some((_, name)) => {
                let first = " ".repeat(LEVEL_WIDTH);
                out += &paint.paragraph(&first, LEVEL_WIDTH, &format!("as explained for {name}"));
            }
            None => {
                explained.push((lines[0], &subject.name));
                out += &explanation(lines[0], paint);
            }
        }
    }
    for unknown in &subject.unknown {
        let word = format!("{:<LEVEL_WIDTH$}", "unknown");
        let text = format!("{}: {}", unknown.what, unknown.why);
        out += &paint.paragraph(&paint.dim(&word), LEVEL_WIDTH, &text);
    }
    if let Some(profile) = &subject.profile {
        out += &functions(profile, all, paint);
    }
    let fine = subject.fine() as u64;
    if !all && fine > 0 {
        let others = if subject.shown(false).is_empty() && subject.unknown.is_empty() {
            number::plural(fine, "check passed", "checks passed")
        } else {
            number::plural(fine, "other check passed", "other checks passed")
        };
        out += &format!("{others} (--all shows them).\n");
    }
    out
}

/// The functions that use the CPU time.
fn functions(profile: &ServerProfile, all: bool, paint: Paint) -> String {
    /// Number of functions to show, unless all are shown.
    const FUNCTIONS_MAX: usize = 15;

    let samples = number::plural(profile.samples, "sample", "samples");
    let cpu_s = profile.cpu_s.map(number::span);
    let cpu = cpu_s.map_or_else(String::new, |cpu_s| format!("{cpu_s} of CPU time, "));
    let span = number::span(profile.seconds);
    let first = paint.dim(&format!("{:<LEVEL_WIDTH$}", "profile"));
    let text = format!("{cpu}{samples} in {span}");
    let mut out = paint.paragraph(&first, LEVEL_WIDTH, &text);
    let indent = " ".repeat(LEVEL_WIDTH);
    for note in &profile.notes {
        out += &paint.paragraph(&indent, LEVEL_WIDTH, note);
    }
    if profile.functions.is_empty() {
        return out;
    }
    let shown = if all { usize::MAX } else { FUNCTIONS_MAX };
    let table = profile_tables::functions(profile, None, shown);
    out += &table.to_text(&indent);
    let hidden = profile.functions.len().saturating_sub(shown);
    if hidden > 0 {
        let more = number::plural(hidden as u64, "other function", "other functions");
        out += &format!(
            "{indent}{}\n",
            paint.dim(&format!("{more} (--all shows more)"))
        );
    }
    let table = profile_tables::waits(profile, None, shown);
    if !table.is_empty() {
        out += &table.to_text(&indent);
    }
    out
}

/// Returns true if two checks differ only in the observed value, so one explanation is enough.
fn is_explained_alike(a: &StoredCheck, b: &StoredCheck) -> bool {
    let parts = |line: &StoredCheck| {
        let texts = [
            &line.id,
            &line.expected,
            &line.why,
            &line.change,
            &line.source,
        ];
        (line.level, texts.map(Clone::clone))
    };
    parts(a) == parts(b)
}

/// The observed values, one line each.
fn observed_lines(lines: &[&StoredCheck], paint: Paint) -> String {
    let level = lines[0].level;
    let word = match level {
        CheckLevel::Ok => "ok",
        CheckLevel::Note => "note",
        CheckLevel::Warning => "warning",
        CheckLevel::Error => "error",
    };
    let padded = format!("{word:<LEVEL_WIDTH$}");
    let painted = match level {
        CheckLevel::Ok => paint.green(&padded),
        CheckLevel::Note => paint.dim(&padded),
        CheckLevel::Warning => paint.yellow(&padded),
        CheckLevel::Error => paint.red(&padded),
    };
    let first = std::iter::once(painted).chain(std::iter::repeat(" ".repeat(LEVEL_WIDTH)));
    let each = lines.iter().zip(first);
    each.map(|(line, first)| {
        paint.paragraph(&first, LEVEL_WIDTH, &format!("{}: {}", line.id, line.seen))
    })
    .collect()
}

fn explanation(line: &StoredCheck, paint: Paint) -> String {
    let parts = [
        ("expected", &line.expected),
        ("why", &line.why),
        ("change", &line.change),
        ("source", &line.source),
    ];
    let each = parts.into_iter().map(|(name, text)| {
        let first = format!(
            "{}{}",
            " ".repeat(LEVEL_WIDTH),
            paint.dim(&format!("{name:<10}"))
        );
        paint.paragraph(&first, LEVEL_WIDTH + 10, text)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"schema": "prony.doctor/1", "version": "0.1.0", "subjects": [
        {"kind": "server", "name": "nginx, process 7", "pid": 7, "crypto": null,
         "lines": [
            {"id": "listen-backlog", "level": "note", "seen": "127.0.0.1:80: 511", "expected": "1,024",
             "why": "w", "change": "c", "source": "listen(2)"},
            {"id": "open-files", "level": "ok", "seen": "5 of 9", "expected": "e", "why": "w",
             "change": "c", "source": "s"},
            {"id": "crypto-unaccelerated", "level": "error", "seen": "slow\u001b[2J", "expected": "fast",
             "why": "w", "change": "c", "source": "s"}],
         "unknown": [{"what": "clock", "why": "hidden"}]}]}"#;

    #[test]
    fn the_most_severe_comes_first_and_fine_checks_are_counted() {
        let report = DoctorDocument::read(REPORT).unwrap();
        let text = doctor(&report, false, TextOptions::PLAIN);
        let expected = "\
nginx, process 7
error    crypto-unaccelerated: slow [2J
         expected  fast
         why       w
         change    c
         source    s
note     listen-backlog: 127.0.0.1:80: 511
         expected  1,024
         why       w
         change    c
         source    listen(2)
unknown  clock: hidden
1 other check passed (--all shows them).
";
        assert_eq!(text.replace('\u{fffd}', " "), expected);
        let all = doctor(&report, true, TextOptions::PLAIN);
        assert!(all.contains("ok       open-files: 5 of 9\n"), "{all}");
        assert!(!all.contains("--all"), "{all}");
    }

    #[test]
    fn equal_explanations_appear_once() {
        let line = |seen: &str| {
            format!(
                r#"{{"id": "listen-backlog", "level": "note", "seen": "{seen}", "expected": "1,024",
                "why": "w", "change": "c", "source": "s"}}"#
            )
        };
        let subject = |name: &str, lines: &[String]| {
            format!(
                r#"{{"kind": "server", "name": "{name}", "pid": 7, "crypto": null, "lines": [{}],
                "unknown": []}}"#,
                lines.join(", ")
            )
        };
        let twice = [line(":80: 511"), line(":81: 511")];
        let subjects = [
            subject("nginx, process 7", &twice),
            subject("nginx, process 8", &twice),
            subject("haproxy, process 9", &twice[..1]),
        ];
        let report = format!(
            r#"{{"schema": "prony.doctor/1", "version": "0.1.0", "subjects": [{}]}}"#,
            subjects.join(", ")
        );
        let text = doctor(
            &DoctorDocument::read(&report).unwrap(),
            false,
            TextOptions::PLAIN,
        );
        let expected = "\
nginx, process 7; nginx, process 8
note     listen-backlog: :80: 511
         listen-backlog: :81: 511
         expected  1,024
         why       w
         change    c
         source    s

haproxy, process 9
note     listen-backlog: :80: 511
         as explained for nginx, process 7
";
        assert_eq!(text, expected);
    }
}
