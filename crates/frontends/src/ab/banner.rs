//! ab's version lines and usage.

use super::arguments::HtmlAttributes;

/// First three lines of the output. Scripts look for the first line and the version that it
/// contains. The other lines name prony instead of ab's authors, so that nobody mistakes the output
/// for ab's.
const LINES: [&str; 3] = [
    concat!(
        "This is ApacheBench, Version 2.3 <prony ",
        env!("CARGO_PKG_VERSION"),
        ">"
    ),
    "ab-compatible options and output, powered by prony",
    "docs/front-ends.md lists what differs from the ab of the Apache HTTP Server",
];

/// Returns the first lines of the output, as text or as the start of an HTML page.
pub(super) fn banner(html: Option<&HtmlAttributes>) -> String {
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

/// Usage text, which `-h` prints.
pub(super) const USAGE: &str = "\
Usage: ab [options] [http[s]://]hostname[:port]/path
Options are:
    -n requests     Number of requests (default 1)
    -c concurrency  Number of concurrent requests (default 1)
    -t timelimit    End after this many seconds; implies -n 50000 unless
                    another -n follows
    -s timeout      Seconds to wait for a response or a connection (default 30)
    -b windowsize   Send and receive buffers of each socket, in bytes
    -B address      Connect from this address; repeatable; ADDR/BITS and
                    FIRST-LAST name ranges
    -p postfile     POST this file; -T sets its type
    -u putfile      PUT this file; -T sets its type
    -T content-type Type of the file (default text/plain), such as
                    application/x-www-form-urlencoded
    -v verbosity    1: failures, 2: requests, responses and statuses that are not
                    2xx, 3: every status
    -w              Print HTML tables
    -i              Send HEAD requests instead of GET
    -x attributes   Attributes of <table>; implies -w
    -y attributes   Attributes of each <tr>; implies -w
    -z attributes   Attributes of each <td> and <th>; implies -w
    -C attribute    A cookie, such as name=value; repeatable
    -H attribute    A header line, such as 'Accept-Encoding: gzip'; repeatable
    -A attribute    Basic authentication, USER:PASSWORD
    -P attribute    Basic authentication at the proxy, USER:PASSWORD
    -X proxy:port   Send requests through this proxy
    -V              Print the version
    -k              Keep connections open between requests (keep-alive)
    -d              Leave out the table of percentages
    -S              Leave out medians, deviations and warnings
    -q              Don't print progress
    -l              Accept bodies of different lengths
    -g filename     Write each request's times to this file, separated by tabs
    -e filename     Write the percentages as CSV to this file
    -r              No effect: failures never end a run
    -m method       The request's method
    -h              Print this help
    -I              Don't name the server in the TLS handshake (SNI)
    -Z ciphersuite  TLS cipher suites by OpenSSL's names, separated by colons
    -f protocol     TLS1.2, TLS1.3 or ALL
    -E certfile     The client's certificate, its chain and its key in one file
Options that only prony has:
    --expect-size N Length of each body, in bytes or like 10K (default: that
                    of the first body)
    --start-at TIME Start at this time, together with other instances: seconds
                    since 1970 (date +%s) or like 2026-01-31T12:00:00Z
";
