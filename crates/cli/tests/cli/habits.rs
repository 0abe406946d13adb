//! Options written as in other tools, credentials, bodies from files, and conditions that results
//! must meet.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::running::{Origin, Workdir, names};

/// A server that responds to every request and passes the request's head to the test.
struct Listening {
    url: String,
    heads: Receiver<String>,
}

fn listening() -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|read| read > 0) {
                    if head.ends_with("\r\n\r\n") {
                        // Ignore the error: the test may have ended.
                        let _ = sender.send(std::mem::take(&mut head).to_lowercase());
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            });
        }
    });
    Listening {
        url: format!("{address}/"),
        heads,
    }
}

#[test]
fn equivalent_flags_of_other_tools_are_accepted() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "load",
        "--vus",
        "2",
        "-n",
        "4",
        "-z",
        "5s",
        "--disable-keepalive",
        "-k",
        "--json",
        "-",
        &url,
    ];
    let record: Value = serde_json::from_str(&workdir.run(&args).expect(0).out).unwrap();
    assert_eq!(record["load"]["connections"], 2);
    assert_eq!(record["load"]["keepalive"], false);
    assert_eq!(record["load"]["duration_s"], 5.0);
    for rate in ["-R", "--rps"] {
        let args = [
            "load", rate, "50", "-n", "2", "-c", "1", "--json", "-", &url,
        ];
        let record: Value = serde_json::from_str(&workdir.run(&args).expect(0).out).unwrap();
        assert_eq!(record["load"]["rate_per_s"], 50.0);
    }
}

#[test]
fn flags_of_other_tools_with_another_meaning_get_a_hint() {
    let workdir = Workdir::new();
    for (text, hint) in [
        (&["-q", "10"][..], "use -r N, the total per second"),
        (&["-m", "POST"], "-X METHOD"),
        (&["-L"], "--follow N"),
        (&["--data-raw=x"], "--body TEXT"),
        (&["--http2"], "--http 2"),
        (&["--basic"], "-u USER:PASSWORD"),
    ] {
        for command in ["load", "compare"] {
            let args = [&[command][..], text, &["http://127.0.0.1:1/"]].concat();
            let printed = workdir.run(&args).expect(2);
            let start = format!(
                "prony: {command} has no option {}: ",
                text[0].trim_end_matches("=x")
            );
            assert!(printed.err.starts_with(&start), "{text:?}: {}", printed.err);
            assert!(printed.err.contains(hint), "{text:?}: {}", printed.err);
            assert!(
                !printed.err.contains("--public"),
                "{text:?}: {}",
                printed.err
            );
        }
    }
}

#[test]
fn user_and_password_are_sent_and_stored_nowhere() {
    let workdir = Workdir::new();
    let server = listening();
    let with_user = format!("http://me:s%65cret@{}", server.url);
    let plain = format!("http://{}", server.url);
    let loads: [&[&str]; 2] = [&[&with_user], &["-u", "me:secret", &plain]];
    for load in loads {
        let args = [
            &["load", "-n", "1", "-c", "1", "--json", "r.json"][..],
            load,
        ]
        .concat();
        let printed = workdir.run(&args).expect(0);
        let head = server.heads.recv().unwrap();
        assert!(
            head.contains("\r\nauthorization: basic bwu6c2vjcmv0\r\n"),
            "{head}"
        );
        let record = workdir.read("r.json");
        assert_eq!(
            workdir.json("r.json")["load"]["url"],
            Value::from(plain.as_str())
        );
        for text in [&record, &printed.out, &printed.err] {
            assert!(!text.contains("cret"), "{text}");
        }
    }
    // A header on the command line takes precedence over credentials in the URL. Two options for
    // the same header are an error.
    let input = [
        "load",
        "-n",
        "1",
        "-c",
        "1",
        "-H",
        "Authorization: Bearer x",
    ];
    workdir.run(&[&input[..], &[&with_user]].concat()).expect(0);
    let head = server.heads.recv().unwrap();
    assert!(head.contains("\r\nauthorization: bearer x\r\n"), "{head}");
    assert!(!head.contains("basic"), "{head}");
    let printed = workdir
        .run(&[&input[..], &["-u", "a:b", &plain]].concat())
        .expect(2);
    assert!(
        printed.err.contains("--user and --header"),
        "{}",
        printed.err
    );
    let printed = workdir.run(&["load", "-u", "me", &plain]).expect(2);
    assert!(printed.err.contains("USER:PASSWORD"), "{}", printed.err);
    let printed = workdir.run(&["load", "http://me:secret@h:0/"]).expect(2);
    assert!(!printed.err.contains("secret"), "{}", printed.err);
}

