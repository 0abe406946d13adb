//! WebSockets of Python's `websockets`, over cleartext and TLS.

use std::path::Path;
use std::process::Command;

use prony_record::{Outcome, Record};

use crate::load::{BACKENDS, finding, outcomes, run};
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport};

/// Echoes each message. Some messages have another response.
const SCRIPT: &str = r#"
import asyncio, ssl, sys, websockets

folder, tls, clear = sys.argv[1:]

async def serve(socket, *_):
    async for message in socket:
        if message == "parts":
            await socket.send(["fragments", " of", " a ", "message"])
        elif message == "ping":
            await (await socket.ping(b"are you there?"))
            await socket.send("pong")
        elif message == "close":
            await socket.close(1011, "no reason")
        else:
            await socket.send(message)

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder + "/certificate.pem", folder + "/key.pem")
    options = {"max_size": None, "ping_interval": 0.05}
    async with websockets.serve(serve, "127.0.0.1", int(clear), **options):
        async with websockets.serve(serve, "127.0.0.1", int(tls), ssl=context, **options):
            await asyncio.Future()

asyncio.run(main())
"#;

fn start() -> Server {
    let place = ServerSetup::new();
    // The system's packages belong to the system's Python, which need not be the first in `PATH`.
    let system = Path::new("/usr/bin/python3");
    let python = system.is_file().then(|| system.to_owned());
    let mut command = Command::new(python.unwrap_or_else(|| program(&["python3"])));
    command.arg("-c").arg(SCRIPT);
    command.args(place.fill("{folder} {tls} {clear}").split_whitespace());
    place.start(&mut command)
}

fn load(server: &Server, way: Transport, words: &[&str]) -> Record {
    let url = server.url(way, "/").replacen("http", "ws", 1);
    run(&url, &[words, &["--insecure"]].concat())
}

#[test]
fn messages_of_all_lengths_are_echoed() {
    let server = start();
    for way in Transport::BOTH {
        for io in BACKENDS {
            for length in [1, 125, 126, 65_535, 65_536, 1_000_000] {
                let (text, size) = ("x".repeat(length), length.to_string());
                let words = ["-n", "20", "-c", "4", "--io", io, "--expect-size", &size];
                for kind in [&["--message", &text][..], &["--message", &text, "--binary"]] {
                    let record = load(&server, way, &[&words[..], kind].concat());
                    assert_eq!(
                        outcomes(&record),
                        [(Outcome::Ok, 20)],
                        "{way:?} {io} {length}"
                    );
                    assert_eq!(record.totals.body_bytes_in, 20 * length as u64);
                }
            }
        }
    }
}

#[test]
fn fragments_pings_and_schedules() {
    let server = start();
    for way in Transport::BOTH {
        for io in BACKENDS {
            for (message, size) in [("parts", "22"), ("ping", "4"), ("K\u{f6}ln", "5")] {
                let words = [
                    "-n",
                    "60",
                    "-r",
                    "600",
                    "-c",
                    "3",
                    "--io",
                    io,
                    "--message",
                    message,
                    "--expect-size",
                    size,
                ];
                let record = load(&server, way, &words);
                assert_eq!(
                    outcomes(&record),
                    [(Outcome::Ok, 60)],
                    "{way:?} {io} {message}"
                );
                assert!(record.totals.connections_opened <= 3);
            }
        }
    }
}

#[test]
fn a_close_is_named_with_its_code() {
    let server = start();
    for way in Transport::BOTH {
        let record = load(&server, way, &["-n", "4", "-c", "1", "--message", "close"]);
        assert_eq!(outcomes(&record), [(Outcome::ClosedEarly, 4)]);
        let errors = finding(&record, "errors");
        assert!(errors.contains("with code 1011"), "{errors}");
    }
}

#[test]
fn idle_websockets_stay_open_while_the_server_pings_them() {
    let server = start();
    for way in Transport::BOTH {
        let words = "-d 1s -c 2 -r 100 --message hello --idle 60";
        let record = load(&server, way, &words.split(' ').collect::<Vec<_>>());
        assert_eq!(record.totals.failed, 0, "{}", finding(&record, "errors"));
        let idle = record.idle.unwrap();
        let counts = (idle.open_at_begin, idle.open_at_end, idle.reopened);
        assert_eq!(counts, (60, 60, 0), "{way:?}");
    }
}
