//! A small site with pages, redirects, cookies and logins, which records requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A server with the site. Dropping this value stops it.
pub(crate) struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

const PAGE: &str = "<html><head><link rel=\"stylesheet\" href=\"/a.css\"><script src=\"/b.js\"></script>\
    </head><body><img src=\"c.png\"><img alt=\"d\" src=\"/d.png\"/><img src=\"/d.png\">\
    <a href=\"/other\">other</a><!-- <img src=\"/none.png\"> --></body></html>";

impl Site {
    /// Starts the server on a free loopback port.
    pub(crate) fn open() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (kept, over) = (asked.clone(), is_over.clone());
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, kept) = (stream.unwrap(), kept.clone());
                // The thread for a connection exits when its client disconnects.
                thread::spawn(move || serve(&stream, &kept));
            }
        });
        Site {
            address,
            asked,
            is_over,
            listening: Some(listening),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests since the previous call, with head and body as received.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Connect once, so that the listening thread wakes up and exits.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let answer = answer(&asked);
        let closes = asked.contains("Connection: close");
        kept.lock().unwrap().push(asked);
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || closes {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    let mut text = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        text.push_str(&line);
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    text.push_str(&String::from_utf8_lossy(&body));
    Some(text)
}

/// Returns the response for a request. It depends only on the path: `/page` embeds resources,
/// `/meta` refreshes to another page, `/to/CODE` redirects to `/there` with that status,
/// `/status/CODE` has that status, `/cookie` sets cookies, `/basic` and `/digest` require a login,
/// and any other path returns two words.
fn answer(asked: &str) -> String {
    let path = asked.split(' ').nth(1).unwrap_or("/");
    let has_login = asked.contains("\r\nAuthorization: ");
    let mut status = "200 OK".to_owned();
    let mut headers = "Content-Type: text/plain\r\n".to_owned();
    let mut body = "two words".to_owned();
    if path == "/page" {
        headers = "Content-Type: text/html; charset=utf-8\r\n".to_owned();
        body = PAGE.to_owned();
    } else if path == "/meta" {
        headers = "Content-Type: text/html\r\n".to_owned();
        body = "<meta http-equiv=\"refresh\" content=\"0; url=/there\">".to_owned();
    } else if let Some(code) = path.strip_prefix("/to/") {
        status = format!("{code} Moved");
        headers.push_str("Location: /there\r\n");
    } else if let Some(code) = path.strip_prefix("/status/") {
        status = format!("{code} So");
        if code == "204" {
            body.clear();
        }
    } else if path == "/cookie" {
        headers.push_str("Set-Cookie: seen=yes; Path=/\r\nSet-Cookie: away=1; Path=/away\r\n");
    } else if path == "/basic" && !has_login {
        status = "401 Who".to_owned();
        headers.push_str("WWW-Authenticate: Basic realm=\"R\"\r\n");
    } else if path == "/digest" && !has_login {
        status = "401 Who".to_owned();
        headers.push_str(
            "WWW-Authenticate: Digest realm=\"R\", nonce=\"abc\", qop=\"auth\", algorithm=MD5\r\n",
        );
    }
    let length = body.len();
    let sent = if asked.starts_with("HEAD ") {
        ""
    } else {
        &body
    };
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{sent}")
}
