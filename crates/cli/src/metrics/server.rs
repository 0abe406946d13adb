//! A small HTTP server for a few pages. It limits every resource that a client could exhaust.
//!
//! It runs on one thread. Each connection carries one request, whose head has to arrive within
//! [`HEAD_TIMEOUT`] and fit in [`HEAD_BYTES_MAX`]; the client has to read the response within
//! [`CONNECTION_TIMEOUT`]. If more than [`CONNECTIONS_MAX`] connections are open, the oldest are
//! closed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::ending::Failure;

/// Maximum number of connections that are open at the same time.
const CONNECTIONS_MAX: usize = 32;
/// Maximum size of a request's head in bytes. hyper supports no smaller limit.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of header fields in a request.
const HEADERS_MAX: usize = 64;
/// Timeout for receiving the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example when no file descriptor is available.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Host to listen on if an address contains only a port.
const LOOPBACK: &str = "127.0.0.1";

/// A response to GET or HEAD.
#[derive(Debug)]
pub(crate) struct HttpPage {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl HttpPage {
    pub(crate) fn plain(status: u16, text: impl Into<String>) -> HttpPage {
        HttpPage {
            status,
            content_type: "text/plain",
            text: text.into(),
        }
    }
}

/// A function that returns the page at a path.
type HttpPages = dyn Fn(&str) -> HttpPage + Send + Sync;

/// A running HTTP server, which stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct PageServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PageServer {
    /// Starts a server at `address`.
    ///
    /// # Errors
    ///
    /// Fails if the address is in use or the system refuses to start a thread.
    pub(crate) fn start(
        address: SocketAddr,
        pages: impl Fn(&str) -> HttpPage + Send + Sync + 'static,
    ) -> io::Result<PageServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let pages: Arc<HttpPages> = Arc::new(pages);
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, pages) => {}
                        // The channel is closed, because the [`PageServer`] was dropped.
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(PageServer {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address that the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server doesn't affect any result.
            let _ = thread.join();
        }
    }
}

/// Accepts connections in an endless loop.
async fn accept(listener: TcpListener, pages: Arc<HttpPages>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS_MAX);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(serve(stream, pages.clone())).abort_handle());
    }
}

/// Serves one connection.
async fn serve(stream: TcpStream, pages: Arc<HttpPages>) {
    let service = service_fn(|request| ready(Ok::<_, Infallible>(respond(&request, &pages))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service);
    // Ignore the result: a client that violates HTTP, is too slow or has disconnected doesn't
    // affect the load.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

fn respond(request: &Request<Incoming>, pages: &Arc<HttpPages>) -> Response<Full<Bytes>> {
    let page = match *request.method() {
        Method::GET | Method::HEAD => pages(request.uri().path()),
        _ => HttpPage::plain(405, "only GET and HEAD are supported\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from(page.text)));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or_default();
    let content_type = HeaderValue::from_static(page.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Parses an address. A port without a host means the loopback interface.
pub(super) fn parse_address(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let full = match text.rsplit_once(':') {
        None => format!("{LOOPBACK}:{text}"),
        Some(("", port)) => format!("{LOOPBACK}:{port}"),
        Some(_) => text.to_owned(),
    };
    let mut found = full.to_socket_addrs().map_err(|error| {
        Failure::wrong(format!(
            "{flag} {text}: {error} (expected a port or ADDRESS:PORT, such as 9464 or 0.0.0.0:9464)"
        ))
    })?;
    found
        .next()
        .ok_or_else(|| Failure::wrong(format!("{flag} {text}: this machine has no such address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback() {
        for (text, meant) in [
            ("9464", "127.0.0.1:9464"),
            (":0", "127.0.0.1:0"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.2:1", "127.0.0.2:1"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(parse_address("--metrics", text).unwrap().to_string(), meant);
        }
        for wrong in ["", "port", "70000", "127.0.0.1:"] {
            let error = parse_address("--metrics", wrong).unwrap_err().to_string();
            assert!(error.contains("--metrics"), "{error}");
        }
    }
}
