//! From a route to a response.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};

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
    let over_http2 = request.version() == Version::HTTP_2;
    let bodiless = over_http2 && request.method() == Method::HEAD;
    let response = match asked {
        Ok(Route::Echo) => echo(request).await,
        // The one that must not wait for the body.
        Ok(Route::Fault(Fault::EarlyAnswer)) if !over_http2 => {
            return Answer::Takeover(Fault::EarlyAnswer);
        }
        asked => {
            read_to_end(request.into_body()).await;
            match asked {
                Ok(Route::Fault(fault)) if !over_http2 => return Answer::Takeover(fault),
                Ok(Route::Fault(fault)) => match http2_fault(fault, alarm) {
                    Some(response) => response,
                    None => return Answer::Takeover(fault),
                },
                Ok(route) => plain_answer(route, alarm, brake).await,
                Err(NoRoute::Unknown) => text(StatusCode::NOT_FOUND, listing()),
                Err(NoRoute::Bad(reason)) => text(StatusCode::BAD_REQUEST, reason + "\n"),
            }
        }
    };
    Answer::Response(if bodiless {
        head_of(response)
    } else {
        response
    })
}

/// Takes the body off and keeps its length. Over HTTP/1.1 hyper does it by itself.
fn head_of(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    // A 204 must not have a length (RFC 9110, section 8.6); of an empty 200 it tells nothing new.
    if let Some(length) = body.size_hint().exact().filter(|&length| length > 0) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    Response::from_parts(parts, Body::empty())
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
    let too_long = || {
        let reason = format!("/echo takes at most {ECHO_LIMIT} bytes\n");
        text(StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    // One that says itself that it is too long is not even read.
    if request.body().size_hint().lower() > ECHO_LIMIT as u64 {
        return too_long();
    }
    let Ok(body) = Limited::new(request.into_body(), ECHO_LIMIT)
        .collect()
        .await
    else {
        return too_long();
    };
    let body = Body::Whole(body.to_bytes());
    let response = with(ok(body), HEADERS, headers);
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

/// What a fault is over HTTP/2; nothing where it takes the connection, or the stream, for good.
fn http2_fault(fault: Fault, alarm: &Rc<Alarm>) -> Option<Response<Body>> {
    let hello = Bytes::from_static(HELLO.as_bytes());
    let telling = |length, body| with(ok(body), CONTENT_LENGTH, HeaderValue::from_static(length));
    Some(match fault {
        Fault::Stall | Fault::Reset | Fault::Close | Fault::Garbage => return None,
        Fault::StallBody => telling("26", Body::Stuck(hello)),
        Fault::Truncate => telling("26", Body::Whole(hello)),
        Fault::LiesShort => telling("5", Body::Whole(hello)),
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
