//! Handles calls from a coordinator to an agent's machine: the coordinator starts, observes and
//! stops services here, as in a local trial.
//!
//! Only one run at a time has access to the machine. Its calls run one after another on a separate
//! thread, so that a service that stops slowly doesn't prevent renewals of the lease. When the
//! lease expires or the agent exits, all services and files are removed.

mod service;
mod session;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::responder::{Responder, responder};
use crate::link::{NatsLink, NatsMessage};
use crate::names::RunId;
use crate::policy::Policy;
use crate::wire::{AgentOrder, Command, Reply, Reservation};
use crate::wire::{HostCall, HostReply, NumberedCall, OpenRequest, OrderHeader};
use session::{HostSession, SessionError};

/// Interval at which the lease is checked.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum lease of the machine. A longer lease in a request is shortened to this value.
const LEASE_MAX: Duration = Duration::from_secs(300);

/// Executes the calls that coordinators make to this machine, within its policy.
#[derive(Debug)]
pub(super) struct HostCallHandler {
    folder: PathBuf,
    policy: Policy,
    session: Option<OpenSession>,
}

/// Session of the run that has reserved the machine.
#[derive(Debug)]
struct OpenSession {
    run: RunId,
    reservation: Reservation,
    /// Queue of calls for the session's thread. Dropping it ends the thread.
    calls: Option<Sender<(NumberedCall, Responder)>>,
    lease: Arc<HostLease>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct HostLease {
    length: Duration,
    renewed: Mutex<Instant>,
    is_over: AtomicBool,
}

impl HostLease {
    fn renew(&self) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn has_ended(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.elapsed() >= self.length
    }
}

impl HostCallHandler {
    /// Creates a handler that stores runs' files below `folder`. Deletes the existing content of
    /// `folder`.
    pub(super) fn new(folder: &Path, policy: Policy) -> HostCallHandler {
        // The content was left by an agent that was killed. Files that can't be removed do no harm.
        let _ = std::fs::remove_dir_all(folder);
        HostCallHandler {
            folder: folder.to_owned(),
            policy,
            session: None,
        }
    }

    /// Returns the run that has reserved the machine.
    pub(super) fn run(&self) -> Option<&RunId> {
        let session = self.session.as_ref().filter(|it| !it.is_over());
        session.map(|it| &it.run)
    }

    /// Returns the current reservation of the machine.
    pub(super) fn reservation(&self) -> Option<&Reservation> {
        let session = self.session.as_ref().filter(|it| !it.is_over());
        session.map(|it| &it.reservation)
    }

    /// Queues an order if it is a call to the machine, without waiting for the result. Returns
    /// false for other orders.
    pub(super) fn offer(
        &mut self,
        link: &Arc<NatsLink>,
        message: &NatsMessage,
        busy_with: Option<&RunId>,
    ) -> bool {
        let header = serde_json::from_slice::<OrderHeader>(&message.payload);
        if !header.is_ok_and(|it| it.command == "host" && it.sender.is_own()) {
            return false;
        }
        let address = link.local_address();
        let responder = responder(link, message);
        match serde_json::from_slice::<AgentOrder>(&message.payload) {
            Ok(AgentOrder {
                run,
                command: Command::Host(order),
                ..
            }) => {
                // Services for other machines listen on the address from which this machine
                // connects to the NATS server.
                self.take((&run, order), address, busy_with, responder);
            }
            Ok(_) => return false,
            Err(error) => responder(Reply::Wrong {
                text: format!("not a call: {error}"),
            }),
        }
        true
    }

    /// Queues a call of a run, without waiting for the result. A run can't reserve the machine
    /// while the agent generates a load for another run.
    fn take(
        &mut self,
        (run, order): (&RunId, NumberedCall),
        address: Option<IpAddr>,
        busy_with: Option<&RunId>,
        responder: Responder,
    ) {
        if self.session.as_ref().is_some_and(|it| it.is_over()) {
            self.session = None;
        }
        let same = self.session.as_ref().filter(|it| it.run == *run);
        match (order.call, same) {
            (HostCall::CheckService { spec }, _) => {
                let objections = service::objections(&spec, &self.policy);
                responder(Reply::Host(HostReply::Objections { objections }));
            }
            (HostCall::Renew, Some(open)) => {
                open.lease.renew();
                responder(Reply::Host(HostReply::Done));
            }
            (HostCall::Open(request), None) => responder(match busy_with {
                Some(load) => Reply::Busy {
                    text: format!("busy with run {load}"),
                },
                None => {
                    let opened = self.open(run, request, address);
                    opened.unwrap_or_else(Reply::environment)
                }
            }),
            (HostCall::Open(_), Some(_)) => responder(opened()),
            (call, Some(open)) => {
                let number = order.number;
                open.forward(NumberedCall { number, call }, responder);
            }
            (_, None) => responder(Reply::Host(HostReply::Unknown)),
        }
    }

    fn open(
        &mut self,
        run: &RunId,
        request: OpenRequest,
        address: Option<IpAddr>,
    ) -> Result<Reply, SessionError> {
        if let Some(open) = &self.session {
            return Ok(Reply::Busy {
                text: format!("{}", open.reservation),
            });
        }
        let folder = self.folder.join(run.as_str());
        let session = HostSession::new(folder, self.policy.clone(), address)?;
        let lease = Arc::new(HostLease {
            length: Duration::from_millis(request.lease_ms).min(LEASE_MAX),
            renewed: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
        });
        let (calls, taken) = mpsc::channel();
        let of_thread = lease.clone();
        let serve = move || serve(session, &taken, &of_thread);
        let thread = thread::Builder::new().name("host".to_owned());
        let thread = thread.spawn(serve).map_err(SessionError::Thread)?;
        self.session = Some(OpenSession {
            reservation: Reservation::new(run, request.holder, request.until),
            run: run.clone(),
            calls: Some(calls),
            lease,
            thread: Some(thread),
        });
        Ok(opened())
    }
}

fn opened() -> Reply {
    let boot = prony_machine::host::local::LocalHost::boot();
    Reply::Host(HostReply::Opened { boot })
}

impl OpenSession {
    fn is_over(&self) -> bool {
        self.lease.is_over.load(Ordering::Acquire)
    }

    fn forward(&self, call: NumberedCall, responder: Responder) {
        self.lease.renew();
        if let Some(calls) = &self.calls
            && let Err(mpsc::SendError((_, responder))) = calls.send((call, responder))
        {
            responder(Reply::Host(HostReply::Unknown));
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already been printed on standard error.
            let _ = thread.join();
        }
    }
}

/// Executes calls until the run is closed, its lease expires or the agent exits. Then all services
/// and resources are removed.
fn serve(mut session: HostSession, calls: &Receiver<(NumberedCall, Responder)>, lease: &HostLease) {
    let closing = loop {
        match calls.recv_timeout(LEASE_POLL_INTERVAL) {
            Ok((call, responder)) if call.call == HostCall::Close => break Some(responder),
            Ok((call, responder)) => {
                responder(session.call(call));
                // Renewing the lease after each call prevents a slow call from making it expire.
                lease.renew();
            }
            Err(RecvTimeoutError::Timeout) if !lease.has_ended() => {}
            Err(_) => break None,
        }
    };
    drop(session);
    lease.is_over.store(true, Ordering::Release);
    if let Some(responder) = closing {
        responder(Reply::Host(HostReply::Done));
    }
}
