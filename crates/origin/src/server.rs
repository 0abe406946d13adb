//! Starts, queries and stops an origin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::watch;

use crate::accept::{self, ConnectionPolicy};
use crate::alarm::Alarm;
use crate::config::{Config, Tls};
use crate::connection::{Counters, ThreadContext};
use crate::cpu::Work;
use crate::error::OriginError;
use crate::http3;
use crate::listen::{self, Listeners, SocketFiles};
use crate::service_queue::ServiceQueue;
use crate::stall::{FreezeGate, Stall};
use crate::tls;

/// A running origin. It serves requests from its own threads until it is stopped or dropped.
#[derive(Debug)]
pub struct Origin {
    addresses: Vec<SocketAddr>,
    quic_addresses: Vec<SocketAddr>,
    files: SocketFiles,
    certificate_pem: Option<String>,
    counters: Vec<Arc<Counters>>,
    freeze_gate: Arc<FreezeGate>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Origin {
    /// Binds all listeners and starts the threads. Returns when all threads accept connections.
    ///
    /// # Errors
    /// Returns an error if an address, path, certificate, core or thread isn't available. In this
    /// case, no thread or listener remains.
    pub fn start(config: Config) -> Result<Self, OriginError> {
        let cores: Vec<Option<usize>> = if config.cores.is_empty() {
            vec![None; config.threads.max(1)]
        } else {
            config.cores.iter().copied().map(Some).collect()
        };
        let serves_quic = config.quic_on_tcp_ports || !config.quic.is_empty();
        let certificate = config.tls.as_ref();
        let certificate = certificate.or(serves_quic.then_some(&Tls::Generated));
        let identity = certificate.map(tls::identity).transpose()?;
        let bound = listen::bind(&config, cores.len())?;
        let mut origin = Self {
            addresses: bound.addresses,
            quic_addresses: bound.quic_addresses,
            files: bound.files,
            certificate_pem: None,
            counters: Vec::new(),
            freeze_gate: Arc::new(FreezeGate::new(config.stall)),
            stop: watch::Sender::new(false),
            threads: Vec::new(),
        };
        let mut policy = ConnectionPolicy {
            tls: None,
            quic: None,
            fault: config.on_accept,
        };
        if let Some(identity) = identity {
            policy.tls = config.tls.is_some().then_some(identity.acceptor);
            policy.quic = serves_quic.then(|| http3::server_config(identity.quic));
            origin.certificate_pem = Some(identity.certificate_pem);
        }
        let service_queue = config.service_time.map(ServiceQueue::new).map(Arc::new);
        let (ready, started) = mpsc::channel();
        for (core, listeners) in cores.into_iter().zip(bound.threads) {
            let counters = Arc::<Counters>::default();
            origin.counters.push(Arc::clone(&counters));
            let thread = WorkerThread {
                core,
                listeners,
                policy: policy.clone(),
                work: config.work,
                service_queue: service_queue.clone(),
                freeze_gate: Arc::clone(&origin.freeze_gate),
                counters,
                stop: origin.stop.subscribe(),
                ready: ready.clone(),
            };
            origin.spawn(thread)?;
        }
        drop(ready);
        // Each thread reports once. An error drops `origin`, which stops the other threads.
        started.into_iter().collect::<Result<(), OriginError>>()?;
        Ok(origin)
    }

    fn spawn(&mut self, thread: WorkerThread) -> Result<(), OriginError> {
        let name = format!("origin-{}", self.threads.len());
        let handle = std::thread::Builder::new()
            .name(name)
            .spawn(move || thread.run())
            .map_err(|source| OriginError::Thread { source })?;
        self.threads.push(handle);
        Ok(())
    }

    /// Returns the TCP addresses in the order of the configuration. A port of 0 is replaced by the
    /// actual port.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the UDP addresses that serve HTTP/3. A port of 0 is replaced by the actual port.
    /// Addresses that share their port number with a TCP listener precede those of
    /// [`Config::quic`].
    #[must_use]
    pub fn quic_addresses(&self) -> &[SocketAddr] {
        &self.quic_addresses
    }

    /// Returns the UNIX socket paths in the order of the configuration.
    #[must_use]
    pub fn unix_paths(&self) -> &[PathBuf] {
        &self.files.0
    }

    /// Returns the certificate, optionally with its chain, that a client must trust; `None` without
    /// TLS.
    #[must_use]
    pub fn certificate_pem(&self) -> Option<&str> {
        self.certificate_pem.as_deref()
    }

    /// Returns the number of requests whose head has been read so far, including requests for a
    /// fault. Each HTTP/2 or HTTP/3 stream counts as one request.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.sum(|counters| &counters.requests)
    }

    /// Returns the number of connections accepted so far, including those whose TLS or QUIC
    /// handshake failed.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.sum(|counters| &counters.connections)
    }

    /// Returns the active freeze schedule with its epoch, if there is one (see [`crate::stall`]).
    #[must_use]
    pub fn stall(&self) -> Option<Stall> {
        self.freeze_gate.stall()
    }

    /// Returns the start of the first period of the freeze schedule, if a schedule is active.
    #[must_use]
    pub fn stall_epoch(&self) -> Option<std::time::Instant> {
        self.stall().map(|stall| stall.epoch)
    }

    /// Closes all connections and listeners, removes the UNIX socket files and returns when all
    /// threads have ended. Dropping the origin does the same.
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
        self.freeze_gate.release();
        for thread in self.threads.drain(..) {
            // This fails if the thread panicked, in which case it has also ended.
            let _ = thread.join();
        }
    }
}

/// Inputs of one of the origin's threads.
struct WorkerThread {
    core: Option<usize>,
    listeners: Listeners,
    policy: ConnectionPolicy,
    work: Option<Work>,
    service_queue: Option<Arc<ServiceQueue>>,
    freeze_gate: Arc<FreezeGate>,
    counters: Arc<Counters>,
    stop: watch::Receiver<bool>,
    ready: mpsc::Sender<Result<(), OriginError>>,
}

impl WorkerThread {
    /// Reports whether the thread could start, then serves until it is stopped.
    fn run(self) {
        let ready = self.ready;
        // Sending fails only if another thread could not start and the origin was dropped.
        let runtime = match prepare(self.core) {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let mut stop = self.stop;
        runtime.block_on(async {
            let started = Alarm::new().and_then(|alarm| {
                let context = ThreadContext::new(
                    Rc::new(alarm),
                    self.freeze_gate,
                    self.counters,
                    self.work,
                    self.service_queue,
                );
                accept::start(self.listeners, &self.policy, &Rc::new(context))
            });
            let (started, endpoints) = match started {
                Ok(endpoints) => (Ok(()), Some(endpoints)),
                Err(source) => (Err(OriginError::Thread { source }), None),
            };
            let _ = ready.send(started);
            drop(ready);
            if let Some(endpoints) = endpoints {
                // An error means that the origin was dropped, which also ends the wait.
                let _ = stop.wait_for(|stop| *stop).await;
                http3::stop(endpoints).await;
            }
        });
    }
}

/// Pins this thread and creates its runtime.
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
    let mut cores = CpuSet::new();
    // `CpuSet` panics if a core's number is too large for the set.
    if core < CpuSet::MAX_CPU {
        cores.set(core);
    }
    sched_setaffinity(None, &cores).map_err(|_| OriginError::Core { core })
}
