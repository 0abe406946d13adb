//! Tests of scripts over real sockets: in cleartext, over TLS, with HTTP/2, and on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_load::script::{
    CaptureSpec, Director, RequestEnd, ResponseView, Script, UserStep, Users,
};
use prony_load::{Control, LoadSpec, Request, RunError, RunResult, Writer, run_with};
use prony_record::{Nanos, Outcome};

use crate::harness::*;

/// A script in which each user repeatedly posts its own body to `/bytes/N` and checks the response.
#[derive(Default)]
struct PostingDirector {
    writer: Option<Writer>,
    users: Mutex<Vec<Users>>,
    responded: AtomicU64,
    ended: AtomicU64,
    connects: AtomicU64,
    handshakes: AtomicU64,
    finished: AtomicU64,
    /// Responses and request ends that violated the script's expectations.
    wrong: Mutex<Vec<String>>,
}

struct PostingScript<'a> {
    load: &'a PostingDirector,
    writer: Writer,
    made: u64,
}

impl Director for PostingDirector {
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String> {
        self.users.lock().unwrap().push(users);
        let Some(writer) = self.writer.clone() else {
            return Err("no writer".to_owned());
        };
        Ok(Box::new(PostingScript {
            load: self,
            writer,
            made: 0,
        }))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: true,
            heads: true,
            body_bytes: 16,
        }
    }
}

impl Script for PostingScript<'_> {
    fn next(&mut self, user: u32, _now: Nanos) -> UserStep {
        self.made += 1;
        if self.made.is_multiple_of(7) {
            return UserStep::Rest(Nanos::from_micros(50));
        }
        let url = format!("/bytes/{}?user={user}", self.made % 40 + 1);
        let headers = [("X-User".to_owned(), user.to_string())];
        // Some bodies are longer than a TCP segment or a TLS record.
        let body = vec![b'x'; [3, 3000, 200_000][(self.made % 3) as usize]];
        let request = self.writer.request("POST", &url, &headers, &body);
        UserStep::Request(request.unwrap())
    }

    fn responded(&mut self, user: u32, response: &ResponseView<'_>) {
        self.load.responded.fetch_add(1, Ordering::Relaxed);
        let head = String::from_utf8_lossy(response.head).to_lowercase();
        let length = format!("content-length: {}\r\n", response.length);
        let is_like = head.starts_with("http/")
            && head.ends_with("\r\n")
            && !head.ends_with("\r\n\r\n")
            && head.contains(&length)
            && response.status == 200
            && response.request.url().ends_with(&format!("?user={user}"))
            && response.body.len() as u64 == response.length.min(16);
        if !is_like {
            let mut wrong = self.load.wrong.lock().unwrap();
            wrong.push(format!("{response:?}"));
        }
    }

    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        self.load.ended.fetch_add(1, Ordering::Relaxed);
        let count = |counter: &AtomicU64, took: Option<Nanos>| {
            counter.fetch_add(u64::from(took.is_some()), Ordering::Relaxed);
        };
        count(&self.load.connects, end.connect);
        count(&self.load.handshakes, end.tls);
        if end.outcome != Outcome::Ok {
            let mut wrong = self.load.wrong.lock().unwrap();
            wrong.push(format!("{end:?}"));
        }
    }

    fn finish(self: Box<Self>) {
        self.load.finished.fetch_add(1, Ordering::Relaxed);
    }
}

fn run_posting(spec: &LoadSpec) -> (Result<RunResult, RunError>, PostingDirector) {
    let load = PostingDirector {
        writer: Some(spec.writer()),
        ..PostingDirector::default()
    };
    let loaded = run_with(spec, &Control::new(2), Some(&load));
    (loaded, load)
}

