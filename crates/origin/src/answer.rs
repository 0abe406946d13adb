//! From a route to a response.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::HELLO;
use crate::alarm::Alarm;
use crate::body::Body;
use crate::fault::Fault;
use crate::quantity::MAX_SIZE;
use crate::route::{After, NoRoute, PATHS, Route, route};
use crate::stall::{Brake, Schedule};

/// `/echo` keeps the body in memory, up to so many bytes.
const ECHO_LIMIT: usize = 16 << 20;

const EPOCH: HeaderName = HeaderName::from_static("prony-stall-epoch-unix-ns");
const AGE: HeaderName = HeaderName::from_static("prony-stall-age-ns");
const METHOD: HeaderName = HeaderName::from_static("prony-method");
const HEADERS: HeaderName = HeaderName::from_static("prony-headers");

/// What a request leads to.
pub(crate) enum Answer {
    /// hyper sends this.
    Response(Response<Body>),
    /// hyper gives up the connection and the fault's script is played on it.
    Takeover(Fault),
}

/// Reads the request to its end and finds its answer; `delay` is over when this returns.
pub(crate) async fn answer(request: Request<Incoming>, alarm: &Rc<Alarm>, brake: &Brake) -> Answer {
    let asked = route(request.uri().path(), request.uri().query());
    // The one that must not wait for the body.
    if matches!(asked, Ok(Route::Fault(Fault::EarlyAnswer))) && request.version() < Version::HTTP_2
    {
        return Answer::Takeover(Fault::EarlyAnswer);
    }
    let response = match asked {
        Ok(Route::Echo) => echo(request).await,
        asked => {
            let version = request.version();
            read_to_end(request.into_body()).await;
            match asked {
                Ok(Route::Fault(fault)) => return fault_answer(fault, version, alarm),
                Ok(route) => plain_answer(route, alarm, brake).await,
                Err(NoRoute::Unknown) => text(StatusCode::NOT_FOUND, listing()),
                Err(NoRoute::Bad(reason)) => text(StatusCode::BAD_REQUEST, reason + "\n"),
            }
        }
    };
    Answer::Response(response)
}

async fn plain_answer(route: Route, alarm: &Rc<Alarm>, brake: &Brake) -> Response<Body> {
    match route {
        Route::Hello => hello(),
        Route::Bytes(size) => ok(Body::sized(size)),
        Route::Chunked(size) => ok(Body::chunked(size)),
        Route::Slow { size, over } => ok(Body::slow(size, over, Rc::clone(alarm))),
        Route::Delay { time, then } => {
            alarm.until(Instant::now() + time).await;
            match then {
                After::Hello => hello(),
                After::Bytes(size) => ok(Body::sized(size)),
            }
        }
        Route::Status(code) => status(code),
        Route::Redirect(left) => redirect(left),
        Route::Close => with(hello(), CONNECTION, HeaderValue::from_static("close")),
        Route::Stall(schedule) => stall(schedule, brake),
        // Both were answered before.
        Route::Echo | Route::Fault(_) => text(StatusCode::NOT_FOUND, listing()),
    }
}

/// What is not read now would be read as the next request, or close the connection.
async fn read_to_end(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn ok(body: Body) -> Response<Body> {
    with(
        Response::new(body),
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain"),
    )
}

fn hello() -> Response<Body> {
    ok(Body::Whole(Bytes::from_static(HELLO.as_bytes())))
}

fn text(code: StatusCode, text: String) -> Response<Body> {
    let mut response = ok(Body::Whole(Bytes::from(text)));
    *response.status_mut() = code;
    response
}

fn with(mut response: Response<Body>, name: HeaderName, value: HeaderValue) -> Response<Body> {
    response.headers_mut().insert(name, value);
    response
}

/// Statuses that have no body (RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5) get none; those that
/// redirect lead to `/`.
fn status(code: StatusCode) -> Response<Body> {
    let response = match code.as_u16() {
        204 | 205 | 304 => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = code;
            response
        }
        _ => text(code, format!("status {}\n", code.as_u16())),
    };
    match code.as_u16() {
        301 | 302 | 303 | 307 | 308 => with(response, LOCATION, HeaderValue::from_static("/")),
        _ => response,
    }
}

fn redirect(left: u32) -> Response<Body> {
    let next = match left {
        0 | 1 => "/".to_string(),
        _ => format!("/redirect/{}", left - 1),
    };
    let body = format!("to {next}\n");
    let next = HeaderValue::from_str(&next).unwrap_or(HeaderValue::from_static("/"));
    with(text(StatusCode::FOUND, body), LOCATION, next)
}

async fn echo(request: Request<Incoming>) -> Response<Body> {
    let method = HeaderValue::from_str(request.method().as_str());
    let headers = HeaderValue::from(request.headers().len());
    let body = match Limited::new(request.into_body(), ECHO_LIMIT)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let reason = format!("/echo takes at most {ECHO_LIMIT} bytes\n");
            return text(StatusCode::PAYLOAD_TOO_LARGE, reason);
        }
    };
    let response = with(ok(Body::Whole(body)), HEADERS, headers);
    match method {
        Ok(method) => with(response, METHOD, method),
        // A method's letters are always legal in a header.
        Err(_) => response,
    }
}

fn stall(schedule: Schedule, brake: &Brake) -> Response<Body> {
    let Some(stall) = brake.arm(schedule) else {
        return hello();
    };
    let since_1970 = stall.epoch_wall.duration_since(std::time::UNIX_EPOCH);
    let epoch = nanoseconds(since_1970.unwrap_or_default());
    let age = nanoseconds(stall.epoch.elapsed());
    with(with(hello(), EPOCH, epoch), AGE, age)
}

fn nanoseconds(time: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn fault_answer(fault: Fault, version: Version, alarm: &Rc<Alarm>) -> Answer {
    if version < Version::HTTP_2 || fault.takes_http2_connection() {
        return Answer::Takeover(fault);
    }
    let hello = Bytes::from_static(HELLO.as_bytes());
    let long = |body| with(ok(body), CONTENT_LENGTH, HeaderValue::from_static("26"));
    Answer::Response(match fault {
        Fault::Stall => return Answer::Takeover(fault),
        Fault::StallBody => long(Body::Stuck(hello)),
        Fault::Truncate => long(Body::Whole(hello)),
        Fault::LiesShort => with(
            ok(Body::Whole(hello)),
            CONTENT_LENGTH,
            HeaderValue::from_static("5"),
        ),
        Fault::SlowBody => ok(Body::slow(
            HELLO.len() as u64,
            Duration::from_millis(130),
            Rc::clone(alarm),
        )),
        _ => text(
            StatusCode::NOT_IMPLEMENTED,
            format!("/fault/{fault} does not exist over HTTP/2; ask over HTTP/1.1\n"),
        ),
    })
}

/// Every path, for those who are lost.
fn listing() -> String {
    let mut listing = String::from(PATHS);
    for fault in Fault::all() {
        listing += &format!("    {:<22} {}\n", fault.name(), fault.effect());
    }
    listing + &format!("Sizes are at most {MAX_SIZE} bytes.\n")
}
