//! Writes to standard output and standard error. A closed stream or pipe never causes a panic.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use prony_report::text::TextOptions;

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
    // An error on standard error can't be reported anywhere else.
    let _ = writeln!(io::stderr().lock(), "{}", sanitized(line));
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
    fn control_characters_are_replaced() {
        let text = sanitized("agent a: \x1b[2J\u{202e}gone\r\n  and more\n");
        assert_eq!(
            text,
            "agent a: \u{fffd}[2J\u{fffd}gone\u{fffd}\n  and more\n"
        );
    }
}
