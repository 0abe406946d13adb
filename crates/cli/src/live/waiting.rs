//! What the view's thread waits for: the end, a key, a signal that concerns the terminal, or the time
//! for the next frame.

use std::io::{self, IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGQUIT, SIGTSTP};
use signal_hook::{SigId, flag, low_level};

const ESCAPE: u8 = 0x1b;

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// What was watched is over.
    Over,
    /// The time is up.
    Nothing,
    /// The key that ends it.
    Quit,
    /// A signal.
    Signal(Signal),
}

/// A signal before which the terminal has to be as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-\.
    Quit,
}

impl Signal {
    const ALL: [Signal; 2] = [Signal::Suspend, Signal::Quit];

    fn number(self) -> i32 {
        match self {
            Signal::Suspend => SIGTSTP,
            Signal::Quit => SIGQUIT,
        }
    }

    /// Does what it would have done by itself.
    pub(super) fn act(self) {
        // It fails for no signal of these.
        let _ = low_level::emulate_default_handler(self.number());
    }
}

/// The ends of what the view's thread waits for. There is one view in a program's life.
#[derive(Debug)]
pub(super) struct Waiting {
    over: UnixStream,
    /// None where standard input is no terminal.
    keys: Option<io::Stdin>,
    signals: Vec<(Signal, UnixStream)>,
    pipes: Vec<SigId>,
    /// Signals find no view, and do at once what they do by themselves.
    is_down: Arc<AtomicBool>,
}

impl Waiting {
    pub(super) fn new(over: UnixStream) -> io::Result<Waiting> {
        let stdin = io::stdin();
        Ok(Waiting {
            over,
            keys: stdin.is_terminal().then_some(stdin),
            signals: Vec::new(),
            pipes: Vec::new(),
            is_down: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Whether standard input is a terminal.
    pub(super) fn reads_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn is_over_within(&self, time: Duration) -> bool {
        let mut over = [PollFd::new(&self.over, PollFlags::IN)];
        matches!(poll(&mut over, Some(&timespec(time))), Ok(ready) if ready > 0)
    }

    /// From now on signals that concern the terminal wait for the view.
    pub(super) fn catch_signals(&mut self) {
        for signal in Signal::ALL {
            let number = signal.number();
            let caught = UnixStream::pair().and_then(|(mine, theirs)| {
                mine.set_nonblocking(true)?;
                // Once the view is gone the signal does what it did before.
                flag::register_conditional_default(number, self.is_down.clone())?;
                Ok((mine, low_level::pipe::register(number, theirs)?))
            });
            if let Ok((mine, pipe)) = caught {
                self.signals.push((signal, mine));
                self.pipes.push(pipe);
            }
        }
    }

    /// The view is gone.
    pub(super) fn release_signals(&mut self) {
        self.is_down.store(true, Ordering::SeqCst);
        for pipe in self.pipes.drain(..) {
            low_level::unregister(pipe);
        }
    }

    /// Waits until something happens, or for `moment`. Keys are looked at where they are the view's:
    /// a read of another's would wait for the end of a line, or stop the program.
    pub(super) fn until(&mut self, moment: Instant, has_keys: bool) -> Happened {
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
            // A signal that somebody else handles.
            Err(_) => Vec::new(),
        };
        drop(all);
        let ready = |place: usize| is_ready.get(place).copied().unwrap_or(PollFlags::empty());
        if !ready(0).is_empty() {
            return Happened::Over;
        }
        for (place, (signal, pipe)) in (1..).zip(&mut self.signals) {
            if !ready(place).is_empty() && pipe.read(&mut [0; 64]).is_ok() {
                return Happened::Signal(*signal);
            }
        }
        let keys = ready(1 + self.signals.len());
        let happened = match keys.contains(PollFlags::IN) {
            true => self.key(),
            false => Happened::Nothing,
        };
        if keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            // Nobody types there any more.
            self.keys = None;
        }
        happened
    }

    /// Looks for q in what was typed. Keys that send several bytes begin with an escape.
    fn key(&mut self) -> Happened {
        let Some(keys) = &self.keys else {
            return Happened::Nothing;
        };
        let mut typed = [0; 64];
        match rustix::io::read(keys, &mut typed) {
            Ok(read) => {
                let mut plain = typed[..read].iter().take_while(|&&byte| byte != ESCAPE);
                match plain.any(|byte| b"qQ".contains(byte)) {
                    true => Happened::Quit,
                    false => Happened::Nothing,
                }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Happened::Nothing,
            Err(_) => {
                self.keys = None;
                Happened::Nothing
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
