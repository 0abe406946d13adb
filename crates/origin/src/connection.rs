//! Serves one connection over TCP or a UNIX socket.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::sync::oneshot;

use crate::alarm::Alarm;
use crate::body::Body;
use crate::cpu::Work;
use crate::fault::Fault;
use crate::respond::{BoxError, RequestResult, respond};
use crate::script::{self, AfterScript};
use crate::service_queue::ServiceQueue;
use crate::stall::FreezeGate;
use crate::stream::{Shared, Stream};

/// Maximum number of concurrent streams on an HTTP/2 or HTTP/3 connection.
pub(crate) const CONCURRENT_STREAMS_MAX: u32 = 10_000;

/// Counters of one thread, which other threads only read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// State shared by all connections of one thread.
pub(crate) struct ThreadContext {
    pub(crate) alarm: Rc<Alarm>,
    pub(crate) freeze_gate: Arc<FreezeGate>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) work: Option<Work>,
    pub(crate) service_queue: Option<Arc<ServiceQueue>>,
    http: auto::Builder<LocalExecutor>,
}

impl ThreadContext {
    pub(crate) fn new(
        alarm: Rc<Alarm>,
        freeze_gate: Arc<FreezeGate>,
        counters: Arc<Counters>,
        work: Option<Work>,
        service_queue: Option<Arc<ServiceQueue>>,
    ) -> Self {
        let mut http = auto::Builder::new(LocalExecutor);
        http.http2().max_concurrent_streams(CONCURRENT_STREAMS_MAX);
        Self {
            alarm,
            freeze_gate,
            counters,
            work,
            service_queue,
            http,
        }
    }
}

/// Executor that keeps HTTP/2 streams on the thread of their connection.
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

/// Channel through which a request passes a fault to its connection, which then performs it.
type FaultHandover = Rc<Cell<Option<oneshot::Sender<Fault>>>>;

/// Serves a connection until either side ends it.
pub(crate) async fn serve(stream: Stream, context: Rc<ThreadContext>) {
    let mut stream = Shared::new(stream);
    while let Some(fault) = serve_until_fault(stream.clone(), &context).await {
        if script::play(fault, &mut stream, &context.alarm).await == AfterScript::Over {
            return;
        }
    }
}

/// Serves the connection with hyper. If the client requests a fault, returns the fault after hyper
/// has released the connection. Returns `None` when the connection has ended.
async fn serve_until_fault(stream: Shared, context: &Rc<ThreadContext>) -> Option<Fault> {
    let (sender, fault) = oneshot::channel();
    let handover: FaultHandover = Rc::new(Cell::new(Some(sender)));
    let service =
        service_fn(|request| serve_or_hand_over(request, Rc::clone(context), Rc::clone(&handover)));
    let connection = pin!(context.http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        // Ignore hyper's error, because the client sees the same problem.
        _ = connection => None,
        fault = fault => fault.ok(),
    }
}

async fn serve_or_hand_over(
    request: Request<Incoming>,
    context: Rc<ThreadContext>,
    handover: FaultHandover,
) -> Result<Response<Body>, Infallible> {
    let whole_connection = request.version() < Version::HTTP_2;
    match serve_request(request, &context).await {
        RequestResult::Response(response) => Ok(response),
        RequestResult::Takeover(fault) => {
            if (whole_connection || fault.takes_http2_connection())
                && let Some(handover) = handover.take()
            {
                // Sending fails only if the connection has already ended.
                let _ = handover.send(fault);
            }
            // There is no response, so this future waits until it is dropped along with the
            // connection or stream.
            pending().await
        }
    }
}

/// Serves a request of any HTTP version and returns its response.
pub(crate) async fn serve_request<B>(request: Request<B>, context: &ThreadContext) -> RequestResult
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    context.freeze_gate.hold();
    context.counters.requests.fetch_add(1, Ordering::Relaxed);
    if let Some(work) = context.work {
        work.run();
    }
    if let Some(queue) = &context.service_queue {
        context.alarm.until(queue.enter(Instant::now())).await;
    }
    let served = respond(request, &context.alarm, &context.freeze_gate).await;
    // If the request's delay ended during a freeze, the response waits until the freeze ends.
    context.freeze_gate.hold();
    served
}
