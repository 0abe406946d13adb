//! Tests of parsing hey's arguments.

use super::*;

fn read(words: &[&str]) -> Result<HeyArguments, HeyError> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    HeyArguments::read(&words)
}

fn reads(words: &str) -> HeyArguments {
    read(&words.split_whitespace().collect::<Vec<_>>()).unwrap()
}

fn refused(words: &[&str]) -> String {
    match read(words) {
        Err(HeyError::Load(Some(error))) => error.to_string(),
        Err(HeyError::Flag(error)) => error.to_string(),
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn defaults_are_heys() {
    let arguments = reads("http://h/");
    assert_eq!((arguments.requests, arguments.workers), (200, 50));
    assert_eq!(arguments.timeout, Some(Duration::from_secs(20)));
    assert_eq!((arguments.rate, arguments.time), (None, None));
    assert!(arguments.keepalive && arguments.redirects && arguments.progress);
    assert!(!arguments.h2 && !arguments.csv);
    let headers: Vec<_> = arguments
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    assert_eq!(
        headers,
        [
            "Accept-Encoding: gzip",
            "Content-Type: text/html",
            "User-Agent: hey/0.0.1"
        ]
    );
}

#[test]
fn every_flag_sets_its_option() {
    let arguments = reads(
        "-n 30 -c 3 -q 2.5 -o csv -m post -t 7 -d body -D file -x http://p:3128/ -h2 -host other \
         -disable-compression -disable-keepalive -disable-redirects -cpus 2 -more \
         -timeline t.json -progress none http://h/",
    );
    let expected = HeyArguments {
        url: "http://h/".to_owned(),
        requests: 30,
        workers: 3,
        rate: Some(2.5),
        time: None,
        csv: true,
        method: "POST".to_owned(),
        headers: arguments.headers.clone(),
        host: Some("other".to_owned()),
        body: Some("body".to_owned()),
        body_file: Some(PathBuf::from("file")),
        timeout: Some(Duration::from_secs(7)),
        proxy: Some(HeyProxy {
            engines: "p:3128".parse().unwrap(),
            address: "p:3128".to_owned(),
        }),
        h2: true,
        keepalive: false,
        redirects: false,
        cores: Some(2),
        timeline: Some(PathBuf::from("t.json")),
        progress: false,
        notes: Vec::new(),
    };
    assert_eq!(arguments, expected);
    assert!(!arguments.headers.contains_key("Accept-Encoding"));
    assert_eq!(
        reads("-z 3m http://h/").time,
        Some(Duration::from_secs(180))
    );
    assert_eq!(reads("-t 0 http://h/").timeout, None);
    assert!(!reads("-h2=false http://h/").h2);
}

#[test]
fn headers_override_each_other_as_in_go() {
    let arguments = read(&[
        "-H",
        "x-a: 1",
        "-H",
        "X-A:2 ",
        "-H",
        "Content-Type: application/json",
        "-H",
        "User-Agent: me",
        "-A",
        "text/x",
        "-a",
        "user:secret",
        "http://h/",
    ])
    .unwrap();
    let header = |name: &str| arguments.headers.get(name).map(String::as_str);
    assert_eq!(header("X-A"), Some("2"));
    assert_eq!(header("Content-Type"), Some("application/json"));
    assert_eq!(header("User-Agent"), Some("me hey/0.0.1"));
    assert_eq!(header("Accept"), Some("text/x"));
    assert_eq!(header("Authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
    let agent = reads("-U browser http://h/").headers["User-Agent"].clone();
    assert_eq!(agent, "browser hey/0.0.1");
}

#[test]
fn a_user_in_the_url_is_a_header_unless_there_is_one() {
    let header = |words| reads(words).headers["Authorization"].clone();
    assert_eq!(header("http://me:pass@h/"), "Basic bWU6cGFzcw==");
    assert_eq!(header("-a a:b http://me:pass@h/"), "Basic YTpi");
    assert_eq!(header("-H Authorization:x http://me:pass@h/"), "x");
    assert_eq!(header("-H Authorization:x -a a:b http://h/"), "Basic YTpi");
    assert_eq!(reads("http://me:pass@h/").url, "http://h/");
}

#[test]
fn compression_is_requested_as_in_go() {
    let asks = |words: &[&str]| {
        read(words)
            .unwrap()
            .headers
            .get("Accept-Encoding")
            .is_some_and(|value| value == "gzip")
    };
    assert!(asks(&["http://h/"]));
    assert!(!asks(&["-m", "head", "http://h/"]));
    assert!(!asks(&["-H", "Range: bytes=0-1", "http://h/"]));
    assert!(!asks(&["-H", "accept-encoding: br", "http://h/"]));
}

#[test]
fn options_that_go_ignores_are_reported() {
    let arguments = read(&[
        "-H",
        "Host: a",
        "-H",
        "Content-Length: 3",
        "http://h/",
        "-n",
        "9",
    ]);
    let arguments = arguments.unwrap();
    assert_eq!(arguments.requests, 200);
    assert_eq!(arguments.notes.len(), 3, "{:?}", arguments.notes);
    assert!(!arguments.headers.contains_key("Host"));
    assert!(!arguments.headers.contains_key("Content-Length"));
}

#[test]
fn what_makes_no_load_is_refused_in_heys_words() {
    for (words, expected) in [
        (
            &["-n", "5", "-c", "9", "U"][..],
            "-n cannot be less than -c.",
        ),
        (&["-n", "0", "U"], "-n and -c cannot be smaller than 1."),
        (
            &["-z", "1s", "-c", "0", "U"],
            "-c cannot be smaller than 1.",
        ),
        (
            &["-z", "-1s", "-n", "0", "U"],
            "-n and -c cannot be smaller than 1.",
        ),
        (
            &["-H", "X", "U"],
            "could not parse the provided input; input = X",
        ),
        (
            &["-H", "X Y: 1", "U"],
            "could not parse the provided input; input = X Y: 1",
        ),
        (
            &["-a", "me", "U"],
            "could not parse the provided input; input = me",
        ),
        (
            &["-h", "X: 1", "U"],
            "Flag '-h' is deprecated, please use '-H' instead.",
        ),
        (&["-foo", "U"], "flag provided but not defined: -foo"),
    ] {
        assert_eq!(refused(words), expected);
    }
    assert!(refused(&["-o", "xml", "U"]).starts_with("-o xml: "));
    assert!(
        refused(&["-x", "socks5://h:1", "U"]).starts_with("-x: the scheme socks5 is not supported")
    );
    assert!(refused(&["-progress", "bar", "U"]).starts_with("-progress bar: "));
    assert_eq!(read(&["-n", "5"]), Err(HeyError::Load(None)));
    assert_eq!(read(&["-help"]), Err(HeyError::Flag(FlagError::Help)));
    // With a duration, the number of requests is ignored.
    assert!(read(&["-z", "1s", "-n", "0", "U"]).is_ok());
}
