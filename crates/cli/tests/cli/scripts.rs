//! `--script`: loads whose requests come from Lua scripts with wrk's hooks.

use std::io::Write;

use prony_load::Sha256;
use serde_json::Value;

use crate::compares::TINY;
use crate::recorder::Recorder;
use crate::running::{Origin, Workdir, check_schema, names};

/// A script that alternates between a GET and a POST, with a different path for each.
const ALTERNATING: &str = r#"
local sent = 0
function request()
   sent = sent + 1
   if sent % 2 == 0 then return wrk.format("POST", "/echo", nil, "body") end
   return wrk.format(nil, "/bytes/13")
end
"#;

fn load(workdir: &Workdir, script: &str, url: &str, more: &str, status: i32) -> (String, String) {
    workdir.write("load.lua", script);
    let args = ["load", url, "--script", "load.lua"];
    let more = more.split_whitespace();
    let args: Vec<&str> = args.into_iter().chain(more).collect();
    let output = workdir.run(&args).expect(status);
    (output.out, output.err)
}

#[test]
fn a_script_may_come_from_a_pipe() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(ALTERNATING.as_bytes()).unwrap();
    drop(writer);
    let url = recorder.url("/");
    let args = ["load", &url, "--script", "/dev/stdin", "-n", "4", "-c", "1"];
    let mut command = workdir.command(&args);
    let output = command.args(["--json", "r.json"]).stdin(reader).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(recorder.take().len(), 4);
    let hash = Sha256::of(ALTERNATING.as_bytes()).to_string();
    assert_eq!(workdir.json("r.json")["load"]["script_sha256"], hash);
}

#[test]
fn a_script_writes_the_requests() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let url = recorder.url("/");
    let more = "-n 10 -c 1 --json r.json";
    let (out, _) = load(&workdir, ALTERNATING, &url, more, 0);
    assert!(out.contains("10 requests: 10 ok"), "{out}");
    assert!(out.contains("script load.lua"), "{out}");
    let record = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["load"]["script"], "load.lua");
    let hash = Sha256::of(ALTERNATING.as_bytes()).to_string();
    assert_eq!(record["load"]["script_sha256"], hash);
    let taken = recorder.take();
    // prony calls request() once before the load, to check the script.
    let lines: Vec<&str> = taken.iter().map(|it| it.line.as_str()).collect();
    assert_eq!(lines[0], "POST /echo HTTP/1.1");
    assert_eq!(lines[1], "GET /bytes/13 HTTP/1.1");
    assert_eq!(lines.len(), 10);
    assert_eq!(taken[0].body, b"body");
}

#[test]
fn the_settings_are_in_the_table_and_arguments_go_to_init() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let script = r#"
function init(args)
   wrk.headers["X-Args"] = table.concat({ args[1], args[2] }, "+")
   wrk.path = wrk.path .. "&of=" .. wrk.scheme .. "-" .. wrk.method
end
"#;
    let url = recorder.url("/a?b=c");
    let more = "-n 1 -c 1 -X PUT -H A:b --user me:pw --body text -- one -two";
    load(&workdir, script, &url, more, 0);
    let taken = recorder.take();
    assert_eq!(taken[0].line, "PUT /a?b=c&of=http-PUT HTTP/1.1");
    assert_eq!(taken[0].body, b"text");
    assert_eq!(taken[0].header("x-args"), Some("one+-two"));
    assert_eq!(taken[0].header("a"), Some("b"));
    assert_eq!(taken[0].header("authorization"), Some("Basic bWU6cHc="));
    assert_eq!(taken[0].header("host"), Some(recorder.address().as_str()));
    let agent = taken[0].header("user-agent").unwrap();
    assert!(agent.starts_with("prony/"), "{agent}");
    let more = "-n 1 -c 1 --script-args 1 --script-args 2";
    load(&workdir, script, &url, more, 0);
    assert_eq!(
        recorder.take().last().unwrap().header("x-args"),
        Some("1+2")
    );
}

