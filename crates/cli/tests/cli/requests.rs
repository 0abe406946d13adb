//! The requests that URLs, hosts and forms on the command line become.

use crate::recorder::Recorder;
use crate::running::Workdir;

/// Returns the target in the request line.
fn target(line: &str) -> &str {
    line.split(' ').nth(1).unwrap()
}

#[test]
fn dot_segments_are_removed_unless_the_path_is_sent_as_is() {
    let workdir = Workdir::new();
    let server = Recorder::start();
    workdir.write("list", "/a/./b\n/../c?x=/../y\n/d/%2E%2e/e/{{ seq }}/..\n");
    let url = server.url("/x/../a/./b?q");
    let curl = format!("curl '{url}'");
    let as_is = format!("curl --path-as-is '{url}'");
    let base = server.url("/");
    for (words, targets) in [
        (&[url.as_str()][..], &["/a/b?q"][..]),
        (&["--path-as-is", &url], &["/x/../a/./b?q"]),
        (&["--curl", &curl], &["/a/b?q"]),
        (&["--curl", &as_is], &["/x/../a/./b?q"]),
        (&["--urls", "list", &base], &["/a/b", "/c?x=/../y", "/e/"]),
    ] {
        let count = targets.len().to_string();
        let words = [&["load", "-c", "1", "-n", &count][..], words].concat();
        workdir.run(&words).expect(0);
        let requests = server.take();
        let seen: Vec<&str> = requests.iter().map(|it| target(&it.line)).collect();
        assert_eq!(seen, targets, "{words:?}");
    }
}

#[test]
fn international_hosts_are_sent_in_ascii() {
    let workdir = Workdir::new();
    let server = Recorder::start();
    let port = server.address().split_once(':').unwrap().1.to_owned();
    let url = format!("http://Bücher.example:{port}/");
    let resolve = format!("bücher.example:{port}:127.0.0.1");
    let words = ["load", "-n", "1", "-c", "1", "--resolve", &resolve, &url];
    workdir.run(&words).expect(0);
    let host = format!("xn--bcher-kva.example:{port}");
    assert_eq!(server.take()[0].header("host"), Some(host.as_str()));
}

#[test]
fn a_query_needs_no_path() {
    let workdir = Workdir::new();
    let server = Recorder::start();
    let url = server.url("?s=64");
    for words in [
        &["load", "-n", "1", "-c", "1", &url][..],
        &["hey", "-n", "1", "-c", "1", &url],
        &["wrk", "-c", "1", "-t", "1", "-d", "1s", &url],
        &["siege", "-c", "1", "-r", "1", &url],
    ] {
        workdir.run(words).expect(0);
        let requests = server.take();
        assert!(!requests.is_empty(), "{words:?}");
        for request in requests {
            assert_eq!(target(&request.line), "/?s=64", "{words:?}");
        }
    }
}

#[test]
fn forms_are_sent_as_multipart_bodies() {
    let workdir = Workdir::new();
    let server = Recorder::start();
    let url = server.url("/");
    std::fs::write(workdir.path("a.png"), b"\x89PNG\0{{ seq }}").unwrap();
    let curl = format!("curl -F 'id={{{{ seq }}}}' -F 'f=@a.png;type=x/y' '{url}'");
    for words in [
        &["-F", "id={{ seq }}", "--form", "f=@a.png;type=x/y", &url][..],
        &["--curl", &curl],
    ] {
        workdir
            .run(&[&["load", "-n", "2", "-c", "1"][..], words].concat())
            .expect(0);
        let requests = server.take();
        for (request, id) in requests.iter().zip(1..) {
            assert!(request.line.starts_with("POST "), "{}", request.line);
            let content_type = request.header("content-type").unwrap();
            let boundary = content_type
                .strip_prefix("multipart/form-data; boundary=")
                .unwrap();
            let mut expected = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n{id}\r\n\
                 --{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.png\"\r\n\
                 Content-Type: x/y\r\n\r\n"
            )
            .into_bytes();
            expected.extend_from_slice(b"\x89PNG\0{{ seq }}");
            expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
            assert_eq!(request.body, expected, "{words:?}");
        }
        assert_eq!(requests.len(), 2);
    }
    for (words, reason) in [
        (&["-F", "f=@none"][..], "--form: none: "),
        (&["-F", "f"], "NAME=VALUE"),
        (
            &["-F", "a=b", "-H", "Content-Type: text/plain"],
            "--form, which sets this header",
        ),
    ] {
        let words = [&["load", "-n", "1", &url][..], words].concat();
        let output = workdir.run(&words).expect(2);
        assert!(output.err.contains(reason), "{words:?}: {}", output.err);
    }
}
