//! Sets up the terminal for the view, and restores it afterwards.
//!
//! Keys are read one at a time without echo. Ctrl-C, Ctrl-Z and Ctrl-\ still send signals, so that
//! a hanging process can be stopped.

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

/// Terminal size (columns, rows) if the terminal reports none.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Maximum area that is drawn. Each cell takes dozens of bytes in each of two buffers. Larger
/// terminals have a blank margin.
const COLUMNS_MAX: u16 = 500;
const ROWS_MAX: u16 = 200;

/// Terminal modes from before the view changed them; `None` while the view doesn't control the
/// terminal.
static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);

#[derive(Debug)]
struct SavedTerminal {
    modes: Termios,
    reads_keys: bool,
}

/// The terminal of standard error.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    reads_keys: bool,
}

impl Screen {
    /// Creates a screen without changing the terminal.
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

    /// Draws a frame, unless another process controls the terminal.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !is_foreground() {
            return Ok(());
        }
        if saved_terminal().is_none() {
            self.enter()?;
        }
        let size = size();
        if self.terminal.get_frame().area() != size {
            self.terminal.resize(size)?;
        }
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Returns true if the view reads keys from the terminal.
    pub(super) fn has_keys(&self) -> bool {
        self.reads_keys && saved_terminal().is_some()
    }

    fn enter(&mut self) -> io::Result<()> {
        let modes = termios::tcgetattr(io::stderr())?;
        let mut during = modes.clone();
        during.local_modes -= LocalModes::ECHO;
        if self.reads_keys {
            during.local_modes -= LocalModes::ICANON;
            // Reads must never block: on Ctrl-C the terminal discards typed keys, possibly after it
            // reported them as available.
            during.special_codes[SpecialCodeIndex::VMIN] = 0;
            during.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        *saved_terminal() = Some(SavedTerminal {
            modes,
            reads_keys: self.reads_keys,
        });
        termios::tcsetattr(io::stderr(), OptionalActions::Now, &during)?;
        let out = self.terminal.backend_mut();
        execute!(out, EnterAlternateScreen, Hide, Clear(ClearType::All))?;
        // Forces a complete redraw.
        self.terminal.resize(size())
    }

    /// Restores the terminal. Drawing the next frame sets it up again.
    pub(super) fn leave(&mut self) {
        // Write buffered output now, because it belongs to the view's screen.
        let _ = self.terminal.backend_mut().flush();
        restore();
    }
}

/// Restores the terminal if the view has changed it.
pub(crate) fn restore() {
    let Some(before) = saved_terminal().take() else {
        return;
    };
    let _ = execute!(io::stderr(), ResetColor, Show, LeaveAlternateScreen);
    let how = if before.reads_keys {
        // Discard unread keys, which were meant for the view and not for the shell.
        OptionalActions::Flush
    } else {
        OptionalActions::Drain
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

fn saved_terminal() -> MutexGuard<'static, Option<SavedTerminal>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if the process is in the foreground, or on a terminal without job control. A view
/// in the background would draw over the shell, and changing the terminal modes would stop the
/// process.
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

/// Returns the part of the terminal that is drawn.
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