#[test]
fn response_delay_and_done_are_called() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let script = r#"
local threads, asked = {}, 0
function setup(thread) threads[#threads + 1] = thread end
function delay() asked = asked + 1; return 1 end
function response(status, headers, body)
   seen = (seen or 0) + 1
   text = status .. " " .. headers["content-length"] .. " " .. body:sub(1, 5)
end
function done(summary, latency, requests)
   local seen = 0
   for _, thread in ipairs(threads) do seen = seen + thread:get("seen") end
   print("done", summary.requests, seen, summary.errors.status, latency.max > 0, threads[1]:get("text"))
end
"#;
    let url = origin.url("/");
    let done = "done\t8\t8\t0\ttrue\t200 13 Hello";
    let (out, _) = load(&workdir, script, &url, "-n 8 -c 2", 0);
    let last = out.lines().last().unwrap();
    assert_eq!(last, done, "done() prints after the summary");
    // With --json -, standard output contains only the record.
    let (out, err) = load(&workdir, script, &url, "-n 8 -c 2 --json -", 0);
    assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    assert!(err.contains(done), "{err}");
}

#[test]
fn other_versions_and_transports_carry_the_same_requests() {
    let workdir = Workdir::new();
    let args = ["--listen", "127.0.0.1:0", "--unix", "o.sock"];
    let origin = Origin::start(&workdir, &args);
    let script = r#"
function request() return wrk.format("POST", "/echo", { A = "b" }, "the body") end
function response(status, headers, body)
   assert(headers["prony-method"] == "POST" and body == "the body", "unexpected response")
end
"#;
    let url = origin.url("/");
    for more in [
        "-n 6 -c 2 --http 2 --streams 2",
        "-n 6 -c 2 --http 1.0",
        "-n 6 -c 2 --no-keepalive",
        "-n 6 -c 2 --unix o.sock",
        "-n 6 -c 2 --source 127.0.0.2-127.0.0.3",
        "-r 60 -n 6 -c 2 --arrivals poisson",
    ] {
        let (out, _) = load(&workdir, script, &url, more, 0);
        assert!(out.contains("6 requests: 6 ok"), "{more}: {out}");
    }
    let tls = Origin::start(&workdir, &["--listen", "0", "--tls", "--quic"]);
    let url = tls.url("/");
    for version in ["", " --http 1.1", " --http 3"] {
        let more = &format!("-n 6 -c 2 -k{version}");
        let (out, _) = load(&workdir, script, &url, more, 0);
        assert!(out.contains("6 requests: 6 ok"), "{more}: {out}");
    }
    let redirected = "function request() return wrk.format(nil, \"/redirect/2\") end";
    let more = "-n 3 -c 1 --follow 2 --json r.json";
    load(&workdir, redirected, &origin.url("/"), more, 0);
    assert_eq!(workdir.json("r.json")["totals"]["redirected"], 6);
}

#[test]
fn setup_may_send_threads_to_another_address() {
    let workdir = Workdir::new();
    let recorders = [Recorder::start(), Recorder::start()];
    let [own, other] = &recorders;
    let address = other.address();
    let port = address.rsplit(':').next().unwrap();
    let script = format!(
        "function setup(thread) thread.addr = wrk.lookup(\"127.0.0.1\", \"{port}\")[1] end"
    );
    for more in ["-n 4 -c 2", "-n 4 -c 2 --no-keepalive"] {
        let (out, _) = load(&workdir, &script, &own.url("/a"), more, 0);
        assert!(out.contains("4 requests: 4 ok"), "{more}: {out}");
        assert_eq!(own.take().len(), 0, "{more}");
        let taken = other.take();
        assert_eq!(taken.len(), 4, "{more}");
        assert_eq!(taken[0].line, "GET /a HTTP/1.1");
        // The Host header comes from the URL, as in wrk.
        assert_eq!(taken[0].header("host"), Some(own.address().as_str()));
    }
    for (url, more, problem) in [
        ("https://127.0.0.1:1/", "-n 1", "--sni"),
        ("http://localhost/", "-n 1 --unix o.sock", "UNIX socket"),
    ] {
        let (_, err) = load(&workdir, &script, url, more, 2);
        assert!(err.contains("load.lua: setup() sets thread.addr"), "{err}");
        assert!(err.contains(problem), "{err}");
    }
}