#[test]
fn a_scripts_own_requests_are_sent_over_every_protocol() {
    for via in [Via::Tcp, Via::Tls] {
        let served = Served::via(via);
        for words in [
            "-c 5 -n 300 -t 2",
            "-c 2 -n 300 -t 2 --http 2 --streams 8",
            "-c 3 -n 60 -t 1 --no-keepalive --http 1.1",
        ] {
            let ca = served.ca();
            let mut all: Vec<_> = words.split(' ').collect();
            if via == Via::Tls {
                all.extend(["--ca", text(&ca)]);
            }
            let spec = resolve(&served.url("/"), &all).unwrap();
            let (loaded, load) = run_posting(&spec);
            let record = loaded.unwrap().record;
            let wrong = load.wrong.lock().unwrap();
            assert!(wrong.is_empty(), "{via:?} {words}: {:?}", wrong[0]);
            let asked = spec.info().requests.unwrap();
            assert_eq!(outcomes(&record), [(Outcome::Ok, asked)]);
            assert_eq!(load.responded.into_inner(), asked);
            assert_eq!(load.ended.into_inner(), asked);
            assert_eq!(load.finished.into_inner(), u64::from(spec.info().threads));
            let opened = record.totals.connections_opened;
            assert_eq!(load.connects.into_inner(), opened);
            let handshakes = if via == Via::Tls { opened } else { 0 };
            assert_eq!(load.handshakes.into_inner(), handshakes);
            let mut users = load.users.into_inner().unwrap();
            users.sort_by_key(|users| users.worker);
            let mut next = 0;
            for users in users {
                assert_eq!(users.first, next);
                next += users.count;
            }
            assert_eq!(u64::from(next), spec.concurrency());
        }
    }
}

#[test]
fn a_load_whose_script_fails_to_start_does_not_begin() {
    let served = Served::clear();
    let spec = resolve(&served.url("/"), &["-c", "4", "-t", "2", "-n", "5"]).unwrap();
    let load = PostingDirector::default();
    let error = run_with(&spec, &Control::new(2), Some(&load)).unwrap_err();
    assert!(matches!(&error, RunError::Script(text) if text == "no writer"));
}

/// A script that sends one request to an `https://` host that the load doesn't list, and then ends.
struct UnlistedHostDirector(Mutex<Option<std::sync::Arc<Request>>>, Mutex<String>);

struct UnlistedHostScript<'a>(&'a UnlistedHostDirector);

impl Director for UnlistedHostDirector {
    fn script(&self, _users: Users) -> Result<Box<dyn Script + '_>, String> {
        Ok(Box::new(UnlistedHostScript(self)))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: true,
            ..CaptureSpec::default()
        }
    }
}

impl Script for UnlistedHostScript<'_> {
    fn next(&mut self, _user: u32, _now: Nanos) -> UserStep {
        let request = self.0.0.lock().unwrap().take();
        request.map_or(UserStep::Leave, UserStep::Request)
    }

    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        *self.0.1.lock().unwrap() = format!("{} {:?}", end.outcome.name(), end.tls.is_some());
    }
}

#[test]
fn a_cleartext_load_may_use_a_tls_target() {
    let (clear, secured) = (Served::clear(), Served::secured());
    let ca = secured.ca();
    let spec = resolve(&clear.url("/"), &["-c", "1", "--ca", text(&ca)]).unwrap();
    let request = spec.writer().request("GET", &secured.url("/"), &[], b"");
    let load = UnlistedHostDirector(Mutex::new(Some(request.unwrap())), Mutex::default());
    let loaded = run_with(&spec, &Control::new(1), Some(&load)).unwrap();
    // The load ended when its user left, not after ten seconds.
    assert!(loaded.record.totals.elapsed_s < 9.0);
    assert_eq!(outcomes(&loaded.record), [(Outcome::Ok, 1)]);
    assert_eq!(*load.1.lock().unwrap(), "ok true");
    // A server with an untrusted certificate fails in TLS, with a reason.
    let spec = resolve(&clear.url("/"), &["-c", "1"]).unwrap();
    let request = spec.writer().request("GET", &secured.url("/"), &[], b"");
    let load = UnlistedHostDirector(Mutex::new(Some(request.unwrap())), Mutex::default());
    let loaded = run_with(&spec, &Control::new(1), Some(&load)).unwrap();
    assert_eq!(outcomes(&loaded.record), [(Outcome::Tls, 1)]);
}
