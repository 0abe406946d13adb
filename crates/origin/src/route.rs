//! Routes, which determine the response from the path of a request.

use std::time::Duration;

use http::StatusCode;

use crate::events::{EventForm, EventPlan, StreamEnding};
use crate::fault::Fault;
use crate::path_value::{BadPathValue, size, time};
use crate::stall::FreezeSchedule;

/// List of all paths with their responses. It is also the beginning of the body of a response with
/// status 404.
pub const PATHS: &str = "\
/                          Hello, world! (13 bytes)
/bytes/N                   N bytes (13, 10K, 1M; at most 1G): each 8-byte line holds its own offset
/chunked/N                 N bytes in chunks, without a length
/slow/N?over=TIME          N bytes in 10 pieces, spread over TIME (default 1s)
/events/N?every=TIME       N events (default every=50ms), the first after=TIME (default 0s);
                           form=sse or lines, gzip=yes,
                           end=plain, done ([DONE]), stall, half or cut
/delay/TIME                like /, but after TIME (500us, 20ms, 5s; at most 60m)
/delay/TIME/bytes/N        N bytes after TIME
/status/CODE               a response with status CODE, 200 to 999
/redirect/N                N redirects (302), the last one to /
/close                     like /, but with Connection: close; over HTTP/3 with GOAWAY
/echo                      the request's body; its method and number of headers as
                           prony-method and prony-headers
/stall?every=5s&for=1s     like /, but after the first such request, the whole server
                           freezes for the last 1s of every 5s
/fault/NAME                a faulty or unusual response; NAME is one of:
";

/// Kind of response that a path requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Hello,
    Bytes(u64),
    Chunked(u64),
    Slow { size: u64, over: Duration },
    Events(EventPlan),
    Delay { time: Duration, then: AfterDelay },
    Status(StatusCode),
    Redirect(u32),
    Close,
    Echo,
    Stall(FreezeSchedule),
    Fault(Fault),
}

/// Kind of response that is sent after a delay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterDelay {
    Hello,
    Bytes(u64),
}

/// Reason why a path has no route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// The path doesn't exist.
    Unknown,
    /// The path exists, but a value in it is invalid.
    Bad(BadPathValue),
}

impl From<BadPathValue> for NoRoute {
    fn from(value: BadPathValue) -> Self {
        Self::Bad(value)
    }
}

/// Finds the route of a path. `query` is used only for `/stall`, `/slow` and `/events`.
pub(crate) fn route(path: &str, query: Option<&str>) -> Result<Route, NoRoute> {
    if path == "/" {
        return Ok(Route::Hello);
    }
    let mut parts = path
        .strip_prefix('/')
        .ok_or(NoRoute::Unknown)?
        .splitn(5, '/');
    let parts = [(); 5].map(|()| parts.next());
    Ok(match parts {
        [Some("bytes"), Some(n), None, ..] => Route::Bytes(size(n)?),
        [Some("chunked"), Some(n), None, ..] => Route::Chunked(size(n)?),
        [Some("slow"), Some(n), None, ..] => slow(n, query)?,
        [Some("events"), Some(n), None, ..] => Route::Events(events(n, query)?),
        [Some("delay"), Some(t), None, ..] => Route::Delay {
            time: time(t)?,
            then: AfterDelay::Hello,
        },
        [Some("delay"), Some(t), Some("bytes"), Some(n), None] => Route::Delay {
            time: time(t)?,
            then: AfterDelay::Bytes(size(n)?),
        },
        [Some("status"), Some(code), None, ..] => Route::Status(status(code)?),
        [Some("redirect"), Some(n), None, ..] => Route::Redirect(redirects(n)?),
        [Some("close"), None, ..] => Route::Close,
        [Some("echo"), None, ..] => Route::Echo,
        [Some("stall"), None, ..] => stall(query)?,
        [Some("fault"), Some(name), None, ..] => {
            Route::Fault(Fault::from_name(name).ok_or(NoRoute::Unknown)?)
        }
        _ => return Err(NoRoute::Unknown),
    })
}

fn slow(n: &str, query: Option<&str>) -> Result<Route, NoRoute> {
    let over = argument(query, "over").map_or(Ok(Duration::from_secs(1)), time)?;
    Ok(Route::Slow {
        size: size(n)?,
        over,
    })
}

fn events(count: &str, query: Option<&str>) -> Result<EventPlan, BadPathValue> {
    let bad = |text: &str| BadPathValue::Events(text.to_owned());
    let word = |name, default| argument(query, name).unwrap_or(default);
    let (form, ending) = (word("form", "sse"), word("end", "plain"));
    Ok(EventPlan {
        count: count.parse().map_err(|_| bad(count))?,
        after: time(word("after", "0s"))?,
        every: time(word("every", "50ms"))?,
        form: EventForm::parse(form).ok_or_else(|| bad(form))?,
        ending: StreamEnding::parse(ending).ok_or_else(|| bad(ending))?,
        is_gzip: word("gzip", "no") == "yes",
    })
}