#[test]
fn a_curl_command_gives_the_settings_of_a_script() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    workdir.write(
        "load.lua",
        "function init() wrk.path = wrk.path .. \"b\" end",
    );
    let curl = format!("curl '{}' -H 'A: b' -d q=1", recorder.url("/a"));
    let args = [
        "load", "-n", "1", "-c", "1", "--script", "load.lua", "--curl", &curl,
    ];
    workdir.run(&args).expect(0);
    let taken = recorder.take();
    assert_eq!(taken[0].line, "POST /ab HTTP/1.1");
    assert_eq!(
        (taken[0].header("a"), &taken[0].body[..]),
        (Some("b"), &b"q=1"[..])
    );
}

#[test]
fn errors_of_scripts_name_file_and_line() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let url = recorder.url("/");
    for (script, message) in [
        ("function request(\n", "load.lua:2: "),
        (
            "local x\nx.y = 1",
            "load.lua:2: attempt to index local 'x' (a nil value)",
        ),
        (
            "function init()\n  error(\"no token\")\nend",
            "load.lua:2: no token",
        ),
        (
            "function request() return {} end",
            "load.lua: request() returned a table instead of a string",
        ),
        (
            "function request() return \"GET / HTTP/1.1\\r\\n\" end",
            "load.lua: request(): request 1 of the returned text is incomplete",
        ),
        (
            "function init() both = wrk.format() .. wrk.format() end\nfunction request() return both end",
            "load.lua: request(): it returned 2 requests at once, which only `prony wrk` can send",
        ),
    ] {
        let (out, err) = load(&workdir, script, &url, "-n 5 -c 1", 2);
        assert!(err.contains(message), "{script}: {err}");
        assert_eq!(out, "", "{script}");
    }
    assert!(recorder.take().is_empty(), "no load began");
    workdir.write("empty.lua", "");
    let args = ["load", &url, "--script", "empty.lua"];
    let empty = workdir.run(&args).expect(2);
    assert!(
        empty.err.contains("empty.lua: the script is empty"),
        "{}",
        empty.err
    );
    let missing = workdir
        .run(&["load", &url, "--script", "missing.lua"])
        .expect(2);
    let message = "missing.lua: cannot be read: No such file";
    assert!(missing.err.contains(message), "{}", missing.err);
}

#[test]
fn a_script_that_fails_ends_the_load_with_the_results_so_far() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let script = r#"
local sent = 0
function request()
   sent = sent + 1
   if sent > 20 then error("out of users") end
   return wrk.format()
end
function done() print("done was called") end
"#;
    let more = "-n 100000 -c 1 -t 1";
    let (out, err) = load(&workdir, script, &recorder.url("/"), more, 1);
    assert!(err.contains("prony: load.lua:5: out of users"), "{err}");
    assert!(out.contains("19 requests: 19 ok"), "{out}");
    assert!(!out.contains("done was called"), "{out}");
}

#[test]
fn settings_that_contradict_a_script_are_refused() {
    let workdir = Workdir::new();
    workdir.write("load.lua", ALTERNATING);
    workdir.write("creds", "x");
    for (words, parts) in [
        (
            "--urls u.txt",
            &["--script", "--urls", "chooses the requests"][..],
        ),
        ("--data d.csv", &["--script", "--data", "read the file"]),
        ("--cookies", &["--script", "--cookies", "set Cookie"]),
        ("--think 1s", &["--script", "--think", "delay()"]),
        (
            "-H X:{{seq}}",
            &["--script", "placeholders", "generate changing values"],
        ),
        (
            "--agents 2 --creds creds",
            &["--script", "--agents", "--urls"],
        ),
    ] {
        let args = ["load", "http://127.0.0.1:1/", "--script", "load.lua"];
        let args: Vec<&str> = args.into_iter().chain(words.split(' ')).collect();
        let output = workdir.run(&args).expect(2);
        for part in parts {
            assert!(output.err.contains(part), "{words}: {}", output.err);
        }
    }
    for words in [&["--script-args", "a"][..], &["--", "a"]] {
        let args = [&["load", "http://127.0.0.1:1/"][..], words].concat();
        let output = workdir.run(&args).expect(2);
        assert!(output.err.contains("--script"), "{words:?}: {}", output.err);
    }
}

