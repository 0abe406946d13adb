//! nghttpd, nghttp2's server, with options for sending rarely used frames.

use std::process::Command;

use crate::checks::{self, check_all};
use crate::load::{BACKENDS, assert_all_ok};
use crate::process::program;
use crate::server::{Server, ServerSetup, Transport, text};

/// Starts nghttpd with additional arguments.
pub(crate) fn start(arguments: &[&str]) -> Server {
    let place = ServerSetup::new();
    let command = |words: &str| {
        let mut command = Command::new(program(&["nghttpd"]));
        command.args(["-a", "127.0.0.1", "-d"]);
        command.arg(place.site.path("www")).arg("--echo-upload");
        command.args(arguments);
        command.args(place.fill(words).split_whitespace());
        command
    };
    let mut tls = command("{tls} {folder}/key.pem {folder}/certificate.pem");
    let mut clear = command("--no-tls {clear}");
    place.start_both(&mut tls, &mut clear)
}

check_all!(start(&[]));

#[test]
fn padding_trailers_and_no_lengths() {
    let server = start(&[
        "--padding=200",
        "--trailer=checksum: none",
        "--no-content-length",
    ]);
    checks::bodies_of_all_sizes_at_once(&server);
    checks::heads(&server);
}

#[test]
fn header_tables_of_size_zero_and_of_a_large_size() {
    for (decoder, encoder) in [("0", "0"), ("1048576", "1048576")] {
        let server = start(&[
            &format!("--header-table-size={decoder}"),
            &format!("--encoder-header-table-size={encoder}"),
        ]);
        checks::heads(&server);
        checks::long_lists(&server);
    }
}

/// The server's windows are 1,023 bytes, for both connections and streams.
#[test]
fn uploads_through_minimal_windows() {
    let server = start(&["-w", "10", "-W", "10"]);
    // The first request is sent before the server's settings arrive. It has no body: nghttpd 1.52
    // rejects a body as too long if it reads it together with the acknowledgment of its settings.
    let list = "/bytes/1024\n/echo POST <www/bytes/16385\n/echo POST <www/bytes/1048576\n";
    let list = server.site.file("uploads", list);
    for way in Transport::BOTH {
        for io in BACKENDS {
            for streams in [1, 6] {
                let words = format!(
                    "-n 9 -c 1 --streams {streams} --http 2 --io {io} --urls {}",
                    text(&list)
                );
                let record = server.load(way, "/", &words);
                let case = format!("{way:?} {io}, {streams} streams");
                assert_all_ok(&record, 9, &case);
                let bodies = 3 * (1024 + 16_385 + (1 << 20));
                assert_eq!(record.totals.body_bytes_in, bodies, "{case}");
            }
        }
    }
}

#[test]
fn no_server_pushes() {
    let server = start(&["-p", "/bytes/1=/bytes/1024,/bytes/1048576"]);
    checks::heads(&server);
    checks::long_lists(&server);
}
