//! Writes to standard output and standard error. A closed stream or pipe never causes a panic.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use prony_report::text::TextOptions;
use rustix::termios;

/// Set when printing a result has failed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Returns true if printing a result failed for any reason other than a closed pipe.
pub(crate) fn lost_output() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a result to standard output.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            LOST.store(true, Ordering::Relaxed);
            print_message(&format!("prony: standard output: {error}"));
        }
        _ => {}
    }
}

/// Prints a line to standard error.
pub(crate) fn print_message(line: &str) {
    let columns = match io::stderr().is_terminal() {
        true => termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col.into()),
        false => 0,
    };
    let text = wrapped(&sanitized(line), columns);
    // An error on standard error can't be reported anywhere else.
    let _ = writeln!(io::stderr().lock(), "{text}");
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
    let each = lines.split('\n').map(prony_report::table::plain);
    each.collect::<Vec<_>>().join("\n")
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
    fn control_characters_are_replaced() {
        let text = sanitized("agent a: \x1b[2J\u{202e}gone\r\n  and more\n");
        assert_eq!(
            text,
            "agent a: \u{fffd}[2J\u{fffd}gone\u{fffd}\n  and more\n"
        );
    }
}
