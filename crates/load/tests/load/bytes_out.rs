//! Tests that request bytes are not counted as sent if the server doesn't read them.

use prony_record::Outcome::{Ok as Fine, Reset, Timeout};

use crate::harness::{Raw, Served, Via, load_with, outcomes, read_head, text, until_gone};

/// Size of a body that is far larger than socket buffers.
const BODY_BYTES: usize = 64 << 20;
/// Upper bound on the size of the socket buffers at both ends of a connection.
const BUFFERED_BYTES_MAX: u64 = 24 << 20;

#[test]
fn a_body_that_is_not_read_is_not_counted_as_sent() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; BODY_BYTES]).unwrap();
    let mut words = vec!["-n", "2", "-c", "2", "--timeout", "500ms", "-X", "POST"];
    words.extend(["--body-file", text(&body)]);
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let server = Raw::new(move |mut stream| {
        read_head(&mut stream);
        // The thread ends when the sender is dropped.
        let _ = wait.lock().unwrap().recv();
        until_gone(&mut stream);
    });
    let record = load_with(&server.url(), &words);
    drop(done);
    assert_eq!(outcomes(&record), [(Timeout, 2)]);
    let counted = record.totals.bytes_out;
    assert!(counted < 2 * BUFFERED_BYTES_MAX, "{counted}");
    // This server resets the connection instead of leaving it open.
    let server = Raw::new(|mut stream| {
        read_head(&mut stream);
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    });
    let record = load_with(&server.url(), &words);
    assert_eq!(outcomes(&record), [(Reset, 2)]);
    let counted = record.totals.bytes_out;
    assert!(counted < 2 * BUFFERED_BYTES_MAX, "{counted}");
}

#[test]
fn a_body_that_is_read_is_counted_whole() {
    for via in [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls] {
        let served = Served::via(via);
        let body = served.file("body", vec![b'x'; 3 << 20]);
        let words = format!("-n 4 -c 2 -X POST --body-file {}", text(&body));
        let record = served.load(via, "/", &words);
        assert_eq!(outcomes(&record), [(Fine, 4)], "{via:?}");
        let heads = record.totals.bytes_out - 4 * (3 << 20);
        assert!((4 * 50..4 * 500).contains(&heads), "{via:?}: {heads}");
    }
}
