//! What nginx says of itself: its page of counters, and the most that one of them came to while a
//! tool ran.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long nginx may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a watched page is asked for.
const GLANCE: Duration = Duration::from_millis(50);

/// The page of nginx's `stub_status`, and how often it was asked for.
#[derive(Debug, Clone)]
pub(super) struct StatusPage {
    address: SocketAddrV4,
    questions: u64,
    /// Connections on which nothing was asked.
    visits: u64,
}

/// What the page says, but for the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Connections open now.
    pub(super) open: u64,
    /// Connections since the start.
    pub(super) connections: u64,
    /// Requests since the start.
    pub(super) requests: u64,
    /// Requests that nginx is at now, a stream of HTTP/2 each.
    pub(super) at_once: u64,
}

impl StatusPage {
    pub(super) fn new(port: u16) -> StatusPage {
        StatusPage {
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            questions: 0,
            visits: 0,
        }
    }

    /// Whether nginx listens; it isn't asked anything.
    pub(super) fn is_there(&mut self) -> bool {
        let there = TcpStream::connect(self.address).is_ok();
        self.visits += u64::from(there);
        there
    }

    /// Asks for it.
    pub(super) fn read(&mut self) -> Result<Status, String> {
        let page = ask(self.address).map_err(|e| format!("nginx's status page: {e}"))?;
        self.questions += 1;
        let status = parse(&page).ok_or_else(|| format!("nginx's status page says:\n{page}"))?;
        Ok(status.without(self.questions, self.visits))
    }

    /// Runs `task` and asks again and again meanwhile: what the task returns, and the most requests
    /// that nginx was at at once.
    pub(super) fn watch<T>(&mut self, task: impl FnOnce() -> T) -> (T, Result<u64, String>) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Ordering::Relaxed) {
                    most = most.max(self.read()?.at_once);
                    std::thread::sleep(GLANCE);
                }
                Ok(most)
            });
            let result = task();
            done.store(true, Ordering::Relaxed);
            let most = watcher.join();
            (
                result,
                most.unwrap_or_else(|_| Err("the watcher broke off".to_string())),
            )
        })
    }
}

impl Status {
    /// The last question is open and being answered, as it came over a connection of its own.
    fn without(self, questions: u64, visits: u64) -> Status {
        Status {
            open: self.open.saturating_sub(1),
            connections: self.connections.saturating_sub(questions + visits),
            requests: self.requests.saturating_sub(questions),
            at_once: self.at_once.saturating_sub(1),
        }
    }
}

fn ask(address: SocketAddrV4) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
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
    fn the_page_is_read_and_the_questions_taken_off() {
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
            connections: 60,
            requests: 12_340,
            at_once: 514,
        };
        assert_eq!(status.without(5, 1), expected);
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }

    #[test]
    fn the_most_at_once_is_seen_while_a_task_runs() {
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
        // A visit without a question ends the server.
        assert!(page.is_there());
        server.join().unwrap();
    }
}
