//! Responses to requests, by route.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as HttpBody;

use crate::HELLO;
use crate::alarm::Alarm;
use crate::body::Body;
use crate::events::Events;
use crate::fault::Fault;
use crate::path_value::SIZE_MAX_BYTES;
use crate::route::{AfterDelay, NoRoute, PATHS, Route, route};
use crate::stall::{FreezeGate, FreezeSchedule};

/// Maximum size in bytes of a body sent to `/echo`, which is kept in memory.
const ECHO_BYTES_MAX: usize = 16 << 20;

const EPOCH: HeaderName = HeaderName::from_static("prony-stall-epoch-unix-ns");
const AGE: HeaderName = HeaderName::from_static("prony-stall-age-ns");
const METHOD: HeaderName = HeaderName::from_static("prony-method");
const HEADERS: HeaderName = HeaderName::from_static("prony-headers");

/// Any error that occurs while a request body is being read.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) enum RequestResult {
    /// A response, which hyper or h3 sends.
    Response(Response<Body>),
    /// A fault that takes over the connection or stream instead of an ordinary response. Over
    /// HTTP/1, hyper releases the connection, and the fault's script runs on it. Over HTTP/2, the
    /// stream gets no response unless the fault takes over the whole connection. Over HTTP/3, the
    /// script runs on the stream.
    Takeover(Fault),
}

/// Reads the request and creates its response. Doesn't read the request body if the path requests
/// the fault `early-answer`, or if the body is too long for `/echo`. If the request has a delay,
/// returns after the delay.
pub(crate) async fn respond<B>(
    request: Request<B>,
    alarm: &Rc<Alarm>,
    freeze_gate: &FreezeGate,
) -> RequestResult
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let asked = route(request.uri().path(), request.uri().query());
    let version = request.version();
    let bodiless = version >= Version::HTTP_2 && request.method() == Method::HEAD;
    let response = match asked {
        Ok(Route::Echo) => echo(request).await,
        // This is the only route that must not wait for the body.
        Ok(Route::Fault(Fault::EarlyResponse)) if version != Version::HTTP_2 => {
            return RequestResult::Takeover(Fault::EarlyResponse);
        }
        asked => {
            read_to_end(request.into_body()).await;
            match asked {
                Ok(Route::Fault(fault)) => match fault_response(fault, version, alarm) {
                    Some(response) => response,
                    None => return RequestResult::Takeover(fault),
                },
                Ok(route) => plain_response(route, alarm, freeze_gate).await,
                Err(NoRoute::Unknown) => text_response(StatusCode::NOT_FOUND, listing()),
                Err(NoRoute::Bad(value)) => {
                    text_response(StatusCode::BAD_REQUEST, format!("{value}\n"))
                }
            }
        }
    };
    RequestResult::Response(if bodiless {
        head_of(response)
    } else {
        response
    })
}

/// Removes the body of a response, but keeps its length in the head. Over HTTP/1.1, hyper does this
/// itself.
fn head_of(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    // A response with status 204 must not have a Content-Length (RFC 9110 §8.6). For an empty
    // response with status 200, it is redundant.
    if let Some(length) = body.size_hint().exact().filter(|&length| length > 0) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    Response::from_parts(parts, Body::empty())
}

async fn plain_response(
    route: Route,
    alarm: &Rc<Alarm>,
    freeze_gate: &FreezeGate,
) -> Response<Body> {
    match route {
        Route::Hello => hello(),
        Route::Bytes(size) => ok(Body::sized(size)),
        Route::Chunked(size) => ok(Body::chunked(size)),
        Route::Slow { size, over } => ok(Body::slow(size, over, Rc::clone(alarm))),
        Route::Events(plan) => {
            let content_type = HeaderValue::from_static(plan.form.content_type());
            let is_gzip = plan.is_gzip;
            let events = Events::new(plan, Rc::clone(alarm));
            let body = Body::Events(Box::new(events));
            let response = with_header(Response::new(body), CONTENT_TYPE, content_type);
            if is_gzip {
                with_header(response, CONTENT_ENCODING, HeaderValue::from_static("gzip"))
            } else {
                response
            }
        }
        Route::Delay { time, then } => {
            alarm.until(Instant::now() + time).await;
            match then {
                AfterDelay::Hello => hello(),
                AfterDelay::Bytes(size) => ok(Body::sized(size)),
            }
        }
        Route::Status(code) => status(code),
        Route::Redirect(left) => redirect(left),
        Route::Close => with_header(hello(), CONNECTION, HeaderValue::from_static("close")),
        Route::Stall(schedule) => stall(schedule, freeze_gate),
        // The caller handles these two routes.
        Route::Echo | Route::Fault(_) => text_response(StatusCode::NOT_FOUND, listing()),
    }
}

