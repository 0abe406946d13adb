//! `prony doctor` on a terminal.

use super::Look;
use super::Paint;
use crate::doctor_view::{Doctor, Level, Line, Subject};
use crate::number;

/// The word for a level, and the room that it has.
const WIDTH: usize = 9;

/// Everything that isn't as it should be, and how many other things are fine; with `all`, those too.
#[must_use]
pub fn doctor(doctor: &Doctor, all: bool, look: Look) -> String {
    let paint = Paint::new(look);
    let parts: Vec<String> = doctor
        .subjects
        .iter()
        .map(|subject| one(subject, all, paint))
        .collect();
    parts.join("\n")
}

fn one(subject: &Subject, all: bool, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.bold(&crate::table::plain(&subject.name)));
    for shown in subject.shown(all) {
        out += &line(shown, paint);
    }
    for unknown in &subject.unknown {
        let word = format!("{:<WIDTH$}", "unknown");
        let text = format!("{}: {}", unknown.what, unknown.why);
        out += &paint.paragraph(&paint.dim(&word), WIDTH, &text);
    }
    let fine = subject.fine() as u64;
    if !all && fine > 0 {
        let others = match subject.shown(false).is_empty() && subject.unknown.is_empty() {
            true => number::plural(fine, "thing is fine", "things are fine"),
            false => number::plural(fine, "other thing is fine", "other things are fine"),
        };
        out += &format!("{others} (--all shows them).\n");
    }
    out
}

fn line(line: &Line, paint: Paint) -> String {
    let word = match line.level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let padded = format!("{word:<WIDTH$}");
    let painted = match line.level {
        Level::Ok => paint.green(&padded),
        Level::Note => paint.dim(&padded),
        Level::Warning => paint.yellow(&padded),
        Level::Error => paint.red(&padded),
    };
    let mut out = paint.paragraph(&painted, WIDTH, &format!("{}: {}", line.id, line.seen));
    if line.level == Level::Ok {
        return out;
    }
    let parts = [
        ("expected", &line.expected),
        ("why", &line.why),
        ("change", &line.change),
        ("source", &line.source),
    ];
    for (name, text) in parts {
        let first = format!("{}{}", " ".repeat(WIDTH), paint.dim(&format!("{name:<10}")));
        out += &paint.paragraph(&first, WIDTH + 10, text);
    }
    out
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
    fn the_gravest_comes_first_and_what_is_fine_is_counted() {
        let report = Doctor::read(REPORT).unwrap();
        let text = doctor(&report, false, Look::PLAIN);
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
1 other thing is fine (--all shows them).
";
        assert_eq!(text.replace('\u{fffd}', " "), expected);
        let all = doctor(&report, true, Look::PLAIN);
        assert!(all.contains("ok       open-files: 5 of 9\n"), "{all}");
        assert!(!all.contains("--all"), "{all}");
    }
}