#[test]
fn an_experiment_stores_credentials_only_until_it_is_complete() {
    let workdir = Workdir::new();
    let server = listening();
    let with_user = format!("http://me:s3cret@{}", server.url);
    let plain = format!("http://{}", server.url);
    let lengths = [
        "-c",
        "1",
        "-r",
        "20",
        "-d",
        "200ms",
        "--warmup",
        "0s",
        "-H",
        "Cookie: id=t0ken",
    ];
    let urls = ["compare", &plain, &with_user, "--out", "r"];
    // This test checks only the requests and the stored results, because its server is slow.
    let printed = workdir.run(&[&urls[..], &lengths, &["--blocks", "3", "--dry-run"]].concat());
    let printed = printed.expect(0);
    assert!(
        !printed.out.contains("t0ken") && !printed.out.contains("s3cret"),
        "{}",
        printed.out
    );
    assert!(printed.out.contains("[redacted]"), "{}", printed.out);
    workdir.run(&[&urls[..], &lengths, &["--blocks", "3"]].concat());
    assert!(workdir.path("r/verdict.json").is_file());
    let mut basic = 0;
    for head in server.heads.try_iter() {
        assert!(head.contains("cookie: id=t0ken"), "{head}");
        basic += usize::from(head.contains("authorization: basic"));
    }
    assert!(basic > 0);
    for name in names(&workdir.path("r")) {
        let path = workdir.path("r").join(&name);
        let text = if path.is_file() {
            String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
        } else {
            String::new()
        };
        assert!(
            !text.contains("s3cret") && !text.contains("t0ken"),
            "{name}"
        );
    }
    let printed = workdir
        .run(&["compare", "--resume", "r", "--blocks", "4"])
        .expect(2);
    assert!(printed.err.contains("credentials"), "{}", printed.err);
}

#[test]
fn a_body_comes_from_a_file_or_from_standard_input() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    workdir.write("in.json", "{\"a\":1}");
    let url = origin.url("/echo");
    for body in ["@in.json", "-", "@-"] {
        let args = [
            "load", "-n", "2", "-c", "1", "-X", "POST", "--json", "-", "--body", body, &url,
        ];
        let mut command = workdir.command(&args);
        command.stdin(std::fs::File::open(workdir.path("in.json")).unwrap());
        let output = command.output().unwrap();
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["totals"]["body_bytes_in"], 14, "{body}");
    }
    let args = ["load", "-n", "1", "--body", "@missing", &url];
    assert!(workdir.run(&args).expect(2).err.contains("missing"));
}

#[test]
fn an_unmet_requirement_exits_with_1() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let load = |condition: &str| {
        workdir.run(&[
            "load",
            "-n",
            "5",
            "-c",
            "1",
            "--require",
            condition,
            &origin.url("/"),
        ])
    };
    load("p(99)<1m").expect(0);
    let printed = load("p99<1us").expect(1);
    assert!(
        printed.err.contains("prony: --require p99<1us: p99 is "),
        "{}",
        printed.err
    );
    let printed = load("p99").expect(2);
    assert!(
        printed.err.starts_with("prony: --require: "),
        "{}",
        printed.err
    );
}

#[test]
fn the_environment_names_credentials_and_progress() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let mut command = workdir.command(&["load", "-n", "1", "-c", "1", &origin.url("/")]);
    command
        .env("PRONY_CREDS", "coordinator.creds")
        .env("PRONY_NATS", "tls://127.0.0.1:1");
    assert!(
        command.output().unwrap().status.success(),
        "a load without agents ignores PRONY_CREDS and PRONY_NATS"
    );
    let mut command = workdir.command(&["fleet", "list"]);
    let output = command
        .env("PRONY_CREDS", "nowhere.creds")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("nowhere.creds"), "{printed}");
    let mut command = workdir.command(&["load", "-n", "1", "-c", "1", &origin.url("/")]);
    let output = command.env("PRONY_PROGRESS", "loud").output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("auto, lines, none"), "{printed}");
    let printed = workdir
        .run(&["load", "--creds", "x", &origin.url("/")])
        .expect(2);
    assert!(
        printed.err.contains("--creds needs --agents"),
        "{}",
        printed.err
    );
}
