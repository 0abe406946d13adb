//! An agent's machine for an experiment: services are started, watched and stopped here as in a trial
//! on one's own machine, for a coordinator elsewhere.
//!
//! One run at a time has the machine. Its calls are done one after the other on a thread of its own, so
//! that a service which takes long to stop keeps nobody from renewing the lease. When the lease ends,
//! or the agent does, everything is stopped and removed.

mod service;
mod session;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::host::calls::{Answer, Call, HostOrder, Opening};
use crate::link::{Link, Message};
use crate::messages::{Order, Reply, Reservation, VERSION, What};
use crate::names::RunId;
use crate::policy::Policy;
use session::Session;

/// How often a lease is looked at.
const LOOK_UP: Duration = Duration::from_millis(100);
/// The longest lease.
const LONGEST_LEASE: Duration = Duration::from_secs(300);

/// Says what came of a call, once.
pub(crate) type Answering = Box<dyn FnOnce(Reply) + Send>;

/// The part of an order that says whose it is.
#[derive(Deserialize)]
struct Any {
    version: String,
    #[serde(rename = "do")]
    what: String,
}

/// Who takes calls.
#[derive(Debug)]
pub(crate) struct Desk {
    folder: PathBuf,
    policy: Policy,
    open: Option<Open>,
}

/// The run that has the machine.
#[derive(Debug)]
struct Open {
    run: RunId,
    reservation: Reservation,
    calls: Option<Sender<(HostOrder, Answering)>>,
    lease: Arc<Lease>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Lease {
    length: Duration,
    renewed: Mutex<Instant>,
    is_over: AtomicBool,
}

impl Lease {
    fn renew(&self) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn has_ended(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.elapsed() >= self.length
    }
}

impl Desk {
    /// A desk that keeps runs' files below `folder`, which is emptied: nobody else's are there.
    pub(crate) fn new(folder: &Path, policy: Policy) -> Desk {
        // What a killed agent left; what stays is in nobody's way.
        let _ = std::fs::remove_dir_all(folder);
        Desk {
            folder: folder.to_owned(),
            policy,
            open: None,
        }
    }

    /// The run that has the machine now.
    pub(crate) fn run(&self) -> Option<&RunId> {
        let open = self.open.as_ref().filter(|open| open.is_there());
        open.map(|open| &open.run)
    }

    /// Who has the machine now, and until when.
    pub(crate) fn reservation(&self) -> Option<&Reservation> {
        let open = self.open.as_ref().filter(|open| open.is_there());
        open.map(|open| &open.reservation)
    }

    /// Takes an order that is for this desk, and returns before it is done; false where it is for
    /// another one.
    pub(super) fn offer(
        &mut self,
        link: &Arc<Link>,
        message: &Message,
        busy_with: Option<&RunId>,
    ) -> bool {
        let is_ours = serde_json::from_slice::<Any>(&message.payload);
        if !is_ours.is_ok_and(|any| any.what == "host" && any.version == VERSION) {
            return false;
        }
        let address = link.address();
        let answer = super::answering(link, message);
        match serde_json::from_slice::<Order>(&message.payload) {
            Ok(Order {
                run,
                what: What::Host(order),
                ..
            }) => {
                // Services that other machines need listen where this one reaches the server.
                self.take((&run, order), address, busy_with, answer);
            }
            Ok(_) => return false,
            Err(error) => answer(Reply::Wrong {
                text: format!("this is no call: {error}"),
            }),
        }
        true
    }

    /// Takes a call of a run, and returns before it is done. The load that the agent makes keeps it from
    /// opening its machine for another run.
    fn take(
        &mut self,
        (run, order): (&RunId, HostOrder),
        address: Option<IpAddr>,
        busy_with: Option<&RunId>,
        answer: Answering,
    ) {
        if self.open.as_ref().is_some_and(|open| !open.is_there()) {
            self.open = None;
        }
        let same = self.open.as_ref().filter(|open| open.run == *run);
        match (order.call, same) {
            (Call::Look { spec }, _) => {
                let objections = service::objections(&spec, &self.policy);
                answer(Reply::Host(Answer::Objections { objections }));
            }
            (Call::Renew, Some(open)) => {
                open.lease.renew();
                answer(Reply::Host(Answer::Done));
            }
            (Call::Open(wanted), None) => answer(match busy_with {
                Some(load) => Reply::Busy {
                    text: format!("it is busy with run {load}"),
                },
                None => {
                    let opened = self.open(run, wanted, address);
                    opened.unwrap_or_else(|text| Reply::Environment { text })
                }
            }),
            (Call::Open(_), Some(_)) => answer(opened()),
            (call, Some(open)) => {
                let number = order.number;
                open.forward(HostOrder { number, call }, answer);
            }
            (_, None) => answer(Reply::Host(Answer::Unknown)),
        }
    }

    fn open(
        &mut self,
        run: &RunId,
        wanted: Opening,
        address: Option<IpAddr>,
    ) -> Result<Reply, String> {
        if let Some(open) = &self.open {
            return Ok(Reply::Busy {
                text: format!("it is {}", open.reservation),
            });
        }
        let folder = self.folder.join(run.as_str());
        let session = Session::new(folder, self.policy.clone(), address)?;
        let lease = Arc::new(Lease {
            length: Duration::from_millis(wanted.lease_ms).min(LONGEST_LEASE),
            renewed: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
        });
        let (calls, taken) = mpsc::channel();
        let of_thread = lease.clone();
        let serving = move || serve(session, &taken, &of_thread);
        let thread = thread::Builder::new().name("host".to_owned());
        let thread = thread.spawn(serving).map_err(|error| error.to_string())?;
        self.open = Some(Open {
            reservation: Reservation::new(run, wanted.holder, wanted.until),
            run: run.clone(),
            calls: Some(calls),
            lease,
            thread: Some(thread),
        });
        Ok(opened())
    }
}

fn opened() -> Reply {
    let boot = prony_experiment::host::local::LocalHost::boot();
    Reply::Host(Answer::Opened { boot })
}

impl Open {
    fn is_there(&self) -> bool {
        !self.lease.is_over.load(Ordering::Acquire)
    }

    fn forward(&self, order: HostOrder, answer: Answering) {
        self.lease.renew();
        if let Some(calls) = &self.calls
            && let Err(mpsc::SendError((_, answer))) = calls.send((order, answer))
        {
            answer(Reply::Host(Answer::Unknown));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked for was said on standard error.
            let _ = thread.join();
        }
    }
}

/// Does calls until the run is closed, its lease ends or the agent does; then removes everything.
fn serve(mut session: Session, calls: &Receiver<(HostOrder, Answering)>, lease: &Lease) {
    let closing = loop {
        match calls.recv_timeout(LOOK_UP) {
            Ok((order, answer)) if order.call == Call::Close => break Some(answer),
            Ok((order, answer)) => {
                answer(session.call(order));
                // Whatever it took, whoever asked for it was there meanwhile as far as is known.
                lease.renew();
            }
            Err(RecvTimeoutError::Timeout) if !lease.has_ended() => {}
            Err(_) => break None,
        }
    };
    drop(session);
    lease.is_over.store(true, Ordering::Release);
    if let Some(answer) = closing {
        answer(Reply::Host(Answer::Done));
    }
}