/// Returns a plan whose load has a script.
fn plan() -> String {
    TINY.replace("rate        = 200", "script      = \"load.lua\"")
        .replace("model       = \"open\"\n", "")
}

#[test]
fn plans_and_comparisons_run_scripts() {
    let workdir = Workdir::new();
    workdir.write("load.lua", ALTERNATING);
    workdir.write("plan.toml", &plan());
    let output = workdir.run(&["compare", "plan.toml", "--out", "r", "--blocks", "2"]);
    let err = output.err.clone();
    let verdict = workdir.json("r/verdict.json");
    assert_eq!(verdict["blocks"], 2, "{err}");
    assert!(err.contains("the load has a script"), "{err}");
    let record = workdir.json("r/trials/1-tcp/record.json");
    let named = record["load"]["script"].as_str().unwrap();
    assert!(named.ends_with("load.lua"), "{named}");
    assert!(record["totals"]["ok"].as_u64().unwrap() > 0);
    let copies = workdir.path("r/includes");
    assert_eq!(names(&copies), ["load.lua"]);

    let recorders = [Recorder::start(), Recorder::start()];
    let urls = recorders.each_ref().map(|recorder| recorder.url("/"));
    let more = "--script load.lua -d 200ms -c 1 --warmup 50ms --blocks 2 --out u";
    let args = ["compare", &urls[0], &urls[1]].into_iter();
    let args: Vec<&str> = args.chain(more.split(' ')).collect();
    let output = workdir.run(&args);
    assert_eq!(
        workdir.json("u/verdict.json")["blocks"],
        2,
        "{}",
        output.err
    );
    for recorder in &recorders {
        let taken = recorder.take();
        let count = |start: &str| taken.iter().filter(|it| it.line.starts_with(start)).count();
        assert!(count("POST /echo ") > 0 && count("GET /bytes/13 ") > 0);
        assert_eq!(count("GET / "), 0, "only the script decides");
    }
}

#[test]
fn each_load_of_a_capacity_search_runs_the_script() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let script = "function request() return wrk.format(\"POST\", \"/echo\") end\n\
                  function done(summary) print(\"done\", summary.requests > 0) end";
    workdir.write("load.lua", script);
    let args = "capacity --script load.lua --goal p90<10s --max-rate 200 --probe 1s";
    let url = origin.url("/");
    let args: Vec<&str> = args.split(' ').chain([url.as_str()]).collect();
    let output = workdir.run(&args);
    assert!(output.err.contains("done\ttrue"), "{}", output.err);
    assert!(!output.out.contains("done"), "{}", output.out);
}

#[test]
fn plans_report_errors_of_scripts() {
    let workdir = Workdir::new();
    workdir.write("plan.toml", &plan());
    workdir.write("load.lua", "function request(\n");
    let output = workdir
        .run(&["compare", "plan.toml", "--dry-run"])
        .expect(2);
    assert!(output.err.contains("load.lua:2: "), "{}", output.err);
    workdir.write("load.lua", "function init()\n  error(\"no token\")\nend");
    let output = workdir
        .run(&["compare", "plan.toml", "--out", "r"])
        .expect(1);
    assert!(
        output.err.contains("load.lua:2: no token"),
        "{}",
        output.err
    );
    let missing = plan().replace("load.lua", "missing.lua");
    workdir.write("plan.toml", &missing);
    let output = workdir.run(&["compare", "plan.toml"]).expect(2);
    assert!(output.err.contains("missing.lua"), "{}", output.err);
    let agents = plan().replace("connections = 2", "connections = 2\nagents = 1");
    workdir.write("plan.toml", &agents);
    let output = workdir.run(&["compare", "plan.toml"]).expect(2);
    let message = "agents don't run scripts";
    assert!(output.err.contains(message), "{}", output.err);
}
