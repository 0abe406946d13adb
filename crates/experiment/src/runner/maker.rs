//! Who makes a trial's load: this process, or agents on other machines.

use std::sync::Arc;
use std::time::Instant;

use prony_load::{Control, LoadSpec};
use prony_record::Record;

/// A load that other machines are asked to make.
pub struct AskedLoad<'a> {
    /// How many agents, or which: a name, or a label.
    pub agents: &'a str,
    /// The URL, as `prony load` takes it.
    pub url: &'a str,
    /// Its options, as they are typed, the seed among them.
    pub words: &'a [String],
    /// The same load, resolved here.
    pub spec: &'a LoadSpec,
    /// Stops it, once that was asked of it.
    pub control: &'a Arc<Control>,
    /// Hears, once, when the measured part begins.
    pub measured_from: &'a (dyn Fn(Instant) + Sync),
}

/// Machines that can make a load.
pub trait LoadMaker: Send {
    /// Makes the load and waits until it is over.
    ///
    /// # Errors
    /// Why there is no record, in words that name who is at fault.
    fn make(&mut self, asked: &AskedLoad<'_>) -> Result<Record, String>;
}
