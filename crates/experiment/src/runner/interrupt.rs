//! Stopping an experiment from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prony_load::Control;

/// Stops an experiment from another thread: the load at once, the rest as soon as it is safe.
#[derive(Debug, Default)]
pub struct Interrupt {
    stopped: AtomicBool,
    load: Mutex<Option<Arc<Control>>>,
}

impl Interrupt {
    /// Asks the experiment to end. Complete trials are still evaluated and stored.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = &*load {
            control.stop();
        }
    }

    /// Returns true after [`Interrupt::stop`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Sets the load that [`Interrupt::stop`] stops, and stops it at once if `stop` was called before.
    pub(crate) fn set_load(&self, control: Option<Arc<Control>>) {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        *load = control;
        if let (true, Some(control)) = (self.is_stopped(), &*load) {
            control.stop();
        }
    }
}
