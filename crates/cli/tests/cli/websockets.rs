//! WebSocket loads of all commands, against Python's `websockets`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use prony_record::Record;

use crate::fleet_loads::FleetSetup;
use crate::running::{Workdir, check_schema};

/// Python that has websockets: Debian's, where it is installed as a package.
const PYTHON: &str = "/usr/bin/python3";
/// Echoes each message, or sends it to all if it says so.
const SCRIPT: &str = r#"
import asyncio, websockets

sockets = set()

async def serve(socket, *_):
    sockets.add(socket)
    try:
        async for message in socket:
            if isinstance(message, str) and message.startswith("to all"):
                websockets.broadcast(sockets, message)
            else:
                await socket.send(message)
    except websockets.ConnectionClosed:
        pass
    sockets.discard(socket)

async def main():
    async with websockets.serve(serve, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()

asyncio.run(main())
"#;

/// A server of WebSockets. Dropping it kills the server.
struct EchoServer {
    child: Child,
    port: u16,
}

impl EchoServer {
    fn start() -> EchoServer {
        let mut child = Command::new(PYTHON)
            .args(["-c", SCRIPT])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with websockets is needed (python3-websockets)");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let port = line.trim().parse();
        let port = port.expect("the server did not start; it needs python3-websockets");
        EchoServer { child, port }
    }

    fn url(&self) -> String {
        format!("ws://127.0.0.1:{}/", self.port)
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn loads_have_conditions_reports_and_fan_out() {
    let workdir = Workdir::new();
    let server = EchoServer::start();
    let url = server.url();
    let load = ["load", "-c", "2", "-n", "20", "--json", "r.json", &url];
    let run = |words: &[&str], status| {
        let run = workdir.run(&[&load[..], words].concat()).expect(status);
        let json = workdir.read("r.json");
        let document = serde_json::from_str(&json).unwrap();
        check_schema("prony.record-1.schema.json", &document);
        let record = Record::from_json(&json).unwrap();
        (run.out, record)
    };
    let conditions = ["--require", "failed<1%", "--fail-if", "p99>1us"];
    let words = [&["--message", "{{seq}}", "--deflate"], &conditions[..]].concat();
    let (out, record) = run(&words, 1);
    assert!(out.contains("20 messages: 20 ok"), "{out}");
    assert_eq!(record.conditions.len(), 2);
    let words = ["--message", "to all {{uuid}}", "--fan-out=others"];
    let (out, record) = run(&words, 0);
    assert!(out.contains("20 messages arrived, none was lost"), "{out}");
    assert!(
        out.contains("messages of the server arrived while"),
        "{out}"
    );
    assert_eq!(record.websocket.unwrap().deliveries, 20);
    let html = [
        "load",
        "-n",
        "20",
        "-c",
        "2",
        "--html",
        "r.html",
        "--message",
        "x",
        &url,
    ];
    workdir.run(&html).expect(0);
    assert!(workdir.read("r.html").contains("WebSocket"));
}

#[test]
fn comparisons_plans_and_agents_send_messages() {
    let ground = FleetSetup::new(1);
    let workdir = &ground.workdir;
    let (server, other) = (EchoServer::start(), EchoServer::start());
    let url = server.url();
    let message = ["--message", "hello {{seq}}"];
    let load = [
        "load", "--agents", "1", "-c", "2", "-n", "20", "--json", "a.json", &url,
    ];
    let words = [&load[..], &message].concat();
    workdir.run(&ground.words(&words)).expect(0);
    let record = Record::from_json(&workdir.read("a.json")).unwrap();
    assert_eq!((record.totals.ok, record.totals.failed), (20, 0));
    assert_eq!(record.websocket.unwrap().unawaited, 0);
    let lengths = [
        "--blocks", "1", "-d", "500ms", "--warmup", "0s", "--out", "compared",
    ];
    let urls = ["compare", &url, &other.url()].map(str::to_owned);
    let urls = urls.each_ref().map(String::as_str);
    let compare = [&urls[..], &message, &lengths].concat();
    let compared = workdir.run(&compare).expect(0);
    assert!(compared.out.contains(&server.url()), "{}", compared.out);
    let plan = workdir.read("compared/plan.toml");
    assert!(plan.contains("scheme = \"ws\""), "{plan}");
    workdir.write("messages.txt", "one\ntwo {{seq}}\n");
    workdir.write("whole.bin", "\u{1}");
    let plan = r#"
        name = "sockets"
        baseline = { kept = "client" }
        [factors]
        kept = ["client", "server"]
        [service.one]
        remote = "127.0.0.1:PORT"
        [load]
        target = "one"
        messages = "messages.txt"
        message_file = ["whole.bin"]
        deflate = "{{ kept }}_no_context_takeover"
        connections = 2
        [trials]
        blocks = 1
        duration = "500ms"
        warmup = "0s"
    "#;
    let plan = plan.replace("PORT", &server.port.to_string());
    workdir.write("plan.toml", &plan);
    workdir
        .run(&["compare", "plan.toml", "--out", "planned"])
        .expect(0);
    for file in ["messages.txt", "whole.bin"] {
        assert!(workdir.path(&format!("planned/includes/{file}")).is_file());
    }
    ground.end();
}