/// Reads and discards the rest of a request body. Otherwise, the body would be parsed as the next
/// request, or the connection would be closed.
async fn read_to_end(mut body: impl HttpBody + Unpin) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn ok(body: Body) -> Response<Body> {
    with_header(
        Response::new(body),
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain"),
    )
}

fn hello() -> Response<Body> {
    ok(Body::Whole(Bytes::from_static(HELLO.as_bytes())))
}

fn text_response(code: StatusCode, text: String) -> Response<Body> {
    let mut response = ok(Body::Whole(Bytes::from(text)));
    *response.status_mut() = code;
    response
}

fn with_header(
    mut response: Response<Body>,
    name: HeaderName,
    value: HeaderValue,
) -> Response<Body> {
    response.headers_mut().insert(name, value);
    response
}

/// Creates a response with the given status. The response has no body if the status forbids it (RFC
/// 9110 §15.3.5, §15.3.6 and §15.4.5). Redirects lead to `/`.
fn status(code: StatusCode) -> Response<Body> {
    let response = match code.as_u16() {
        204 | 205 | 304 => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = code;
            response
        }
        _ => text_response(code, format!("status {}\n", code.as_u16())),
    };
    match code.as_u16() {
        301 | 302 | 303 | 307 | 308 => {
            with_header(response, LOCATION, HeaderValue::from_static("/"))
        }
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
    with_header(text_response(StatusCode::FOUND, body), LOCATION, next)
}

async fn echo<B>(request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>>,
{
    let method = HeaderValue::from_str(request.method().as_str());
    let headers = HeaderValue::from(request.headers().len());
    let too_long = || {
        let reason = format!("/echo accepts at most {ECHO_BYTES_MAX} bytes\n");
        text_response(StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    // Don't read a body whose Content-Length is too large.
    if request.body().size_hint().lower() > ECHO_BYTES_MAX as u64 {
        return too_long();
    }
    let Ok(body) = Limited::new(request.into_body(), ECHO_BYTES_MAX)
        .collect()
        .await
    else {
        return too_long();
    };
    let body = Body::Whole(body.to_bytes());
    let response = with_header(ok(body), HEADERS, headers);
    match method {
        Ok(method) => with_header(response, METHOD, method),
        // The characters of a method are always valid in a header.
        Err(_) => response,
    }
}

fn stall(schedule: FreezeSchedule, freeze_gate: &FreezeGate) -> Response<Body> {
    let Some(stall) = freeze_gate.arm(schedule) else {
        return hello();
    };
    let since_1970 = stall.epoch_wall.duration_since(std::time::UNIX_EPOCH);
    let epoch = nanoseconds(since_1970.unwrap_or_default());
    let age = nanoseconds(stall.epoch.elapsed());
    with_header(with_header(hello(), EPOCH, epoch), AGE, age)
}

fn nanoseconds(time: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the response for a fault, or `None` if the fault acts on the whole connection or stream.
fn fault_response(fault: Fault, version: Version, alarm: &Rc<Alarm>) -> Option<Response<Body>> {
    let (name, exists) = match version {
        Version::HTTP_3 => ("HTTP/3", fault.over_http3()),
        Version::HTTP_2 => ("HTTP/2", fault.over_http2()),
        _ => ("HTTP/1", fault.over_http1()),
    };
    if !exists {
        let other = if fault.over_http1() { "1.1" } else { "3" };
        let reason =
            format!("/fault/{fault} does not exist over {name}; request it over HTTP/{other}\n");
        return Some(text_response(StatusCode::NOT_IMPLEMENTED, reason));
    }
    if version < Version::HTTP_2 {
        return None;
    }
    let hello = Bytes::from_static(HELLO.as_bytes());
    let with_length =
        |length, body| with_header(ok(body), CONTENT_LENGTH, HeaderValue::from_static(length));
    Some(match fault {
        Fault::StallBody => with_length("26", Body::Stuck(hello)),
        Fault::Truncate => with_length("26", Body::Whole(hello)),
        Fault::LiesShort => with_length("5", Body::Whole(hello)),
        Fault::SlowBody => ok(Body::slow(
            HELLO.len() as u64,
            Duration::from_millis(130),
            Rc::clone(alarm),
        )),
        _ => return None,
    })
}

/// Returns the list of all paths, which is the body of a response with status 404.
fn listing() -> String {
    let mut listing = String::from(PATHS);
    for fault in Fault::all() {
        listing += &format!("    {:<22} {}\n", fault.name(), fault.effect());
    }
    listing + &format!("Sizes are at most {SIZE_MAX_BYTES} bytes.\n")
}
