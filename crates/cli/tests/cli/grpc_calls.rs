//! gRPC calls to a real server, grpcio.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use prony_load::{LoadSettings, compiled_schema};
use prony_record::Record;

use crate::fleet_loads::FleetSetup;
use crate::running::{CommandOutput, Workdir, check_schema};

/// Python that has grpcio: Debian's, where it is installed as a package.
const PYTHON: &str = "/usr/bin/python3";

/// Folder of the server and of the method's description.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grpc")
}

/// A server of shop.Cart. Dropping it kills the server.
struct GrpcServer {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl GrpcServer {
    /// Starts a server with this version of the reflection service, or with `none`, over TLS if
    /// there is a key with its certificate.
    fn start(workdir: &Workdir, reflection: &str, tls: &[&str]) -> GrpcServer {
        let settings = LoadSettings {
            proto: Some(folder().join("shop.proto")),
            ..LoadSettings::default()
        };
        let protoset = workdir.path("shop.binpb");
        std::fs::write(&protoset, compiled_schema(&settings).unwrap()).unwrap();
        let mut child = Command::new(PYTHON)
            .arg(folder().join("server.py"))
            .arg(protoset)
            .arg(reflection)
            .args(tls.iter().map(|name| workdir.path(name)))
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with grpcio is needed (python3-grpcio)");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let port = line.trim().parse();
        let port = port.expect("the server did not start; it needs python3-grpcio");
        GrpcServer { child, out, port }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.port)
    }

    /// Stops the server. Returns the lines about its calls.
    fn calls(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        // The server has already ended if the test asked for its calls.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a load of 20 calls, whose exit status must be this.
fn call(workdir: &Workdir, method: &str, words: &[&str], status: i32) -> (CommandOutput, Record) {
    let method = format!("shop.Cart/{method}");
    let all = [
        "load", "--grpc", &method, "-c", "2", "-n", "20", "--json", "r.json",
    ];
    let all: Vec<&str> = all.into_iter().chain(words.iter().copied()).collect();
    let output = workdir.run(&all).expect(status);
    check_schema("prony.record-1.schema.json", &workdir.json("r.json"));
    (output, Record::from_json(&workdir.read("r.json")).unwrap())
}

fn outcomes(record: &Record) -> Vec<(&'static str, u64)> {
    record.totals.check().unwrap();
    let counts = record.outcomes.iter();
    counts
        .map(|(outcome, count)| (outcome.name(), *count))
        .collect()
}

const TEA: &str = r#"{"name": "tea", "quantity": 3, "price": {"currency": "EUR", "cents": "250"}}"#;

#[test]
fn a_unary_call_carries_message_metadata_and_deadline() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "none", &[]);
    let proto = folder().join("shop.proto");
    let proto = ["--proto", proto.to_str().unwrap()];
    let url = server.url("grpc");
    let metadata = ["--timeout", "30s", "-H", "id-bin: AQID", "--body", TEA];
    let words = [&proto[..], &metadata, &[&url]].concat();
    let (output, record) = call(&workdir, "Add", &words, 0);
    assert_eq!(outcomes(&record), [("ok", 20)]);
    assert!(output.out.contains("gRPC shop.Cart/Add"), "{}", output.out);
    let gzip = [&proto[..], &["--grpc-gzip", "--body", TEA, &url]].concat();
    assert_eq!(outcomes(&call(&workdir, "Add", &gzip, 0).1), [("ok", 20)]);
    let calls = server.calls();
    assert_eq!(calls.len(), 40, "{calls:?}");
    let (first, last) = (&calls[0], &calls[39]);
    let message = r#"{"name": "tea", "quantity": 3, "price": {"currency": "EUR", "cents": "250"}}"#;
    assert_eq!(
        first,
        &format!("Add 30 {{'id-bin': b'\\x01\\x02\\x03'}} {message}")
    );
    assert_eq!(last, &format!("Add 20 {{}} {message}"));
}

