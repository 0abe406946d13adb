//! Interruption of an experiment from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prony_load::Control;

/// A handle that stops an experiment from another thread. The load ends immediately; everything
/// else ends as soon as it safely can.
#[derive(Debug, Default)]
pub struct Interrupt {
    stopped: AtomicBool,
    loads: Mutex<Vec<Arc<Control>>>,
}

impl Interrupt {
    /// Asks the experiment to end. Complete trials are still evaluated and stored.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.iter().for_each(|control| control.stop());
    }

    /// Returns true if [`Interrupt::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Sets the loads that [`Interrupt::stop`] stops. If `stop` was already called, stops them
    /// immediately.
    pub(crate) fn set_loads(&self, controls: Vec<Arc<Control>>) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        *loads = controls;
        if self.is_stopped() {
            loads.iter().for_each(|control| control.stop());
        }
    }
}
