//! WebSockets of Python's `websockets` and `wsproto`, over cleartext and TLS, and behind proxies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use prony_record::{Outcome, Record};

use crate::load::{BACKENDS, finding, outcomes, run};
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport};

/// Echoes each message. Some messages have another response.
const SCRIPT: &str = r#"
import asyncio, ssl, sys, websockets

folder, tls, clear = sys.argv[1:]
sockets = set()

async def serve(socket, *_):
    sockets.add(socket)
    try:
        await respond(socket)
    finally:
        sockets.discard(socket)
        with open(folder + "/codes", "a") as file:
            print(socket.close_code, file=file)

async def respond(socket):
    async for message in socket:
        if isinstance(message, str) and message.startswith("to all"):
            websockets.broadcast(sockets, message)
        elif message == "parts":
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

/// Starts a Python script with these arguments, in which the places of the server are filled in.
fn start_python(script: &[&str], arguments: &str) -> Server {
    let place = ServerSetup::new();
    // The system's packages belong to the system's Python, which need not be the first in `PATH`.
    let system = Path::new("/usr/bin/python3");
    let python = system.is_file().then(|| system.to_owned());
    let mut command = Command::new(python.unwrap_or_else(|| program(&["python3"])));
    command.args(script);
    command.args(place.fill(arguments).split_whitespace());
    place.start(&mut command)
}

fn start() -> Server {
    start_python(&["-c", SCRIPT], "{folder} {tls} {clear}")
}

/// Starts a proxy for WebSockets of a server that accepts cleartext. The configuration has the
/// server's address in place of `{backend}`.
fn start_proxy(server: &Server, program_name: &str, configuration: &str, words: &str) -> Server {
    let backend = server.url(Transport::Clear, "").replace("http://", "");
    let place = ServerSetup::new();
    let text = place.fill(configuration).replace("{backend}", &backend);
    let file = place.site.file("proxy.conf", &text);
    let mut command = Command::new(program(&[program_name]));
    command.args(words.split_whitespace()).arg(&file);
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(variable, place.site.root());
    }
    place.start(&mut command)
}

/// HAProxy translates WebSockets over HTTP/2 (RFC 8441) to those over HTTP/1.1.
const HAPROXY: &str = "
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  default_backend sockets
frontend tls
  bind 127.0.0.1:{tls} ssl crt {folder}/both.pem alpn h2,http/1.1
frontend clear
  bind 127.0.0.1:{clear}
backend sockets
  server sockets {backend}
";

const NGINX: &str = "
daemon off;
pid {folder}/pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path {folder}/1;
  proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4;
  scgi_temp_path {folder}/5;
  server {
    listen 127.0.0.1:{clear};
    listen 127.0.0.1:{tls} ssl http2;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    location / {
      proxy_pass http://{backend};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection upgrade;
    }
  }
}
";

const CADDY: &str = "{
  admin off
  auto_https off
  storage file_system {folder}/storage
}
https://127.0.0.1:{tls} {
  bind 127.0.0.1
  tls {folder}/certificate.pem {folder}/key.pem
  reverse_proxy {backend}
}
http://127.0.0.1:{clear} {
  bind 127.0.0.1
  reverse_proxy {backend}
}
";

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

/// Repeats a function until it returns something, for at most twenty seconds.
fn eventually<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let pauses = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(20)));
    pauses.take(1_000).find_map(|()| find())
}

/// Returns the sorted lines of a file that the server writes.
fn lines(server: &Server, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(server.site.path(name)).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn websockets_pass_through_proxies() {
    let server = start();
    for (name, proxy) in [
        (
            "HAProxy",
            start_proxy(&server, "haproxy", HAPROXY, "-db -f"),
        ),
        ("nginx", start_proxy(&server, "nginx", NGINX, "-c")),
        (
            "Caddy",
            start_proxy(&server, "caddy", CADDY, "run --adapter caddyfile --config"),
        ),
    ] {
        for way in Transport::BOTH {
            let words = [
                "-n",
                "40",
                "-c",
                "4",
                "--message",
                "hello",
                "--expect-size",
                "5",
            ];
            let record = load(&proxy, way, &words);
            assert_eq!(outcomes(&record), [(Outcome::Ok, 40)], "{name} {way:?}");
            let record = load(&proxy, way, &["-n", "2", "-c", "1", "--message", "close"]);
            assert_eq!(outcomes(&record), [(Outcome::ClosedEarly, 2)], "{name}");
            let errors = finding(&record, "errors");
            assert!(errors.contains("1011 (internal error)"), "{name}: {errors}");
            let words = [
                "-n",
                "5",
                "-c",
                "9",
                "--message",
                "to all {{seq}}",
                "--fan-out",
                "all",
            ];
            let record = load(&proxy, way, &words);
            assert_eq!(record.websocket.unwrap().deliveries, 45, "{name} {way:?}");
        }
    }
    // Each load closes its WebSockets: four and nine. The server closed two per load.
    let codes = eventually(|| {
        let codes = lines(&server, "codes");
        (codes.len() >= 6 * 15).then_some(codes)
    });
    let codes = codes.expect("a code for each WebSocket");
    let of = |code: &str| codes.iter().filter(|it| *it == code).count();
    assert_eq!((of("1011"), of("1000")), (12, 6 * 13), "{codes:?}");
}

#[test]
fn websockets_share_connections_of_http2() {
    let server = start();
    let proxy = start_proxy(&server, "haproxy", HAPROXY, "-db -f");
    for way in Transport::BOTH {
        for io in BACKENDS {
            let words = |words: &'static str| {
                let more = ["--http", "2", "--io", io];
                let words: Vec<&str> = words.split(' ').chain(more).collect();
                load(&proxy, way, &words)
            };
            let record = words("-n 400 -c 3 --streams 5 --message hello --expect-size 5");
            assert_eq!(outcomes(&record), [(Outcome::Ok, 400)], "{way:?} {io}");
            assert_eq!(record.totals.connections_opened, 3);
            assert_eq!(record.negotiated.http.as_deref(), Some("2"));
            let record = words("-n 60 -r 600 -c 2 --streams 2 --message parts --expect-size 22");
            assert_eq!(outcomes(&record), [(Outcome::Ok, 60)], "{way:?} {io}");
            // A WebSocket that the server closes is opened again on the same connection.
            let record = words("-n 6 -c 1 --streams 2 --message close");
            assert_eq!(outcomes(&record), [(Outcome::ClosedEarly, 6)]);
            assert_eq!(record.totals.connections_opened, 1);
            let errors = finding(&record, "errors");
            assert!(errors.contains("1011 (internal error)"), "{errors}");
            let fan_out = "-n 4 -c 2 --streams 4 --message {{uuid}} --fan-out all --timeout 300ms";
            let record = words(fan_out);
            assert_eq!(
                record.websocket.unwrap().deliveries_lost,
                28,
                "an echo reaches one"
            );
        }
    }
    let large = "x".repeat(1_000_000);
    let words = [
        "-n",
        "6",
        "-c",
        "1",
        "--streams",
        "3",
        "--http",
        "2",
        "--message",
        &large,
    ];
    let record = load(&proxy, Transport::Tls, &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 6)]);
    assert_eq!(record.totals.body_bytes_in, 6_000_000);
    let nginx = start_proxy(&server, "nginx", NGINX, "-c");
    let words = ["-n", "1", "-c", "1", "--http", "2", "--message", "x"];
    let record = load(&nginx, Transport::Tls, &words);
    assert_eq!(outcomes(&record), [(Outcome::ConnectFailed, 1)]);
    let errors = finding(&record, "errors");
    assert!(errors.contains("don't announce WebSockets"), "{errors}");
}

