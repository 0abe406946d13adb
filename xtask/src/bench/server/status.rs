//! Client of nginx's status page, which counts connections and requests. It also finds the largest
//! number of concurrent requests during a run.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit for nginx to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two reads of the page by [`StatusPage::watch`].
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Client of nginx's `stub_status` page, with counters of its own requests.
#[derive(Debug, Clone)]
pub(super) struct StatusPage {
    address: SocketAddrV4,
    own_requests: u64,
}

/// Counters from the page, without the client's own requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Number of open connections.
    pub(super) open: u64,
    /// Number of connections accepted since nginx started.
    pub(super) connections: u64,
    /// Number of requests since nginx started.
    pub(super) requests: u64,
    /// Number of requests in progress; for HTTP/2, number of open streams.
    pub(super) at_once: u64,
}

impl StatusPage {
    pub(super) fn new(port: u16) -> StatusPage {
        StatusPage {
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            own_requests: 0,
        }
    }

    /// Reads the counters.
    pub(super) fn read(&mut self) -> Result<Status, String> {
        let page = ask(self.address).map_err(|e| format!("nginx's status page: {e}"))?;
        self.own_requests += 1;
        let status = parse(&page);
        let status = status.ok_or_else(|| format!("nginx's status page is invalid:\n{page}"))?;
        Ok(status.without(self.own_requests))
    }

    /// Runs `task` while polling the page. Returns the task's result and the largest number of
    /// concurrent requests.
    pub(super) fn watch<T>(&mut self, task: impl FnOnce() -> T) -> (T, Result<u64, String>) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Ordering::Relaxed) {
                    most = most.max(self.read()?.at_once);
                    std::thread::sleep(POLL_INTERVAL);
                }
                Ok(most)
            });
            let result = task();
            done.store(true, Ordering::Relaxed);
            let panicked = |_| Err("the thread that polls the status page panicked".to_owned());
            (result, watcher.join().unwrap_or_else(panicked))
        })
    }
}

impl Status {
    /// Subtracts the client's own requests. The current request is still open, on its own
    /// connection.
    fn without(self, own_requests: u64) -> Status {
        Status {
            open: self.open.saturating_sub(1),
            connections: self.connections.saturating_sub(own_requests),
            requests: self.requests.saturating_sub(own_requests),
            at_once: self.at_once.saturating_sub(1),
        }
    }
}

fn ask(address: SocketAddrV4) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

fn parse(page: &str) -> Option<Status> {
    let mut lines = page.lines().skip_while(|l| !l.starts_with("Active"));
    let open = lines.next()?.split_whitespace().last()?.parse().ok()?;
    let mut counts = lines.nth(1)?.split_whitespace();
    let connections = counts.next()?.parse().ok()?;
    let requests = counts.nth(1)?.parse().ok()?;
    let mut states = lines.next()?.split_whitespace();
    let reading: u64 = states.nth(1)?.parse().ok()?;
    let writing: u64 = states.nth(1)?.parse().ok()?;
    Some(Status {
        open,
        connections,
        requests,
        at_once: reading + writing,
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PAGE: &str = "HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nActive connections: 65 \nserver \
                        accepts handled requests\n 66 67 12345 \nReading: 2 Writing: 513 Waiting: \
                        64 \n";

    #[test]
    fn the_page_is_read_and_the_own_requests_taken_off() {
        let status = parse(PAGE).unwrap();
        let expected = Status {
            open: 65,
            connections: 66,
            requests: 12_345,
            at_once: 515,
        };
        assert_eq!(status, expected);
        let expected = Status {
            open: 64,
            connections: 61,
            requests: 12_340,
            at_once: 514,
        };
        assert_eq!(status.without(5), expected);
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }

    #[test]
    fn the_maximum_is_sampled_while_a_task_runs() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut page = StatusPage::new(listener.local_addr().unwrap().port());
        let (told, heard) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            for writing in [1, 129].into_iter().chain(std::iter::repeat(17)) {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 18];
                if stream.read_exact(&mut question).is_err() {
                    return;
                }
                let page = PAGE.replace("2 Writing: 513", &format!("0 Writing: {writing}"));
                stream.write_all(page.as_bytes()).unwrap();
                let _ = told.send(());
            }
        });
        let (count, most) = page.watch(|| heard.iter().take(3).count());
        assert_eq!((count, most), (3, Ok(128)));
        // The test server exits after a connection without a request.
        drop(TcpStream::connect(page.address).unwrap());
        server.join().unwrap();
    }
}
