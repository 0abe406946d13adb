//! Takes the terminal for the view, and restores it.
//!
//! Keys are read one by one without echo. Ctrl-C, Ctrl-Z and Ctrl-\ stay signals, so that a process that
//! hangs can be stopped.

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

/// The assumed size of a terminal that doesn't report one.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// The largest area that is drawn, because each cell takes dozens of bytes, twice. Larger terminals
/// have a blank margin.
const COLUMNS_MAX: u16 = 500;
const ROWS_MAX: u16 = 200;

/// The terminal's state before the view took it; none while the view doesn't have it.
static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);

#[derive(Debug)]
struct SavedTerminal {
    modes: Termios,
    reads_keys: bool,
}

/// Standard error's terminal.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    reads_keys: bool,
}

impl Screen {
    /// A screen that has not changed the terminal yet.
    pub(super) fn new(reads_keys: bool) -> io::Result<Screen> {
        restore_on_panic();
        let out = BufWriter::with_capacity(64 * 1024, io::stderr());
        let viewport = Viewport::Fixed(size());
        let options = TerminalOptions { viewport };
        let terminal = Terminal::with_options(CrosstermBackend::new(out), options)?;
        Ok(Screen {
            terminal,
            reads_keys,
        })
    }

    /// Draws a frame, unless another process has the terminal.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !is_foreground() {
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

    /// Returns true if the view reads the terminal's keys.
    pub(super) fn has_keys(&self) -> bool {
        self.reads_keys && before().is_some()
    }

    fn enter(&mut self) -> io::Result<()> {
        let modes = termios::tcgetattr(io::stderr())?;
        let mut during = modes.clone();
        during.local_modes -= LocalModes::ECHO;
        if self.reads_keys {
            during.local_modes -= LocalModes::ICANON;
            // A read never waits: the terminal drops typed keys at a Ctrl-C, possibly after they were
            // reported as available.
            during.special_codes[SpecialCodeIndex::VMIN] = 0;
            during.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        *before() = Some(SavedTerminal {
            modes,
            reads_keys: self.reads_keys,
        });
        termios::tcsetattr(io::stderr(), OptionalActions::Now, &during)?;
        let out = self.terminal.backend_mut();
        execute!(out, EnterAlternateScreen, Hide, Clear(ClearType::All))?;
        // Forces a complete redraw.
        self.terminal.resize(size())
    }

    /// Restores the terminal. The next frame takes it again.
    pub(super) fn leave(&mut self) {
        // The rest of the buffer belongs to the view's screen.
        let _ = self.terminal.backend_mut().flush();
        restore();
    }
}

/// Restores the terminal if the view has changed it.
pub(crate) fn restore() {
    let Some(before) = before().take() else {
        return;
    };
    let _ = execute!(io::stderr(), ResetColor, Show, LeaveAlternateScreen);
    let how = match before.reads_keys {
        // Unread keys were meant for the view, not for the shell.
        true => OptionalActions::Flush,
        false => OptionalActions::Drain,
    };
    let _ = termios::tcsetattr(io::stderr(), how, &before.modes);
}

fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            usual(what);
        }));
    });
}

fn before() -> MutexGuard<'static, Option<SavedTerminal>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true for a process in the foreground, or on a terminal without job control. In the
/// background, the view
/// would draw over the shell, and a change of the terminal's modes would stop the process.
fn is_foreground() -> bool {
    let foreground = termios::tcgetpgrp(io::stderr());
    foreground.is_ok_and(|group| group == rustix::process::getpgrp()) || foreground.is_err()
}

fn size() -> Rect {
    let (width, height) = match termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => DEFAULT_SIZE,
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
    fn the_drawn_area_is_limited() {
        assert_eq!(drawn(80, 24), Rect::new(0, 0, 80, 24));
        assert_eq!(drawn(4_000, 4_000), Rect::new(0, 0, COLUMNS_MAX, ROWS_MAX));
        assert_eq!(drawn(u16::MAX, 1), Rect::new(0, 0, COLUMNS_MAX, 1));
    }
}