#[test]
fn calls_fail_by_the_name_of_their_status() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "none", &[]);
    let url = server.url("http");
    let words = ["--protoset", "shop.binpb", &url];
    for (code, name) in [(5, "grpc_not_found"), (14, "grpc_unavailable")] {
        let body = format!("{{\"name\": \"fail-{code}\"}}");
        let (output, record) = call(
            &workdir,
            "Add",
            &[&["--body", &body], &words[..]].concat(),
            1,
        );
        assert_eq!(outcomes(&record), [(name, 20)]);
        assert!(output.out.contains(name), "{}", output.out);
        assert!(output.out.contains("\"as asked\""), "{}", output.out);
    }
    // The deadline passes at the server before the load gives up.
    let late = ["-H", "grpc-timeout: 20m", "--body", r#"{"name": "slow"}"#];
    let (_, record) = call(&workdir, "Add", &[&late[..], &words[..]].concat(), 1);
    // grpcio sometimes sends the head of the response after the status, which HTTP/2 forbids.
    let counts = outcomes(&record).into_iter();
    let others = counts.filter(|(name, _)| *name != "protocol");
    assert!(others.map(|(name, _)| name).eq(["grpc_deadline_exceeded"]));
    let large = [
        "--grpc-message-max",
        "10K",
        "--body",
        r#"{"name": "large"}"#,
    ];
    let (_, record) = call(&workdir, "Add", &[&large[..], &words[..]].concat(), 1);
    assert_eq!(outcomes(&record), [("grpc_message_size", 20)]);
    // The server doesn't implement a method that its description has.
    let text =
        "syntax = \"proto3\"; package shop; message M {} service Cart { rpc Pay(M) returns (M); }";
    workdir.write("other.proto", text);
    let (_, record) = call(&workdir, "Pay", &["--proto", "other.proto", &url], 1);
    assert_eq!(outcomes(&record), [("grpc_unimplemented", 20)]);
}

#[test]
fn streams_in_each_direction_are_calls() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "none", &[]);
    let url = server.url("http");
    let words = ["--protoset", "shop.binpb", &url, "--body"];
    let three = r#"{"name": "tea", "quantity": 3}"#;
    let (output, record) = call(&workdir, "Watch", &[&words[..], &[three]].concat(), 0);
    let events = record.events.as_ref().unwrap();
    assert_eq!((events.events, events.events_per_response), (60, Some(3.0)));
    assert!(events.first_event_us.p50 > 0.0 && events.event_gap_us.p50 > 0.0);
    assert!(output.out.contains("first event"), "{}", output.out);
    let list = r#"[{"quantity": 2}, {"quantity": 3}]"#;
    let (_, record) = call(&workdir, "AddAll", &[&words[..], &[list]].concat(), 0);
    assert_eq!(outcomes(&record), [("ok", 20)]);
    let (_, record) = call(&workdir, "AddEach", &[&words[..], &[list]].concat(), 0);
    assert_eq!(record.events.as_ref().unwrap().events, 40);
    // The stream fails after its messages.
    let fails = r#"{"name": "fail-8", "quantity": 2}"#;
    let (_, record) = call(&workdir, "Watch", &[&words[..], &[fails]].concat(), 1);
    assert_eq!(outcomes(&record), [("grpc_resource_exhausted", 20)]);
    assert_eq!(record.events.as_ref().unwrap().failed_in_gap, 20);
}

#[test]
fn the_server_describes_its_methods_over_tls() {
    let workdir = Workdir::new();
    let certificate = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    let made = workdir.shell(certificate).output().unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stdout)
    );
    for version in ["v1", "v1alpha"] {
        let server = GrpcServer::start(&workdir, version, &["key.pem", "cert.pem"]);
        let url = server.url("grpcs");
        let words = ["--insecure", "--body", TEA, &url];
        let (_, record) = call(&workdir, "Add", &words, 0);
        assert_eq!(outcomes(&record), [("ok", 20)]);
        assert!(record.negotiated.tls.is_some());
        let method = ["load", "--grpc", "shop.Cart/Sub", "--insecure", &url];
        let error = workdir.run(&method).expect(2).err;
        assert!(error.contains("has Add, Watch, AddAll, AddEach"), "{error}");
        let service = ["load", "--grpc", "shop.Basket/Add", "--insecure", &url];
        let error = workdir.run(&service).expect(3).err;
        assert!(error.contains("not found: shop.Basket"), "{error}");
    }
    let server = GrpcServer::start(&workdir, "none", &[]);
    let words = ["load", "--grpc", "shop.Cart/Add", &server.url("http")];
    let error = workdir.run(&words).expect(3).err;
    let hint =
        "the server has no reflection service; describe the method with --proto or --protoset";
    assert!(error.contains(hint), "{error}");
}

