//! The terminal while the view has it, and as it was before.
//!
//! Keys are read one by one and not echoed, but Ctrl-C, Ctrl-Z and Ctrl-\ stay signals, so that a
//! program that hangs can be ended as ever.

use std::io::{self, BufWriter, Stderr, Write};
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::ResetColor;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

/// What a terminal is taken for that doesn't tell.
const USUAL: (u16, u16) = (80, 24);

/// Columns and rows that are drawn at most: each cell takes some dozens of bytes, twice. Terminals that
/// claim to be larger keep a blank margin.
const COLUMNS_MAX: u16 = 500;
const ROWS_MAX: u16 = 200;

/// How the terminal was before the view had it; nothing while it is so.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

#[derive(Debug)]
struct Before {
    modes: Termios,
    reads_keys: bool,
}

/// Standard error's terminal.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    reads_keys: bool,
}

impl Screen {
    /// Of the terminal nothing is changed yet.
    pub(super) fn new(reads_keys: bool) -> io::Result<Screen> {
        restore_at_a_panic();
        let out = BufWriter::with_capacity(64 * 1024, io::stderr());
        let viewport = Viewport::Fixed(size());
        let options = TerminalOptions { viewport };
        let terminal = Terminal::with_options(CrosstermBackend::new(out), options)?;
        Ok(Screen {
            terminal,
            reads_keys,
        })
    }

    /// Draws a frame, unless the terminal is somebody else's at the moment.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !is_ours() {
            return Ok(());
        }
        if before().is_none() {
            self.enter()?;
        }
        let size = size();
        if self.terminal.get_frame().area() != size {
            self.terminal.resize(size)?;
        }
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Whether the terminal's keys are the view's at the moment.
    pub(super) fn has_keys(&self) -> bool {
        self.reads_keys && before().is_some()
    }

    fn enter(&mut self) -> io::Result<()> {
        let modes = termios::tcgetattr(io::stderr())?;
        let mut during = modes.clone();
        during.local_modes -= LocalModes::ECHO;
        if self.reads_keys {
            during.local_modes -= LocalModes::ICANON;
            // A read never waits: what was typed before a Ctrl-C is dropped by the terminal, and it may
            // be so after it was seen to be there.
            during.special_codes[SpecialCodeIndex::VMIN] = 0;
            during.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        *before() = Some(Before {
            modes,
            reads_keys: self.reads_keys,
        });
        termios::tcsetattr(io::stderr(), OptionalActions::Now, &during)?;
        let out = self.terminal.backend_mut();
        execute!(out, EnterAlternateScreen, Hide, Clear(ClearType::All))?;
        // All has to be drawn anew.
        self.terminal.resize(size())
    }

    /// Gives the terminal back as it was; the next frame takes it again.
    pub(super) fn leave(&mut self) {
        // What is left in the buffer belongs to the view's screen.
        let _ = self.terminal.backend_mut().flush();
        restore();
    }
}

/// Gives the terminal back, if the view has it.
pub(crate) fn restore() {
    let Some(before) = before().take() else {
        return;
    };
    // Where this can't be done, nothing can.
    let _ = execute!(io::stderr(), ResetColor, Show, LeaveAlternateScreen);
    let how = match before.reads_keys {
        // What was typed was meant for the view and not for the shell.
        true => OptionalActions::Flush,
        false => OptionalActions::Drain,
    };
    let _ = termios::tcsetattr(io::stderr(), how, &before.modes);
}

fn restore_at_a_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            usual(what);
        }));
    });
}

fn before() -> MutexGuard<'static, Option<Before>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this program is in the foreground: in the background it would draw over the shell, and be
/// stopped at its first change of the terminal's modes. Where there are no jobs, it is ours.
fn is_ours() -> bool {
    let foreground = termios::tcgetpgrp(io::stderr());
    foreground.is_ok_and(|group| group == rustix::process::getpgrp()) || foreground.is_err()
}

fn size() -> Rect {
    let (width, height) = match termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => USUAL,
    };
    drawn(width, height)
}

/// The part of a terminal of this size that is drawn on.
fn drawn(width: u16, height: u16) -> Rect {
    Rect::new(0, 0, width.min(COLUMNS_MAX), height.min(ROWS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_does_not_grow_with_the_terminal() {
        assert_eq!(drawn(80, 24), Rect::new(0, 0, 80, 24));
        assert_eq!(drawn(4_000, 4_000), Rect::new(0, 0, COLUMNS_MAX, ROWS_MAX));
        assert_eq!(drawn(u16::MAX, 1), Rect::new(0, 0, COLUMNS_MAX, 1));
    }
}
