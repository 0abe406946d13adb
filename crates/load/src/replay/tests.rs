//! Tests of whole logs.

use std::io::Write;

use super::*;

const LOG: &str = "\
10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?x=1 HTTP/1.1\" 200 5 \"-\" \"agent\"
10.0.0.2 - - [10/Oct/2000:13:55:36 +0000] \"HEAD /b HTTP/1.1\" 404 5 \"-\" \"agent\"
10.0.0.2 - - [10/Oct/2000:13:55:36 +0000] \"POST /c HTTP/1.1\" 200 5 \"-\" \"agent\"
\u{1}\u{2}\u{3}
10.0.0.1 - - [10/Oct/2000:13:55:38 +0000] \"GET //elsewhere.test/ HTTP/1.1\" 200 5 \"-\" \"agent\"
10.0.0.1 - - [10/Oct/2000:13:55:38 +0000] \"GET http://elsewhere.test/d HTTP/1.1\" 200 5 \"-\" \"agent\"
10.0.0.1 - - [10/Oct/2000:13:55:37 +0000] \"GET /e HTTP/1.1\" 200 5 \"-\" \"agent\"
10.0.0.1 - - [yesterday] \"GET /f HTTP/1.1\" 200 5 \"-\" \"agent\"
10.0.0.1 - - [10/Oct/2000:13:55:38 +0000] \"-\" 400 0 \"-\" \"-\"
";

struct LogFile(tempfile::NamedTempFile);

impl LogFile {
    fn new(bytes: impl AsRef<[u8]>) -> LogFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes.as_ref()).unwrap();
        LogFile(file)
    }

    fn resolve(&self, words: &str) -> Result<Replay, SettingsError> {
        let words = format!("--replay {} {words}", self.0.path().display());
        Ok(Replay::resolve(&LoadSettings::from_flags(&words))?.unwrap())
    }

    /// Returns each request as text, with its due time in milliseconds, and what was found.
    fn read(&self, words: &str) -> (Vec<String>, ReplayLog) {
        let replay = self.resolve(words).unwrap();
        let forms: Vec<_> = replay
            .forms()
            .map(|(method, was_refused)| (method.to_owned(), was_refused))
            .collect();
        let mut all = Vec::new();
        let log = replay.read(&mut |request| {
            let (method, was_refused) = &forms[request.form as usize];
            let path = String::from_utf8_lossy(request.path);
            let mark = if *was_refused { " refused" } else { "" };
            all.push(format!(
                "{} {method} {path}{mark}",
                request.due.0 / 1_000_000
            ));
            ControlFlow::Continue(())
        });
        (all, log)
    }
}

#[test]
fn each_line_is_sent_or_skipped_with_a_reason() {
    let (sent, log) = LogFile::new(LOG).read("");
    let expected = [
        "0 GET /a?x=1",
        "500 HEAD /b refused",
        "2000 GET //elsewhere.test/",
        "2333 GET /d",
        "2666 GET /e",
    ];
    assert_eq!(sent, expected);
    assert_eq!((log.lines, log.set_forward, log.jumps), (9, 1, 0));
    let skipped = |reason: SkipReason| log.skipped[reason as usize].clone();
    assert_eq!(skipped(SkipReason::Method), (1, vec![3]));
    assert_eq!(skipped(SkipReason::Format), (2, vec![4, 8]));
    assert_eq!(skipped(SkipReason::NoRequest), (1, vec![9]));
    assert!(log.error.is_none() && !log.is_cut);
    let all: u64 = log.skipped.iter().map(|(count, _)| count).sum();
    assert_eq!(all + sent.len() as u64, log.lines);
}

#[test]
fn speed_methods_and_limits_apply() {
    let (sent, _) = LogFile::new(LOG).read("--speed 2 --replay-methods post");
    assert_eq!(
        sent[1..4],
        [
            "166 HEAD /b refused",
            "333 POST /c",
            "1000 GET //elsewhere.test/"
        ]
    );
    let (sent, log) = LogFile::new(LOG).read("-n 2");
    assert_eq!((sent.len(), log.is_cut), (2, true));
    let (sent, log) = LogFile::new(LOG).read("-r 5");
    assert!(sent.iter().all(|text| text.starts_with("0 ")), "{sent:?}");
    assert_eq!(log.set_forward, 0);
}

#[test]
fn json_and_har_are_recognized() {
    let json = "\n{\"ts\": 1.5, \"uri\": \"/a\"}\n{\"ts\": 1.75, \"uri\": \"/b\"}\n";
    assert_eq!(LogFile::new(json).read("").0, ["0 GET /a", "250 GET /b"]);
    let har = "{\n \"log\": {\"entries\": [{\"startedDateTime\": \"2024-01-01T00:00:00.0Z\", \
               \"request\": {\"method\": \"GET\", \"url\": \"https://h.test/x\"}}]}}";
    assert_eq!(LogFile::new(har).read("").0, ["0 GET /x"]);
    assert_eq!(LogFile::new(har.replace('\n', "")).read("").0, ["0 GET /x"]);
}

#[test]
fn what_is_no_log_is_refused_with_a_hint() {
    let refused = |bytes: &[u8], words: &str| {
        let error = LogFile::new(bytes).resolve(words).err().unwrap();
        error.to_string()
    };
    let binary: Vec<u8> = (0..200_000_u32).map(|it| (it * 7 % 256) as u8).collect();
    for (bytes, words, expected) in [
        (&b""[..], "", "the file is empty"),
        (&binary, "", "--log-format"),
        (b"/a\n/b\n", "", "line 1 is in another format"),
        (b"{\"log\": {}}", "", "entries"),
        (b"\x1f\x8b\x08garbage", "", ""),
        (b"\x28\xb5\x2f\xfdgarbage", "", ""),
        (
            LOG.as_bytes(),
            "--log-format $status",
            "has no field with the request",
        ),
        (
            LOG.as_bytes(),
            "--log-format '$request'",
            "--log-format has no time",
        ),
        (
            LOG.lines().nth(2).unwrap().as_bytes(),
            "",
            "--replay-methods",
        ),
    ] {
        let error = refused(bytes, words);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_file_that_ends_too_early_is_an_error_of_the_log() {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    to.write_all(LOG.repeat(2_000).as_bytes()).unwrap();
    let bytes = to.finish().unwrap();
    let (sent, log) = LogFile::new(&bytes[..bytes.len() / 2]).read("-r 5");
    assert!(sent.len() > 1_000 && log.error.unwrap().contains("after line "));
}

#[test]
fn a_second_with_too_many_requests_does_not_grow_in_memory() {
    let line = LOG.lines().next().unwrap().to_owned() + "\n";
    let (sent, log) = LogFile::new(line.repeat(GROUP_MAX + 3)).read("");
    assert_eq!(sent.len(), GROUP_MAX + 3);
    assert_eq!(&sent[GROUP_MAX..], ["1000 GET /a?x=1"; 3]);
    assert_eq!(log.set_forward, 0);
}
