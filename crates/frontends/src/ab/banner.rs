//! What is said before a load: name, version and usage.

use super::arguments::Attributes;

/// The three lines that ab begins with. Scripts look for the first one and for the version in it;
/// the others, which name ab's authors, name prony here, so that nobody takes it for their work.
const LINES: [&str; 3] = [
    concat!(
        "This is ApacheBench, Version 2.3 <prony ",
        env!("CARGO_PKG_VERSION"),
        ">"
    ),
    "ab's arguments and lines, with the engine of prony behind them",
    "docs/front-ends.md lists what differs from the ab of the Apache HTTP Server",
];

/// The beginning, as text or, with its table to come, as HTML.
pub(super) fn banner(html: Option<&Attributes>) -> String {
    let [first, second, third] = LINES;
    match html {
        None => format!("{first}\n{second}\n{third}\n\n"),
        Some(_) => {
            let (name, version) = first.split_once('<').unwrap_or((first, ""));
            let version = version.trim_end_matches('>');
            format!(
                "<p>\n {name}<i>&lt;{version}&gt;</i><br>\n {second}<br>\n {third}<br>\n</p>\n<p>\n"
            )
        }
    }
}

/// What `-h` prints.
pub(super) const USAGE: &str = "\
Usage: ab [options] [http[s]://]hostname[:port]/path
Options are:
    -n requests     How many requests to make (default 1)
    -c concurrency  How many at a time (default 1)
    -t timelimit    End after so many seconds; stands for -n 50000, too, unless
                    another -n follows
    -s timeout      Seconds to wait for an answer or a connection (default 30)
    -b windowsize   Send and receive buffers of each socket, in bytes
    -B address      Connect from this address; repeatable, and ADDR/BITS or
                    FIRST-LAST stand for many
    -p postfile     POST this file; -T says what it is
    -u putfile      PUT this file; -T says what it is
    -T content-type What the file is (default text/plain), such as
                    application/x-www-form-urlencoded
    -v verbosity    1: failures, 2: requests, answers and statuses that are not
                    2xx, 3: every status
    -w              Print HTML tables
    -i              HEAD in place of GET
    -x attributes   Attributes of <table>; implies -w
    -y attributes   Attributes of each <tr>; implies -w
    -z attributes   Attributes of each <td> and <th>; implies -w
    -C attribute    A cookie, such as name=value; repeatable
    -H attribute    A header line, such as 'Accept-Encoding: gzip'; repeatable
    -A attribute    Basic authentication, USER:PASSWORD
    -P attribute    Basic authentication at the proxy, USER:PASSWORD
    -X proxy:port   Go through this proxy
    -V              Print the version
    -k              Use each connection for many requests
    -d              Leave out the table of percentages
    -S              Leave out medians, deviations and warnings
    -q              Don't tell how many requests are completed meanwhile
    -l              Let bodies differ in length
    -g filename     Write each request's times to this file, separated by tabs
    -e filename     Write the percentages as CSV to this file
    -r              Accepted: no failure ends a run here
    -m method       The request's method
    -h              Print this
    -I              Don't name the server in the TLS handshake (SNI)
    -Z ciphersuite  TLS cipher suites by OpenSSL's names, separated by colons
    -f protocol     TLS1.2, TLS1.3 or ALL
    -E certfile     The client's certificate, its chain and its key in one file
Options that ab itself lacks:
    --expect-size N What each body must measure, in bytes or like 10K; without
                    it, what the first one measures
    --start-at TIME Begin at this moment, so that several begin at once: seconds
                    since 1970 (date +%s) or like 2026-01-31T12:00:00Z
";
