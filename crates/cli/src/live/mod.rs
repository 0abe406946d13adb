//! The live view: what goes on, drawn on the terminal while it goes on.
//!
//! It has the alternate screen and not a part of the shell's: so it needs to ask the terminal for
//! nothing (where the cursor is, say, which could only be read from a standard input that is a
//! terminal), may be resized at will, and leaves the shell's lines as they were, with the results below
//! them. It is drawn to standard error; standard output carries results only.
//!
//! A [`Picture`] looks at what others have laid down and draws it, four times a second, on a thread of
//! its own that is none of the load's.

mod agents;
pub(crate) mod experiment;
mod experiment_page;
pub(crate) mod follower;
mod load_page;
mod panels;
mod screen;
#[cfg(test)]
mod tests;
mod theme;
mod waiting;

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Frame;

use self::screen::Screen;
use self::waiting::{Happened, Waiting};
use crate::progress::{Progress, Show};
pub(crate) use screen::restore as restore_terminal;
pub(crate) use theme::Theme;

/// What is over sooner isn't worth a screen.
const QUIET: Duration = Duration::from_millis(500);
/// From one frame to the next.
const FRAME: Duration = Duration::from_millis(250);

/// Something that can be watched.
pub(crate) trait Picture {
    /// Looks at what there is at this moment.
    fn refresh(&mut self, now: Instant);
    /// Draws what it saw last.
    fn draw(&self, frame: &mut Frame<'_>, around: &Around<'_>);
}

/// What every picture is drawn with.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) theme: Theme,
    /// What has been said since the view began, the newest last.
    pub(crate) said: &'a [String],
    /// How to end, in a few words.
    pub(crate) keys: &'static str,
}

/// Does the work with the picture beside it, where progress is shown so. `stop` is what `q` does.
pub(crate) fn beside<T>(
    progress: &Progress,
    picture: &mut (dyn Picture + Send),
    stop: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let pair = match progress.show() {
        Show::View => UnixStream::pair().ok(),
        Show::Lines | Show::Nothing => None,
    };
    let Some((over, running)) = pair else {
        return work();
    };
    thread::scope(|scope| {
        let view = move || watch(progress, picture, stop, over);
        // Without a thread there is no view, and the work goes on.
        let view = thread::Builder::new()
            .name("live".to_owned())
            .spawn_scoped(scope, view);
        let done = work();
        drop(running);
        // A view that panicked has said so, and takes no results with it.
        if view.is_ok_and(|view| view.join().is_err()) {
            progress.release();
        }
        done
    })
}

/// Shows the picture until the other end of `over` is gone.
fn watch(progress: &Progress, picture: &mut dyn Picture, stop: &dyn Fn(), over: UnixStream) {
    let Ok(mut waiting) = Waiting::new(over) else {
        return;
    };
    if waiting.is_over_within(QUIET) {
        return;
    }
    let Ok(mut screen) = Screen::new(waiting.reads_keys()) else {
        return;
    };
    waiting.catch_signals();
    progress.hold();
    let keys = match waiting.reads_keys() {
        true => "q or Ctrl-C: stop, and print what there is",
        false => "Ctrl-C: stop, and print what there is",
    };
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due {
            picture.refresh(now);
            let said = progress.said();
            let around = Around {
                theme: Theme::of_environment(),
                said: &said,
                keys,
            };
            if screen.draw(|frame| picture.draw(frame, &around)).is_err() {
                break;
            }
            due = now + FRAME;
        }
        match waiting.until(due, screen.has_keys()) {
            Happened::Over => break,
            Happened::Nothing => {}
            Happened::Quit => stop(),
            Happened::Signal(signal) => {
                screen.leave();
                signal.act();
                due = Instant::now();
            }
        }
    }
    screen.leave();
    waiting.release_signals();
    progress.release();
}
