//! Writes to standard output and standard error. A closed stream or pipe never causes a panic.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use prony_report::Document;
use prony_report::text::{self, TextOptions};
use rustix::termios;

/// Set when a result could not be printed or stored.
static LOST: AtomicBool = AtomicBool::new(false);

/// Returns true if a result was lost: it could not be stored, or printing it failed for any reason
/// other than a closed pipe.
pub(crate) fn lost_output() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Records that a result could not be stored.
pub(crate) fn note_lost_output() {
    LOST.store(true, Ordering::Relaxed);
}

/// Prints text for people to standard output.
pub(crate) fn print(text: &str) {
    print_data(&without_workflow_commands(text));
}

/// Prints a report to standard output.
pub(crate) fn print_document(report: &Document) {
    print(&text::render(report, text_options(true)));
}

/// Prints data, such as JSON, to standard output without changing it.
pub(crate) fn print_data(text: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note_lost_output();
            print_message(format_args!("standard output: {error}"));
        }
        _ => {}
    }
}

/// Prints a message to standard error.
pub(crate) fn print_message(text: impl fmt::Display) {
    print_line(&format!("prony: {text}"));
}

/// Prints a line to standard error.
pub(crate) fn print_line(line: &str) {
    let columns = if io::stderr().is_terminal() {
        termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col.into())
    } else {
        0
    };
    let text = wrapped(&sanitized(line), columns);
    // An error on standard error can't be reported anywhere else.
    let _ = writeln!(io::stderr().lock(), "{}", without_workflow_commands(&text));
}

/// Prints a command for GitHub Actions, such as an annotation, to standard error.
pub(crate) fn print_workflow_command(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", sanitized(line));
}

/// Breaks lines that are longer than a terminal's width between words, because terminals break
/// words. A width of zero is unknown.
fn wrapped(lines: &str, columns: usize) -> String {
    let mut all: Vec<String> = Vec::new();
    for line in lines.split('\n') {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        if line.chars().count() <= columns || columns < indent + WIDTH_MIN {
            all.push(line.to_owned());
            continue;
        }
        let rows = prony_report::table::lines_of(text, columns - indent);
        all.extend(rows.iter().map(|row| " ".repeat(indent) + row));
    }
    all.join("\n")
}

/// Replaces control characters. Parts of the text come from servers and other machines, and could
/// otherwise control the terminal.
fn sanitized(lines: &str) -> String {
    prony_report::table::plain_lines(lines)
}

/// Changes lines that GitHub Actions would execute as commands. Only a program that runs there has
/// such a reader.
fn without_workflow_commands(text: &str) -> Cow<'_, str> {
    match std::env::var_os("GITHUB_ACTIONS") {
        Some(_) => Cow::Owned(disarmed(text)),
        None => Cow::Borrowed(text),
    }
}

/// Changes the markers of commands: `::` at the start of a line, and `##[` anywhere.
fn disarmed(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        match words.strip_prefix("::") {
            Some(rest) => format!("{indent}:\u{fffd}{rest}"),
            None => line.to_owned(),
        }
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n").replace("##[", "##\u{fffd}[")
}

/// Returns the layout for text. If the text is printed, the layout depends on the terminal.
pub(crate) fn text_options(is_printed: bool) -> TextOptions {
    let mut options = TextOptions {
        color: is_printed && colors(),
        ..TextOptions::PLAIN
    };
    if is_printed
        && io::stdout().is_terminal()
        && let Ok((columns, _)) = ratatui::crossterm::terminal::size()
    {
        options.histogram = true;
        options.width = options.width.min(usize::from(columns).max(WIDTH_MIN));
    }
    options
}

/// Minimum width in columns. On a narrower terminal, lines wrap.
const WIDTH_MIN: usize = 40;

/// Returns true if results are colored: standard output is a terminal and NO_COLOR is not set
/// (no-color.org).
fn colors() -> bool {
    io::stdout().is_terminal() && !refuses_colors() && !is_dumb()
}

/// Returns true if NO_COLOR is set (no-color.org).
pub(crate) fn refuses_colors() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns true if standard error is a terminal that supports drawing.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_messages_are_not_broken() {
        let text = "prony: ".to_owned() + &"word ".repeat(20) + "end\n  " + &"item ".repeat(12);
        let wrapped_text = wrapped(&text, 60);
        assert!(wrapped_text.lines().all(|line| line.chars().count() <= 60));
        let mut items = wrapped_text.lines().filter(|line| line.contains("item"));
        assert!(items.all(|line| line.starts_with("  item")));
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&wrapped_text), words(&text));
        assert_eq!(wrapped(&text, 0), text);
    }

    #[test]
    fn commands_of_github_actions_are_changed() {
        let text = disarmed("a::b\n::error::x\n  ::set-env name=a::b\nx ##[error]y\n");
        assert_eq!(
            text,
            "a::b\n:\u{fffd}error::x\n  :\u{fffd}set-env name=a::b\nx ##\u{fffd}[error]y\n"
        );
    }

    #[test]
    fn control_characters_are_replaced() {
        let text = sanitized("agent a: \x1b[2J\u{202e}gone\r\n  and more\n");
        assert_eq!(
            text,
            "agent a: \u{fffd}[2J\u{fffd}gone\u{fffd}\n  and more\n"
        );
    }
}
