//! Starting, asking and stopping an origin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::watch;

use crate::accept::{self, Manners};
use crate::alarm::Alarm;
use crate::config::Config;
use crate::connection::{Bench, Counters};
use crate::cpu::Work;
use crate::error::OriginError;
use crate::listen::{self, Listeners, SocketFiles};
use crate::stall::{Brake, Stall};
use crate::tls;

/// Cores that an affinity mask can name.
const MAX_CORE: usize = 1023;

/// A running origin. It serves from its own threads until it is stopped or dropped.
#[derive(Debug)]
pub struct Origin {
    addresses: Vec<SocketAddr>,
    files: SocketFiles,
    certificate_pem: Option<String>,
    counters: Vec<Arc<Counters>>,
    brake: Arc<Brake>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Origin {
    /// Binds everything, starts the threads and returns when all of them accept.
    ///
    /// # Errors
    /// When an address, path, certificate, core or thread can't be had; then nothing is left
    /// behind.
    pub fn start(config: Config) -> Result<Self, OriginError> {
        let cores: Vec<Option<usize>> = if config.cores.is_empty() {
            vec![None; config.threads.max(1)]
        } else {
            config.cores.iter().copied().map(Some).collect()
        };
        let identity = config.tls.as_ref().map(tls::identity).transpose()?;
        let (acceptor, certificate_pem) = identity
            .map(|identity| (identity.acceptor, identity.certificate_pem))
            .unzip();
        let bound = listen::bind(&config, cores.len())?;
        let mut origin = Self {
            addresses: bound.addresses,
            files: bound.files,
            certificate_pem,
            counters: Vec::new(),
            brake: Arc::new(Brake::new(config.stall)),
            stop: watch::Sender::new(false),
            threads: Vec::new(),
        };
        let manners = Manners {
            tls: acceptor,
            fault: config.on_accept,
        };
        let (ready, started) = mpsc::channel();
        for (core, listeners) in cores.into_iter().zip(bound.threads) {
            let counters = Arc::<Counters>::default();
            origin.counters.push(Arc::clone(&counters));
            let thread = Thread {
                core,
                listeners,
                manners: manners.clone(),
                work: config.work,
                brake: Arc::clone(&origin.brake),
                counters,
                stop: origin.stop.subscribe(),
                ready: ready.clone(),
            };
            origin.spawn(thread)?;
        }
        drop(ready);
        // Each thread reports once; an error here drops `origin`, which stops the others.
        started.into_iter().collect::<Result<(), OriginError>>()?;
        Ok(origin)
    }

    fn spawn(&mut self, thread: Thread) -> Result<(), OriginError> {
        let name = format!("origin-{}", self.threads.len());
        let handle = std::thread::Builder::new()
            .name(name)
            .spawn(move || thread.run())
            .map_err(|source| OriginError::Thread { source })?;
        self.threads.push(handle);
        Ok(())
    }

    /// The TCP addresses in the order of the config, with the real port where 0 was asked for.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The UNIX socket paths in the order of the config.
    #[must_use]
    pub fn unix_paths(&self) -> &[PathBuf] {
        &self.files.0
    }

    /// The certificate (chain) that a client must trust, if there is TLS.
    #[must_use]
    pub fn certificate_pem(&self) -> Option<&str> {
        self.certificate_pem.as_deref()
    }

    /// Requests taken up so far: their heads were read, and they were answered or are about to
    /// be, by a response or by a fault. Each stream of HTTP/2 is one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.sum(|counters| &counters.requests)
    }

    /// Connections accepted so far, those with a failed TLS handshake included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.sum(|counters| &counters.connections)
    }

    /// The freeze schedule with its epoch, once it runs (see [`crate::stall`]).
    #[must_use]
    pub fn stall(&self) -> Option<Stall> {
        self.brake.stall()
    }

    /// The moment from which the freeze schedule counts, once it runs.
    #[must_use]
    pub fn stall_epoch(&self) -> Option<std::time::Instant> {
        self.stall().map(|stall| stall.epoch)
    }

    /// Closes every connection and listener, removes the UNIX socket files and returns when all
    /// threads have ended. Dropping does the same.
    pub fn stop(self) {}

    fn sum(&self, counter: fn(&Counters) -> &AtomicU64) -> u64 {
        self.counters
            .iter()
            .map(|counters| counter(counters).load(Ordering::Relaxed))
            .sum()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.brake.release();
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// All that one thread needs.
struct Thread {
    core: Option<usize>,
    listeners: Listeners,
    manners: Manners,
    work: Option<Work>,
    brake: Arc<Brake>,
    counters: Arc<Counters>,
    stop: watch::Receiver<bool>,
    ready: mpsc::Sender<Result<(), OriginError>>,
}

impl Thread {
    /// Reports once whether it started, then serves until it is told to stop.
    fn run(self) {
        let ready = self.ready;
        // Sending fails only when the start has failed elsewhere and the origin is gone.
        let runtime = match prepare(self.core) {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let mut stop = self.stop;
        runtime.block_on(async {
            let started = Alarm::new().and_then(|alarm| {
                let bench = Bench::new(Rc::new(alarm), self.brake, self.counters, self.work);
                accept::start(self.listeners, &self.manners, &Rc::new(bench))
            });
            let failed = started.is_err();
            let _ = ready.send(started.map_err(|source| OriginError::Thread { source }));
            drop(ready);
            if !failed {
                // An error means that the origin is gone, which ends the wait as well.
                let _ = stop.wait_for(|stop| *stop).await;
            }
        });
    }
}

/// Pins this thread and makes its runtime.
fn prepare(core: Option<usize>) -> Result<LocalRuntime, OriginError> {
    if let Some(core) = core {
        pin(core)?;
    }
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|source| OriginError::Thread { source })
}

fn pin(core: usize) -> Result<(), OriginError> {
    let pinned =
        core <= MAX_CORE && core_affinity::set_for_current(core_affinity::CoreId { id: core });
    if pinned {
        Ok(())
    } else {
        Err(OriginError::Core { core })
    }
}