#[test]
fn messages_take_values_from_rows() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "none", &[]);
    workdir.write("items.csv", "name,n\ntea,1\n\"co\"\"ffee\",20\n");
    let body = r#"{"name": "{{name|json}}", "quantity": {{n}}}"#;
    let url = server.url("http");
    let words = ["--protoset", "shop.binpb", "--data", "items.csv", "--body"];
    let (_, record) = call(&workdir, "Add", &[&words[..], &[body, &url]].concat(), 0);
    assert_eq!(outcomes(&record), [("ok", 20)]);
    let load = ["load", "--grpc", "shop.Cart/Add"];
    let wrong = [
        &load[..],
        &words[..],
        &[r#"{"quantity": "{{name}}"}"#, &url],
    ]
    .concat();
    let error = workdir.run(&wrong).expect(2).err;
    assert!(error.contains("--body: row 1: not a shop.Item"), "{error}");
    let large = r#"{"quantity": {{random(1, 3000000000)}}}"#;
    let changing = [&load[..], &words[..], &[large, &url]].concat();
    let error = workdir.run(&changing).expect(2).err;
    assert!(error.contains("--body: not a shop.Item"), "{error}");
    let error = workdir.run(&["load", &server.url("grpc")]).expect(2).err;
    assert!(error.contains("with --grpc SERVICE/METHOD"), "{error}");
    let calls = server.calls();
    let count = |item: &str| calls.iter().filter(|line| line.contains(item)).count();
    assert_eq!(count(r#"{"name": "tea", "quantity": 1}"#), 10);
    assert_eq!(count(r#"{"name": "co\"ffee", "quantity": 20}"#), 10);
}

#[test]
fn each_call_has_its_own_values() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "none", &[]);
    workdir.write("tags.csv", "tag\nred\ngreen\n");
    let body = r#"{"name": "{{uuid}}", "quantity": {{seq}}, "tags": ["{{tag}}"],
        "price": {"cents": {{random(7, 7)}}}}"#;
    let url = server.url("http");
    let words = ["--protoset", "shop.binpb", "--data", "tags.csv", "--body"];
    for more in [&[][..], &["--grpc-gzip"]] {
        let words = [&words[..], &[body], more, &[&url]].concat();
        let (_, record) = call(&workdir, "Add", &words, 0);
        assert_eq!(outcomes(&record), [("ok", 20)]);
    }
    let calls = server.calls();
    assert_eq!(calls.len(), 40, "{calls:?}");
    let field = |line: &str, name: &str| {
        let json = line.split_once("{} ").unwrap().1;
        let message: serde_json::Value = serde_json::from_str(json).unwrap();
        message[name].to_string()
    };
    let distinct = |name: &str| {
        let values = calls[..20].iter().map(|line| field(line, name));
        values.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(distinct("name").len(), 20);
    assert_eq!(distinct("quantity").len(), 20);
    assert!(distinct("quantity").contains("20"));
    let tags = [r#"["green"]"#, r#"["red"]"#].map(str::to_owned);
    assert_eq!(distinct("tags"), tags.into());
    assert_eq!(field(&calls[39], "price"), r#"{"cents":"7"}"#);
}

#[test]
fn lines_of_a_list_and_steps_of_a_journey_are_calls() {
    let workdir = Workdir::new();
    let server = GrpcServer::start(&workdir, "v1", &[]);
    let url = server.url("http");
    workdir.write(
        "calls.txt",
        r#"{"grpc": "shop.Cart/Add", "body": "{\"name\": \"listed-{{seq}}\"}", "weight": 1}
           {"grpc": "shop.Cart/Watch", "body": "{\"quantity\": 2}", "headers": {"id-bin": "AQID"}}"#,
    );
    let load = ["load", "-c", "2", "-n", "20", "--json", "r.json", &url];
    let list = ["--urls", "calls.txt", "--order", "sequence"];
    let weights = workdir.run(&[&load[..], &list].concat()).expect(2).err;
    assert!(weights.contains("a weight has no effect"), "{weights}");
    workdir.run(&[&load[..], &list[..2]].concat()).expect(0);
    let record = Record::from_json(&workdir.read("r.json")).unwrap();
    assert_eq!(outcomes(&record), [("ok", 20)]);
    let streams = record.events.as_ref().unwrap();
    assert_eq!(streams.events_per_response, Some(2.0));
    assert!(streams.events < 40, "unary calls have no events");
    // The total of the first call is in the message of the second one.
    workdir.write(
        "steps.toml",
        r#"
        [[step]]
        grpc = "shop.Cart/Add"
        body = '{"name": "tea", "quantity": 3, "price": {"currency": "EUR", "cents": 250}}'
        expect_body = "EUR"
        capture.cents = { json = "/sum/cents" }
        capture.items = { json = "/items" }
        [[step]]
        name = "watch"
        grpc = "shop.Cart/Watch"
        body = '{"name": "cost-{{cents}}", "quantity": {{items}}}'
        expect_body = { regex = '^\[.*"items":3.*,.*,.*\]$' }
        "#,
    );
    let steps = ["--steps", "steps.toml"];
    for more in [&[][..], &["--grpc-gzip"]] {
        let words = [&load[..], &steps, more].concat();
        let output = workdir.run(&words).expect(0);
        let record = Record::from_json(&workdir.read("r.json")).unwrap();
        assert_eq!(outcomes(&record), [("ok", 40)], "{}", output.out);
        assert_eq!(record.journeys.as_ref().unwrap().completed, 20);
        assert!(output.out.contains("shop.Cart/Add"), "{}", output.out);
    }
    workdir.write(
        "steps.toml",
        &workdir.read("steps.toml").replace("EUR\"\n", "USD\"\n"),
    );
    let output = workdir.run(&[&load[..], &steps].concat()).expect(1).out;
    assert!(output.contains("USD"), "{output}");
    workdir.write("wrong.toml", "[[step]]\ngrpc = \"shop.Cart/Sub\"\n");
    let wrong = ["load", "--steps", "wrong.toml", &url];
    let error = workdir.run(&wrong).expect(2).err;
    assert!(
        error.contains("wrong.toml:1: ") && error.contains("it has Add"),
        "{error}"
    );
    let calls = server.calls();
    assert!(
        calls.iter().any(|line| line.contains("listed-1")),
        "{calls:?}"
    );
    assert!(
        calls.iter().any(|line| line.contains("cost-750")),
        "{calls:?}"
    );
}

#[test]
fn comparisons_plans_and_agents_call_methods() {
    let ground = FleetSetup::new(1);
    let workdir = &ground.workdir;
    let server = GrpcServer::start(workdir, "v1", &[]);
    let url = server.url("http");
    let method = ["--grpc", "shop.Cart/Add", "--body", TEA];
    let load = [
        "load", "--agents", "1", "-c", "2", "-n", "20", "--json", "a.json", &url,
    ];
    let words = [&load[..], &method].concat();
    workdir.run(&ground.words(&words)).expect(0);
    let record = Record::from_json(&workdir.read("a.json")).unwrap();
    assert_eq!(outcomes(&record), [("ok", 20)]);
    let other = GrpcServer::start(workdir, "none", &[]);
    let urls = [&*url, &other.url("http")];
    let lengths = [
        "--blocks", "1", "-d", "500ms", "--warmup", "0s", "--out", "compared",
    ];
    let compare = [&["compare"][..], &urls, &method, &lengths].concat();
    workdir.run(&compare).expect(0);
    assert!(
        workdir
            .read("compared/plan.toml")
            .contains("grpc = \"shop.Cart/Add\"")
    );
    assert!(other.calls().len() > 10);
    std::fs::create_dir(workdir.path("protos")).unwrap();
    for name in ["shop.proto", "money.proto"] {
        std::fs::copy(folder().join(name), workdir.path("protos").join(name)).unwrap();
    }
    let plan = r#"
        name = "calls"
        baseline = { quantity = "2" }
        [factors]
        quantity = ["2", "3"]
        [service.one]
        remote = "localhost:PORT"
        [load]
        target = "one"
        grpc = "shop.Cart/Watch"
        proto = "protos/shop.proto"
        body = '{"quantity": {{ quantity }}}'
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
    assert!(
        workdir
            .path("planned/includes/protos/money.proto")
            .is_file()
    );
    // Imports in another folder are copied, too, and agents get the whole description.
    let moved = workdir.path("imports");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(
        workdir.path("protos/money.proto"),
        moved.join("money.proto"),
    )
    .unwrap();
    let error = workdir.run(&["compare", "plan.toml"]).expect(2).err;
    assert!(error.contains("money.proto"), "{error}");
    let folder = "proto_path = \"./imports\"\nagents = 1\nproto =";
    workdir.write("plan.toml", &plan.replace("proto =", folder));
    let by_agents = ["compare", "plan.toml", "--out", "by-agents"];
    workdir.run(&ground.words(&by_agents)).expect(0);
    assert!(
        workdir
            .path("by-agents/includes/imports/money.proto")
            .is_file()
    );
    ground.end();
}
