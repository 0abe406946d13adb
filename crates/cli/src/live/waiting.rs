//! Waits for events on the view's thread: the end of the work, a key, a signal that concerns the
//! terminal, or the time of the next frame.

use std::io::{self, IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGQUIT, SIGTSTP};
use signal_hook::{SigId, flag, low_level};

const ESCAPE: u8 = 0x1b;

/// Event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViewEvent {
    /// The work has ended.
    Over,
    /// The wait timed out.
    Nothing,
    /// The stop key was pressed.
    Quit,
    /// A signal arrived.
    Signal(TerminalSignal),
}

/// A signal that requires restoring the terminal first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalSignal {
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-\.
    Quit,
}

impl TerminalSignal {
    const ALL: [TerminalSignal; 2] = [TerminalSignal::Suspend, TerminalSignal::Quit];

    fn number(self) -> i32 {
        match self {
            TerminalSignal::Suspend => SIGTSTP,
            TerminalSignal::Quit => SIGQUIT,
        }
    }

    /// Performs the signal's default action.
    pub(super) fn act(self) {
        // The call can't fail for SIGTSTP and SIGQUIT.
        let _ = low_level::emulate_default_handler(self.number());
    }
}

/// The sources of events. A process has at most one live view.
#[derive(Debug)]
pub(super) struct EventSource {
    over: UnixStream,
    /// Standard input, if it is a terminal that hasn't been closed.
    keys: Option<io::Stdin>,
    signals: Vec<(TerminalSignal, UnixStream)>,
    pipes: Vec<SigId>,
    /// True if the view is closed, so that signals have their default action.
    is_down: Arc<AtomicBool>,
}

impl EventSource {
    pub(super) fn new(over: UnixStream) -> io::Result<EventSource> {
        let stdin = io::stdin();
        Ok(EventSource {
            over,
            keys: stdin.is_terminal().then_some(stdin),
            signals: Vec::new(),
            pipes: Vec::new(),
            is_down: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Returns true if standard input is a terminal.
    pub(super) fn reads_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn is_over_within(&self, time: Duration) -> bool {
        let mut over = [PollFd::new(&self.over, PollFlags::IN)];
        matches!(poll(&mut over, Some(&timespec(time))), Ok(ready) if ready > 0)
    }

    /// Installs handlers that deliver terminal-related signals to the view.
    pub(super) fn catch_signals(&mut self) {
        for signal in TerminalSignal::ALL {
            let number = signal.number();
            let caught = UnixStream::pair().and_then(|(mine, theirs)| {
                mine.set_nonblocking(true)?;
                // After the view is closed, the signal has its default action.
                flag::register_conditional_default(number, self.is_down.clone())?;
                Ok((mine, low_level::pipe::register(number, theirs)?))
            });
            if let Ok((mine, pipe)) = caught {
                self.signals.push((signal, mine));
                self.pipes.push(pipe);
            }
        }
    }

    /// Restores the default actions of signals.
    pub(super) fn release_signals(&mut self) {
        self.is_down.store(true, Ordering::SeqCst);
        for pipe in self.pipes.drain(..) {
            low_level::unregister(pipe);
        }
    }

    /// Waits for an event, or until `moment`. Keys are read only while the view controls the
    /// terminal; otherwise, a read would wait for the end of a line or stop the process.
    pub(super) fn wait_until(&mut self, moment: Instant, has_keys: bool) -> ViewEvent {
        let left = moment.saturating_duration_since(Instant::now());
        let mut all = vec![PollFd::new(&self.over, PollFlags::IN)];
        all.extend(
            self.signals
                .iter()
                .map(|(_, it)| PollFd::new(it, PollFlags::IN)),
        );
        all.extend(
            self.keys
                .iter()
                .filter(|_| has_keys)
                .map(|keys| PollFd::new(keys, PollFlags::IN)),
        );
        let is_ready: Vec<PollFlags> = match poll(&mut all, Some(&timespec(left))) {
            Ok(_) => all.iter().map(PollFd::revents).collect(),
            // A signal with another handler interrupted the wait.
            Err(_) => Vec::new(),
        };
        drop(all);
        let ready = |place: usize| is_ready.get(place).copied().unwrap_or(PollFlags::empty());
        if !ready(0).is_empty() {
            return ViewEvent::Over;
        }
        for (place, (signal, pipe)) in (1..).zip(&mut self.signals) {
            if !ready(place).is_empty() && pipe.read(&mut [0; 64]).is_ok() {
                return ViewEvent::Signal(*signal);
            }
        }
        let keys = ready(1 + self.signals.len());
        let happened = if keys.contains(PollFlags::IN) {
            self.key()
        } else {
            ViewEvent::Nothing
        };
        if keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            // The terminal has been closed.
            self.keys = None;
        }
        happened
    }

    /// Looks for q among the typed keys. Keys that send several bytes start with an escape
    /// character, and are ignored.
    fn key(&mut self) -> ViewEvent {
        let Some(keys) = &self.keys else {
            return ViewEvent::Nothing;
        };
        let mut text = [0; 64];
        match rustix::io::read(keys, &mut text) {
            Ok(read) => {
                let mut plain = text[..read].iter().take_while(|&&byte| byte != ESCAPE);
                if plain.any(|byte| b"qQ".contains(byte)) {
                    ViewEvent::Quit
                } else {
                    ViewEvent::Nothing
                }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => ViewEvent::Nothing,
            Err(_) => {
                self.keys = None;
                ViewEvent::Nothing
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
