//! One connection from its first byte to its last.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::sync::oneshot;

use crate::alarm::Alarm;
use crate::answer::{Answer, answer};
use crate::body::Body;
use crate::cpu::Work;
use crate::fault::Fault;
use crate::script::{self, After};
use crate::stall::Brake;
use crate::stream::{Shared, Stream};

/// Streams that one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 10_000;

/// What one thread has counted. Others only read it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// What all connections of one thread use.
pub(crate) struct Bench {
    pub(crate) alarm: Rc<Alarm>,
    pub(crate) brake: Arc<Brake>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) work: Option<Work>,
    http: auto::Builder<LocalExecutor>,
}

impl Bench {
    pub(crate) fn new(
        alarm: Rc<Alarm>,
        brake: Arc<Brake>,
        counters: Arc<Counters>,
        work: Option<Work>,
    ) -> Self {
        let mut http = auto::Builder::new(LocalExecutor);
        http.http2().max_concurrent_streams(MAX_STREAMS);
        Self {
            alarm,
            brake,
            counters,
            work,
            http,
        }
    }
}

/// Lets hyper start the streams of HTTP/2 on the thread of their connection.
#[derive(Clone, Copy, Debug)]
struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Passes a fault from the request that asks for it to the connection it is played on.
type Handover = Rc<Cell<Option<oneshot::Sender<Fault>>>>;

/// Serves a connection until either side ends it.
pub(crate) async fn serve(stream: Stream, bench: Rc<Bench>) {
    let mut stream = Shared::new(stream);
    while let Some(fault) = serve_until_fault(stream.clone(), &bench).await {
        if script::play(fault, &mut stream, &bench.alarm).await == After::Over {
            return;
        }
    }
}

/// Lets hyper serve the connection. Returns the fault that a request asked for, hyper then being
/// off the stream; or nothing when the connection is over.
async fn serve_until_fault(stream: Shared, bench: &Rc<Bench>) -> Option<Fault> {
    let (sender, fault) = oneshot::channel();
    let handover: Handover = Rc::new(Cell::new(Some(sender)));
    let service = service_fn(|request| respond(request, Rc::clone(bench), Rc::clone(&handover)));
    let connection = pin!(bench.http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        // What hyper holds against a client is of no interest here: the client knows it too.
        _ = connection => None,
        fault = fault => fault.ok(),
    }
}

async fn respond(
    request: Request<Incoming>,
    bench: Rc<Bench>,
    handover: Handover,
) -> Result<Response<Body>, Infallible> {
    bench.brake.hold();
    bench.counters.requests.fetch_add(1, Ordering::Relaxed);
    if let Some(work) = bench.work {
        work.run();
    }
    let whole_connection = request.version() < Version::HTTP_2;
    let answer = answer(request, &bench.alarm, &bench.brake).await;
    // A delay may have ended within a freeze.
    bench.brake.hold();
    match answer {
        Answer::Response(response) => Ok(response),
        Answer::Takeover(fault) => {
            if (whole_connection || fault.takes_http2_connection())
                && let Some(handover) = handover.take()
            {
                // Fails only when the connection is already over.
                let _ = handover.send(fault);
            }
            // No answer ever comes; the future is dropped with the connection (or the stream).
            pending().await
        }
    }
}
