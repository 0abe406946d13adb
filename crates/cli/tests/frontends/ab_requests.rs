//! Compares the requests that `prony ab` sends with ab's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::ab::{both, exact, folder};
use crate::programs::{CommandOutput, original, ours, through};
use crate::recorder::{RecordedRequest, Recorder};

/// Returns the first request from ab and from `prony ab`, in this order.
fn asked(recorder: &Recorder, words: &str, dir: &Path) -> [RecordedRequest; 2] {
    let words: Vec<&str> = words.split(' ').collect();
    [original as fn(&str, &[&str], &Path) -> CommandOutput, ours].map(|run| {
        run("ab", &words, dir).expect(0);
        let mut asked = recorder.take();
        assert_eq!(asked.len(), 1, "{words:?}");
        RecordedRequest {
            connection: 0,
            ..asked.remove(0)
        }
    })
}

#[test]
fn requests_are_the_same_flag_by_flag() {
    let recorder = Recorder::start();
    let dir = folder();
    fs::write(dir.path().join("body"), b"from a file\n\x00\xff").unwrap();
    for words in [
        "",
        "-k",
        "-i",
        "-m OPTIONS",
        "-p body",
        "-u body -T a/b",
        "-p body -m PATCH -k",
        "-C a=1",
        "-A user:secret",
        "-P user:secret",
        "-H X-Own:1 -H x-own:2",
        "-H Host:other",
        "-H user-agent:me",
        "-H accept:x/y",
        "-H nocolon",
        "-k -C a=1 -A u:p -P x:y -H A:b",
        "-B 127.0.0.9",
        "-r -l -q -d -S -v 1",
    ] {
        for path in ["/", "/a?b=c&d#e"] {
            let words = format!("{words} {}", recorder.url(path));
            let [theirs, ours] = asked(&recorder, words.trim(), dir.path());
            assert_eq!(theirs, ours, "{words}");
        }
    }
    let bare = recorder.address() + "/";
    let [theirs, ours] = asked(&recorder, &bare, dir.path());
    assert_eq!(theirs, ours);
}

#[test]
fn a_proxy_is_asked_for_the_whole_url() {
    let recorder = Recorder::start();
    let dir = folder();
    for target in ["http://192.168.77.7/some?x", "http://192.168.77.7:81/"] {
        let words = format!("-X {} -P user:secret {target}", recorder.address());
        let [theirs, ours] = asked(&recorder, &words, dir.path());
        assert_eq!(theirs, ours);
        assert!(ours.line.starts_with(&format!("GET {target} ")), "{ours:?}");
        let [theirs, ours] = both(&words, dir.path());
        assert_eq!(exact(&theirs.out), exact(&ours.out));
        let through_it =
            |output: &CommandOutput| through("grep -o 'through.*patient)'", &output.out);
        assert_eq!(through_it(&theirs), through_it(&ours));
        recorder.take();
    }
}

#[test]
fn every_cookie_of_a_repeated_flag_is_sent() {
    let recorder = Recorder::start();
    let dir = folder();
    // ab's manual says that -C can be repeated.
    let words = ["-C", "a=1", "-C", "b=2", &recorder.url("/")].map(str::to_owned);
    ours("ab", &words.each_ref().map(String::as_str), dir.path()).expect(0);
    assert_eq!(recorder.take()[0].header("cookie"), Some("a=1; b=2"));
}

#[test]
fn connections_come_from_all_addresses() {
    let recorder = Recorder::start();
    let dir = folder();
    let words = format!(
        "-n 60 -c 6 -B 127.0.0.2 -B 127.0.0.8/30 -B 127.0.0.20-127.0.0.22 {}",
        recorder.url("/")
    );
    let words: Vec<&str> = words.split(' ').collect();
    ours("ab", &words, dir.path()).expect(0);
    let from: BTreeSet<String> = recorder
        .take()
        .iter()
        .map(|asked| asked.from.to_string())
        .collect();
    let expected = [
        "127.0.0.2",
        "127.0.0.9",
        "127.0.0.10",
        "127.0.0.20",
        "127.0.0.21",
        "127.0.0.22",
    ];
    assert_eq!(from, expected.map(str::to_owned).into());
}