fn start_cases() -> Server {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/servers/websocket_cases.py"
    );
    start_python(&[script], "{tls} {clear} {folder}/notes")
}

/// Loads all cases of a group. Returns them with the expected code, and the record.
fn cases(server: &Server, group: &str) -> (Vec<(String, String)>, Record) {
    let cases = lines(server, &format!("notes.{group}"));
    let cases: Vec<(String, String)> = cases
        .iter()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, code)| (name.to_owned(), code.to_owned()))
        .collect();
    let count = cases.len().to_string();
    let mut words = vec!["-n", &count, "-c", "1"];
    for (name, _) in &cases {
        words.extend(["--message", name]);
    }
    let record = load(server, Transport::Clear, &words);
    (cases, record)
}

#[test]
fn the_cases_of_autobahn_have_their_outcomes_and_codes() {
    let server = start_cases();
    let (good, record) = cases(&server, "good");
    let errors = finding(&record, "errors");
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, good.len() as u64)],
        "{errors}"
    );
    let pongs = lines(&server, "notes");
    let of = |name: &str| pongs.iter().filter(|line| line.contains(name)).count();
    assert_eq!(
        (of(" 2-ping-"), of(" 2-pings p"), of("between")),
        (6, 10, 2),
        "{pongs:?}"
    );
    let bytes = "p".repeat(125);
    assert!(
        pongs.contains(&format!("pong 2-ping-125 {bytes}")),
        "{pongs:?}"
    );
    for (group, outcome) in [("bad", Outcome::Protocol), ("ends", Outcome::ClosedEarly)] {
        let (cases, record) = cases(&server, group);
        let expected = [(outcome, cases.len() as u64)];
        assert_eq!(
            outcomes(&record),
            expected,
            "{}",
            finding(&record, "errors")
        );
        // The server notes the end of a WebSocket after the load has closed it.
        let wanted = cases
            .iter()
            .map(|(name, code)| format!("close {name} {code}"));
        let mut missing = Vec::from_iter(wanted);
        let all = eventually(|| {
            let notes = lines(&server, "notes");
            missing.retain(|note| !notes.contains(note));
            missing.is_empty().then_some(())
        });
        assert_eq!(
            all,
            Some(()),
            "{missing:?} of {:?}",
            lines(&server, "notes")
        );
    }
}

#[test]
fn compressed_messages_are_echoed_with_all_parameters() {
    let server = start_cases();
    for parameters in [
        "client_max_window_bits",
        "server_no_context_takeover",
        "client_no_context_takeover; server_max_window_bits=9",
        "server_no_context_takeover; client_no_context_takeover; client_max_window_bits=9",
    ] {
        for (length, kind) in [(0, None), (20, Some("--binary")), (200_000, None)] {
            let message = "a message, ".repeat(length / 10);
            let size = message.len().to_string();
            let mut words = vec!["-n", "20", "-c", "2", "--message", &message];
            words.extend(["--expect-size", &size, "--deflate", parameters]);
            words.extend(kind);
            let record = load(&server, Transport::Clear, &words);
            let errors = finding(&record, "errors");
            assert_eq!(
                outcomes(&record),
                [(Outcome::Ok, 20)],
                "{parameters} {length} {errors}"
            );
            let bytes = record.totals.bytes_out;
            assert!(
                bytes < 20 * (message.len() as u64 / 50 + 40),
                "{parameters}: {bytes}"
            );
        }
    }
}
