//! A login and a streamed answer of a FastAPI application behind nginx and Caddy.

use std::process::Command;

use prony_record::Outcome;

use crate::load::{finding, outcomes};
use crate::process::{Port, Process, program};
use crate::server::{Server, Transport, text};
use crate::{caddy, nginx};

const APPLICATION: &str = include_str!("fastapi_app.py");

const STEPS: &str = r#"
[[step]]
name = "login form"
url = "/login"
capture.csrf = { field = "csrf" }

[[step]]
name = "login"
url = "/login"
form = { user = "{{ user }}", password = "{{ password }}", csrf = "{{ csrf }}" }
expect_status = 303

[[step]]
name = "token"
url = "/token"
capture.token = { json = "/data/token" }
expect_body = { regex = '"user": *"(ann|bob)"' }

[[step]]
name = "answer"
url = "/answer"
headers = { Authorization = "Bearer {{ token }}" }
stream = true
"#;

/// Starts the application, and a proxy in front of it. The application ends when it is dropped.
fn start(proxy: &str) -> (Server, Process, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.py"), APPLICATION).unwrap();
    let port = Port::new();
    let mut command = Command::new(program(&["uvicorn"]));
    command.args(["shop:app", "--log-level", "warning", "--port"]);
    command.arg(port.number.to_string());
    command.arg("--app-dir").arg(folder.path());
    let process = Process::start(&mut command, &folder.path().join("log"), &[&port]);
    let address = format!("127.0.0.1:{}", port.number);
    let server = match proxy {
        "nginx" => nginx::start(&format!(
            "location / {{ proxy_pass http://{address}; proxy_http_version 1.1; \
             proxy_buffering off; }}"
        )),
        _ => caddy::start_with(&format!(
            "reverse_proxy {address} {{\n flush_interval -1\n }}"
        )),
    };
    (server, process, folder)
}

#[test]
fn a_login_journey_ends_with_a_streamed_answer() {
    for proxy in ["nginx", "Caddy"] {
        let (server, _application, folder) = start(proxy);
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            text(&path).to_owned()
        };
        let steps = file("journey.toml", STEPS);
        let users = file("users.csv", "user,password\nann,secret\nbob,secret\n");
        let flags = format!(
            "--steps {steps} --data {users} --events sse --end-marker [DONE] \
             --event-field choices.0.delta.content -n 20"
        );
        for (transport, words) in [
            (Transport::Clear, "-c 4 --http 1.1"),
            (Transport::Tls, "-c 2 --streams 4 --http 2"),
        ] {
            let case = format!("{proxy} {words}");
            // nginx speaks HTTP/2 only on its cleartext port.
            let transport = match proxy {
                "nginx" if transport == Transport::Clear => Transport::Tls,
                _ => transport,
            };
            let record = server.load(transport, "/", &format!("{flags} {words}"));
            let errors = finding(&record, "errors");
            assert_eq!(outcomes(&record), [(Outcome::Ok, 80)], "{case}: {errors}");
            let journeys = record.journeys.as_ref().unwrap();
            assert_eq!((journeys.completed, journeys.failed), (20, 0), "{case}");
            let events = record.events.as_ref().unwrap();
            let seen = (events.events, events.chars, events.events_per_response);
            assert_eq!(seen, (80, Some(20 * 18), Some(4.0)), "{case}");
            let times = record.distribution("first_event").unwrap();
            assert_eq!(times.count(), 20, "{case}");
        }
        // A wrong password ends the journey at the login.
        let users = file("users.csv", "user,password\nann,wrong\n");
        let flags = format!("--steps {steps} --data {users} --events sse -c 2 -n 5");
        let record = server.load(Transport::Tls, "/", &flags);
        let failed = [(Outcome::Ok, 5), (Outcome::UnexpectedStatus, 5)];
        assert_eq!(outcomes(&record), failed, "{proxy}");
        let steps = &record.entries.as_ref().unwrap().each;
        assert_eq!((steps[1].name.as_str(), steps[1].failed), ("login", 5));
        // Failed steps that are no streams say nothing about events.
        assert_eq!(record.events.unwrap().failed, 0);
    }
}
