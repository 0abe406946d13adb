//! The live view of a load, an experiment or a capacity search, drawn on the terminal while it
//! runs.
//!
//! The view uses the terminal's alternate screen, so it needs no information from the terminal,
//! such as the position of the cursor. The terminal can be resized while the view is open. When the
//! view ends, the shell's earlier output is unchanged, and the results follow it. The view is drawn
//! to standard error; standard output carries only results.
//!
//! A [`LiveView`] runs on a separate thread. Four times per second, it reads the current data and
//! draws it.

mod agents;
pub(crate) mod bracket;
pub(crate) mod capacity;
mod capacity_page;
mod capacity_state;
mod entries;
pub(crate) mod experiment;
mod experiment_page;
pub(crate) mod experiment_state;
pub(crate) mod follower;
mod load_page;
mod log_scale;
mod panels;
pub(crate) mod rounds;
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
use self::waiting::{EventSource, ViewEvent};
use crate::progress::{Progress, ProgressMode};
pub(crate) use screen::restore as restore_terminal;
pub(crate) use theme::Theme;

/// Delay before the view starts, so that a short command shows none.
const START_DELAY: Duration = Duration::from_millis(500);
/// Interval between frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);

/// A live view of running work.
pub(crate) trait LiveView {
    /// Reads the current data.
    fn refresh(&mut self, now: Instant);
    /// Draws the data that was last read.
    fn draw(&self, frame: &mut Frame<'_>, context: &ViewContext<'_>);
}

/// Data that all live views use.
#[derive(Debug)]
pub(crate) struct ViewContext<'a> {
    pub(crate) theme: Theme,
    /// Messages printed since the view started, the newest last.
    pub(crate) messages: &'a [String],
    /// Help text for the keys that stop the work.
    pub(crate) keys: &'static str,
}

/// Runs `work`, and shows the live view at the same time if progress is shown as a view. The key
/// `q` calls `stop`.
pub(crate) fn with_view<T>(
    progress: &Progress,
    view: &mut (dyn LiveView + Send),
    stop: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let pair = match progress.mode() {
        ProgressMode::View => UnixStream::pair().ok(),
        ProgressMode::Lines | ProgressMode::Nothing => None,
    };
    let Some((over, running)) = pair else {
        return work();
    };
    thread::scope(|scope| {
        let watch = move || show_until_over(progress, view, stop, over);
        // If the thread can't be started, the work continues without a view.
        let viewer = thread::Builder::new()
            .name("live".to_owned())
            .spawn_scoped(scope, watch);
        let done = work();
        drop(running);
        // A panic in the view has already been printed and doesn't affect the results.
        if viewer.is_ok_and(|viewer| viewer.join().is_err()) {
            progress.release();
        }
        done
    })
}

/// Shows the view until the other end of the socket `over` is closed.
fn show_until_over(
    progress: &Progress,
    view: &mut dyn LiveView,
    stop: &dyn Fn(),
    over: UnixStream,
) {
    let Ok(mut events) = EventSource::new(over) else {
        return;
    };
    if events.is_over_within(START_DELAY) {
        return;
    }
    let Ok(mut screen) = Screen::new(events.reads_keys()) else {
        return;
    };
    events.catch_signals();
    progress.hold();
    let keys = if events.reads_keys() {
        "q or Ctrl-C: stop, and print the results so far"
    } else {
        "Ctrl-C: stop, and print the results so far"
    };
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due {
            view.refresh(now);
            let messages = progress.messages();
            let context = ViewContext {
                theme: Theme::of_environment(),
                messages: &messages,
                keys,
            };
            if screen.draw(|frame| view.draw(frame, &context)).is_err() {
                break;
            }
            due = now + FRAME_INTERVAL;
        }
        match events.wait_until(due, screen.has_keys()) {
            ViewEvent::Over => break,
            ViewEvent::Nothing => {}
            ViewEvent::Quit => stop(),
            ViewEvent::Signal(signal) => {
                screen.leave();
                signal.act();
                due = Instant::now();
            }
        }
    }
    screen.leave();
    events.release_signals();
    progress.release();
}