/// Parses a status code. Codes below 200 are rejected, because they are not final responses (see
/// `/fault/interim`).
fn status(code: &str) -> Result<StatusCode, NoRoute> {
    let bad = || BadPathValue::Status(code.to_owned());
    let status = StatusCode::from_bytes(code.as_bytes()).map_err(|_| bad())?;
    if status.is_informational() {
        Err(bad().into())
    } else {
        Ok(status)
    }
}

fn redirects(n: &str) -> Result<u32, NoRoute> {
    n.parse()
        .ok()
        .filter(|n| (1..=1_000).contains(n))
        .ok_or_else(|| BadPathValue::Redirects(n.to_owned()).into())
}

fn stall(query: Option<&str>) -> Result<Route, NoRoute> {
    let every = argument(query, "every").map_or(Ok(Duration::from_secs(5)), time)?;
    let lasts = argument(query, "for").map_or(Ok(Duration::from_secs(1)), time)?;
    FreezeSchedule::new(every, lasts)
        .map(Route::Stall)
        .ok_or(NoRoute::Bad(BadPathValue::Pauses))
}

fn argument<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn every_path_has_its_route() {
        let stall =
            |every, lasts| Route::Stall(FreezeSchedule::new(every * MS, lasts * MS).unwrap());
        for (path, query, expected) in [
            ("/", None, Route::Hello),
            ("/", Some("a=b"), Route::Hello),
            ("/bytes/10K", None, Route::Bytes(10_240)),
            ("/chunked/5", None, Route::Chunked(5)),
            (
                "/slow/5",
                None,
                Route::Slow {
                    size: 5,
                    over: 1_000 * MS,
                },
            ),
            (
                "/slow/5",
                Some("over=20ms"),
                Route::Slow {
                    size: 5,
                    over: 20 * MS,
                },
            ),
            (
                "/delay/20ms",
                None,
                Route::Delay {
                    time: 20 * MS,
                    then: AfterDelay::Hello,
                },
            ),
            (
                "/delay/1s/bytes/2",
                None,
                Route::Delay {
                    time: 1_000 * MS,
                    then: AfterDelay::Bytes(2),
                },
            ),
            (
                "/events/3",
                Some("after=1s&form=lines&end=done&gzip=yes"),
                Route::Events(EventPlan {
                    count: 3,
                    after: 1_000 * MS,
                    every: 50 * MS,
                    form: EventForm::Lines,
                    ending: StreamEnding::Done,
                    is_gzip: true,
                }),
            ),
            ("/status/404", None, Route::Status(StatusCode::NOT_FOUND)),
            ("/redirect/2", None, Route::Redirect(2)),
            ("/close", None, Route::Close),
            ("/echo", Some("x"), Route::Echo),
            ("/stall", None, stall(5_000, 1_000)),
            ("/stall", Some("every=2s&for=500ms"), stall(2_000, 500)),
            ("/stall", Some("for=0s&every=2s"), stall(2_000, 0)),
            ("/fault/stall-body", None, Route::Fault(Fault::StallBody)),
        ] {
            assert_eq!(route(path, query), Ok(expected), "{path} {query:?}");
        }
    }

    #[test]
    fn paths_that_lead_nowhere() {
        for path in [
            "",
            "*",
            "//",
            "/x",
            "/bytes",
            "/bytes/1/",
            "/delay/1s/bytes",
            "/delay/1s/bytes/1/x",
            "/delay/1s/x/1",
            "/fault",
            "/fault/",
            "/fault/none",
            "/close/x",
            "/bytes/1/2/3/4/5/6",
        ] {
            assert_eq!(route(path, None), Err(NoRoute::Unknown), "{path}");
        }
        for (path, query) in [
            ("/bytes/", None),
            ("/bytes/-1", None),
            ("/chunked/2G", None),
            ("/delay/20", None),
            ("/delay/1s/bytes/x", None),
            ("/status/99", None),
            ("/status/103", None),
            ("/status/1000", None),
            ("/redirect/0", None),
            ("/stall", Some("every=1s&for=1s")),
            ("/stall", Some("every=x")),
            ("/slow/5", Some("over=1")),
            ("/events/x", None),
            ("/events/5", Some("end=x")),
            ("/events/5", Some("every=1")),
        ] {
            assert!(
                matches!(route(path, query), Err(NoRoute::Bad(_))),
                "{path} {query:?}"
            );
        }
    }

    #[test]
    fn the_list_for_people_names_every_path() {
        for first in [
            "bytes", "chunked", "slow", "events", "delay", "status", "redirect", "close", "echo",
            "stall", "fault",
        ] {
            assert!(PATHS.contains(&format!("\n/{first}")), "{first}");
        }
    }
}
