//! `prony load --curl`: checks the requests that the server receives for pasted commands.

use std::io::Write;
use std::process::Stdio;

use crate::recorder::Recorder;
use crate::running::Workdir;

/// Returns a command that sends a request to the server, in the form that Chrome copies.
fn command(recorder: &Recorder) -> String {
    format!(
        "curl '{}' \\
  -H 'accept: application/json' \\
  -H 'content-type: application/json' \\
  -b 'session=abc; theme=dark' \\
  -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64)' \\
  --data-raw $'{{\"text\":\"it\\'s done\\u0021\"}}' \\
  --compressed",
        recorder.url("/api/cart?id=7&lang=en")
    )
}

/// Checks that the server received the command's request `count` times.
fn check(recorder: &Recorder, count: usize) {
    let requests = recorder.take();
    assert_eq!(requests.len(), count);
    for request in &requests {
        assert_eq!(request.line, "POST /api/cart?id=7&lang=en HTTP/1.1");
        assert_eq!(request.body, b"{\"text\":\"it's done!\"}");
        for (name, value) in [
            ("accept", "application/json"),
            ("content-type", "application/json"),
            ("cookie", "session=abc; theme=dark"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
            ("accept-encoding", "deflate, gzip, br, zstd"),
            ("content-length", "21"),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
    }
}

#[test]
fn a_pasted_command_is_the_load() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let command = command(&recorder);
    workdir
        .run(&["load", "--curl", &command, "-n", "7", "-c", "2"])
        .expect(0);
    check(&recorder, 7);
    workdir.write("request.sh", &command);
    workdir
        .run(&["load", "-n", "3", "-c", "1", "--curl", "@request.sh"])
        .expect(0);
    check(&recorder, 3);
}

#[test]
fn a_command_is_read_from_standard_input_and_from_separate_words() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let mut running = workdir
        .command(&["load", "-n", "2", "-c", "1", "--curl", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(command(&recorder).as_bytes()).unwrap();
    drop(stdin);
    assert!(running.wait_with_output().unwrap().status.success());
    check(&recorder, 2);
    let url = recorder.url("/a");
    let words = [
        "-n", "2", "-c", "1", "--curl", "curl", &url, "-I", "-H", "X: it's",
    ];
    workdir.run(&[&["load"][..], &words].concat()).expect(0);
    let requests = recorder.take();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].line, "HEAD /a HTTP/1.1");
    assert_eq!(requests[0].header("x"), Some("it's"));
}

#[test]
fn commands_that_cannot_be_used_are_refused_before_the_load() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let url = recorder.url("/");
    let post = format!("curl -X POST {url}");
    let form = format!("curl -F a=@- {url}");
    let cookie = format!("curl -H 'Cookie: a=1' {url}");
    for (words, parts) in [
        (
            &["--curl", &form][..],
            &["--curl: -F: ", "standard input"][..],
        ),
        (&["--curl", "curl"], &["--curl: ", "no URL"]),
        (&["--curl", "@none.sh"], &["--curl: none.sh: "]),
        (
            &["--curl", &post, "-X", "PUT"],
            &["--curl: ", "--method", "remove the flag"],
        ),
        (
            &["--curl", &cookie, "-H", "cookie: b=2"],
            &["--header 'cookie: …'"],
        ),
        (&["--curl", &post, &url], &["--curl", "cannot be used with"]),
        (&["--curl", &post, "--urls", "u"], &["--curl", "--urls"]),
    ] {
        let output = workdir.run(&[&["load", "-n", "1"][..], words].concat());
        let output = output.expect(2);
        for part in parts {
            assert!(output.err.contains(part), "{words:?}: {}", output.err);
        }
        assert_eq!(output.out, "");
    }
    assert_eq!(recorder.take(), []);
}
