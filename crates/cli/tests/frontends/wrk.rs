//! Compares `prony wrk` with wrk.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{CommandOutput, Origin, command, original, ours, through};
use crate::recorder::{RecordedRequest, Recorder};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs both at the same time with the same arguments and with this script in `script.lua`; wrk
/// first.
pub(crate) fn both(script: &str, arguments: &[&str]) -> [CommandOutput; 2] {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    thread::scope(|scope| {
        let theirs = scope.spawn(|| original("wrk", arguments, dir.path()));
        let ours = ours("wrk", arguments, dir.path());
        [theirs.join().unwrap(), ours]
    })
}

/// Runs `prony wrk` with this script in `script.lua`.
fn ours_with(script: &str, arguments: &[&str]) -> CommandOutput {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    ours("wrk", arguments, dir.path())
}

/// The output with 9 for each run of digits and one space for each run of spaces, which is all that
/// a script's patterns depend on.
fn shape(out: &str) -> String {
    let mut shape = String::new();
    for c in out.chars() {
        let c = if c.is_ascii_digit() { '9' } else { c };
        if !((c == '9' || c == ' ') && shape.ends_with(c)) {
            shape.push(c);
        }
    }
    // Units depend on the machine.
    let units = ["us", "ms", "s", "m", "k", "K", "M", "G", ""];
    for unit in units.iter().filter(|unit| !unit.is_empty()) {
        for behind in [" ", "\n", ",", "B"] {
            shape = shape.replace(&format!("9.9{unit}{behind}"), &format!("9.9{behind}"));
        }
    }
    shape
}

fn number(script: &str, of: &CommandOutput) -> f64 {
    let text = through(script, &of.out);
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{script}: {text:?} of {of:?}"))
}

const REQUESTS: &str = "awk '/requests in/ {print $1}'";

/// Typical scripts around wrk, each with the text that it must find in both outputs.
#[test]
fn scripts_read_the_same_from_both() {
    let origin = Origin::start(&[]);
    let url = origin.url("/status/503");
    let all = both("", &["-t2", "-c4", "-d1s", "--latency", &url]);
    for output in &all {
        let requests = number(REQUESTS, output);
        assert!(requests > 0.0);
        for (script, expected) in [
            ("awk 'NR == 1 {print $1, $2, $3}'", "Running 1s test"),
            ("awk '/threads and/ {print $1 \" \" $4}'", "2 4"),
            (
                "grep -c -E '^    (Latency|Req/Sec) +[0-9.]+[a-z]* +[0-9.]+[a-zA-Z]* +[0-9.]+[a-zA-Z]* +[0-9.]+%$'",
                "2",
            ),
            (
                "sed -n '/Latency Distribution/,/requests in/p' | awk '/%/ {print $1}' | tr '\\n' ' '",
                "50% 75% 90% 99%",
            ),
            ("awk '/requests in/ {print $2, $3, $6}'", "requests in read"),
            ("grep -c 'Socket errors'; true", "0"),
            ("grep -c -E '^Requests/sec: +[0-9]+\\.[0-9]{2}$'", "1"),
            (
                "grep -c -E '^Transfer/sec: +[0-9]+\\.[0-9]{2}[KMG]?B$'",
                "1",
            ),
        ] {
            assert_eq!(
                through(script, &output.out),
                expected,
                "{script}: {output:?}"
            );
        }
        let not_ok = number("awk '/Non-2xx or 3xx responses:/ {print $5}'", output);
        assert_eq!(not_ok, requests, "{output:?}");
        // The rate refers to the printed time, which has two decimals.
        let rate = number("awk '/Requests\\/sec:/ {print $2}'", output);
        let took = number("awk '/requests in/ {print $4 + 0}'", output);
        assert!((rate * took / requests - 1.0).abs() < 0.02, "{output:?}");
    }
    let [theirs, ours] = all.map(|output| output.expect(0));
    assert_eq!(shape(&theirs.out), shape(&ours.out));
    assert_eq!((theirs.err, ours.err), (String::new(), String::new()));
}

#[test]
fn arguments_are_refused_with_wrks_words_and_status() {
    for arguments in [
        &[][..],
        &["-t2"],
        &["-c1", "http://127.0.0.1:9/"],
        &["-d0", "http://127.0.0.1:9/"],
        &["-d1.5s", "http://127.0.0.1:9/"],
        &["-cx", "http://127.0.0.1:9/"],
        &["-z", "http://127.0.0.1:9/"],
        &["--foo", "http://127.0.0.1:9/"],
        &["--t", "1", "http://127.0.0.1:9/"],
        &["-t"],
        &["--script"],
        &["--latency=1", "http://127.0.0.1:9/"],
        &["-h"],
        &["--help"],
        &["127.0.0.1:9"],
        &["ftp:/x"],
    ] {
        let [theirs, ours] = both("", arguments);
        assert_eq!((theirs.status, ours.status), (1, 1), "{arguments:?}");
        assert_eq!(theirs.err, ours.err, "{arguments:?}");
        let mut lines = ours.out.lines();
        for line in theirs.out.lines() {
            assert!(lines.any(|own| own == line), "{arguments:?}: {line:?}");
        }
    }
}

#[test]
fn an_unreachable_server_is_reported_in_wrks_words() {
    // A port that was just released refuses connections.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        "http://no-such-host.invalid/".to_owned(),
    ] {
        for arguments in [&["-d1", &url][..], &["-d1", "-s", "script.lua", &url]] {
            let [theirs, ours] = both("", arguments);
            assert_eq!((theirs.status, ours.status), (1, 1), "{arguments:?}");
            assert_eq!(theirs.out, ours.out);
            // Resolvers word this error differently.
            let words = |output: &CommandOutput| {
                output.err.split(' ').take(4).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(words(&theirs), words(&ours), "{arguments:?}");
        }
    }
}

/// A request's first line, its header lines in any order, and its body.
fn plain(asked: &RecordedRequest) -> (String, BTreeSet<String>, String) {
    let headers = asked.headers.iter().cloned().collect();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    (asked.line.clone(), headers, body)
}

/// The requests of wrk and of prony for a URL with this path and further arguments.
fn asked_by_both(script: &str, arguments: &[&str], path: &str) -> [Vec<RecordedRequest>; 2] {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    let asked = |run: fn(&str, &[&str], &Path) -> CommandOutput| {
        let server = Recorder::start();
        let url = server.url(path);
        let first = std::iter::once(&*url);
        let arguments: Vec<&str> = first.chain(arguments.iter().copied()).collect();
        run("wrk", &arguments, dir.path()).expect(0);
        // The port differs between the two.
        let mut asked = server.take();
        for header in asked.iter_mut().flat_map(|asked| &mut asked.headers) {
            *header = header.replace(&server.address(), "SERVER");
        }
        asked
    };
    thread::scope(|scope| {
        let theirs = scope.spawn(|| asked(original));
        let ours = asked(ours);
        [theirs.join().unwrap(), ours]
    })
}

#[test]
fn requests_match_those_of_wrk() {
    let post = "
        wrk.method = 'POST'
        wrk.path = '/posted'
        wrk.body = 'a=1&b=2'
        wrk.headers['Content-Type'] = 'application/x-www-form-urlencoded'
    ";
    let init = "
        function init(args) wrk.path = args[1] .. #args .. (args[0] and 'url' or 'none') end
    ";
    let numbered = "
        local n = 0
        function request()
           n = n + 1
           return wrk.format('PUT', '/' .. n, { A = n }, 'body' .. n)
        end
    ";
    let proxied = "
        function request() return wrk.format(nil, 'http://elsewhere/x', { Host = 'h' }) end
    ";
    let twice = ["-H", "X-One: 1", "-H", "X-Two: a: b", "-H", "X-One: 2"];
    let cases = [
        ("", &twice[..]),
        ("", &["-H", "Host: other"]),
        (post, &["-H", "X-One: 1"]),
        (init, &["--", "/from-", "x"]),
        (numbered, &[]),
        (proxied, &[]),
    ];
    thread::scope(|scope| {
        for (script, arguments) in cases {
            scope.spawn(move || {
                let script = format!("function delay() return 200 end\n{script}");
                let always = ["-t1", "-c1", "-d1", "-s", "script.lua"];
                let all = [&always, arguments].concat();
                let [theirs, ours] = asked_by_both(&script, &all, "/path?query");
                let common = theirs.len().min(ours.len());
                assert!(common > 0, "{script}");
                let plain =
                    |all: &[RecordedRequest]| all[..common].iter().map(plain).collect::<Vec<_>>();
                assert_eq!(plain(&theirs), plain(&ours), "{script}");
            });
        }
    });
    // The same without a script.
    let [theirs, ours] = asked_by_both("", &["-t1", "-c1", "-d1", "-H", "A: b"], "/p?q#f");
    assert_eq!(plain(&theirs[0]), plain(&ours[0]));
}

/// Counts in each thread, and prints all counts at the end as CSV.
const COUNTING: &str = "
    local threads = {}
    function setup(thread)
       thread:set('id', #threads + 1)
       thread:set('limits', { low = 200, high = 299 })
       table.insert(threads, thread)
    end
    function init(args)
       asked, answered, fine, bytes, odd = 0, 0, 0, 0, 0
       greeting = args[1]
    end
    function request()
       asked = asked + 1
       return wrk.format('GET', '/bytes/' .. (asked % 50 + 1), { ['X-Id'] = id })
    end
    function response(status, headers, body)
       answered = answered + 1
       if status >= limits.low and status <= limits.high then fine = fine + 1 end
       if tonumber(headers['Content-Length'] or headers['content-length']) ~= #body then odd = odd + 1 end
       bytes = bytes + #body
    end
    function done(summary, latency, requests)
       local sum = {}
       for _, thread in ipairs(threads) do
          for _, name in ipairs({ 'asked', 'answered', 'fine', 'bytes', 'odd' }) do
             sum[name] = (sum[name] or 0) + thread:get(name)
          end
       end
       local count, last = 0, 0
       for i = 1, #latency do
          local value, times = latency(i)
          assert(value > last or i == 1)
          count, last = count + times, value
       end
       assert(last == latency.max and latency(1) == latency.min)
       assert(latency:percentile(50) <= latency:percentile(99) and latency.mean <= latency.max)
       assert(latency.stdev >= 0 and requests.max >= requests.min and #requests >= 1)
       local errors = summary.errors
       io.write(string.format('csv,%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%d\\n', sum.asked, sum.answered, sum.fine,
          sum.odd, sum.bytes, summary.requests, summary.bytes, count, summary.duration,
          threads[2]:get('greeting'), errors.connect + errors.read + errors.write + errors.status + errors.timeout))
    end
";

#[test]
fn a_counting_script_agrees_with_the_printed_counts() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let arguments = ["-t2", "-c6", "-d1", "-s", "script.lua", &url, "--", "hello"];
    for output in both(COUNTING, &arguments).map(|output| output.expect(0)) {
        let line = through("grep ^csv", &output.out);
        let fields: Vec<&str> = line.split(',').skip(1).collect();
        let field = |index: usize| {
            fields[index]
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{line}"))
        };
        let (asked, answered, requests) = (field(0), field(1), field(5));
        assert_eq!(answered, requests, "{output:?}");
        assert_eq!(number(REQUESTS, &output) as u64, requests);
        // Six may be in flight, and one more was created for inspection.
        assert!((requests..=requests + 7).contains(&asked), "{output:?}");
        assert_eq!((field(2), field(3)), (requests, 0), "{output:?}");
        assert!(field(4) > 0 && field(6) > field(4), "{output:?}");
        assert!(field(8) >= 900_000, "{output:?}");
        assert_eq!((fields[9], field(10)), ("hello", 0), "{output:?}");
    }
}

/// Several requests in one string, as in wrk's example of pipelining.
#[test]
fn requests_at_once_count_one_by_one() {
    let script = "
        local seen = 0
        function init(args)
           local parts = {}
           for i, path in ipairs({ '/bytes/10', '/status/404', '/chunked/20' }) do
              parts[i] = wrk.format(nil, path)
           end
           all = table.concat(parts)
        end
        function request() return all end
        function response(status, headers, body)
           seen = seen + 1
           local turn = (seen - 1) % 3 + 1
           assert(status == ({ 200, 404, 200 })[turn], 'status')
           assert(turn == 2 or #body == ({ 10, 0, 20 })[turn], 'body')
           count = seen
        end
        local only
        function setup(thread) only = thread end
        function done(summary)
           local errors = summary.errors
           print('count', only:get('count'), summary.requests, errors.status, errors.read)
        end
    ";
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let arguments = ["-t1", "-c1", "-d1", "-s", "script.lua", &url];
    for output in both(script, &arguments).map(|output| output.expect(0)) {
        let counted = through("grep ^count", &output.out);
        let counts: Vec<u64> = counted
            .split_whitespace()
            .skip(1)
            .map(|n| n.parse().unwrap())
            .collect();
        let [seen, requests, not_fine, read] = counts[..] else {
            panic!("{output:?}")
        };
        assert!(requests > 30 && seen == requests, "{output:?}");
        assert!(
            (requests / 3..=requests / 3 + 1).contains(&not_fine),
            "{output:?}"
        );
        assert_eq!(read, 0, "{output:?}");
        assert_eq!(number(REQUESTS, &output) as u64, requests);
        let not_ok = number("awk '/Non-2xx or 3xx responses:/ {print $5}'", &output);
        assert_eq!(not_ok as u64, not_fine);
    }
    // They count without a response hook, too.
    let silent = "function request() return string.rep(wrk.format(nil, '/'), 8) end";
    let server = Recorder::start();
    let output = ours_with(
        silent,
        &["-t1", "-c1", "-d1", "-s", "script.lua", &server.url("/")],
    );
    let (counted, seen) = (
        number(REQUESTS, &output.expect(0)) as usize,
        server.take().len(),
    );
    assert!((counted..=counted + 8).contains(&seen), "{counted} {seen}");
    for (script, expected_text) in [
        (
            "local n = 0\nfunction request() n = n + 1\n return string.rep(wrk.format(), n < 9 and 2 or 3) end",
            "script.lua: request(): it gave 3 requests at once, and 2 before\n",
        ),
        (
            "function request() return wrk.format('HEAD') .. wrk.format() end",
            "script.lua: request(): it gave HEAD and other requests at once\n",
        ),
    ] {
        assert_eq!(ours_with(script, &arguments).expect(1).err, expected_text);
    }
}

#[test]
fn the_server_saw_printed_and_in_flight_requests() {
    let server = Recorder::start();
    let dir = folder();
    let output = ours("wrk", &["-t2", "-c4", "-d1", &server.url("/")], dir.path()).expect(0);
    let counted = number(REQUESTS, &output) as usize;
    let seen = server.take().len();
    assert!((counted..=counted + 4).contains(&seen), "{counted} {seen}");
}

/// Every later request contains the token of the first response.
#[test]
fn a_token_is_carried_from_a_response_into_requests() {
    let script = "
        token = nil
        function delay() return 50 end
        function request()
           if not token then return wrk.format('GET', '/login') end
           return wrk.format('GET', '/in', { Authorization = token })
        end
        function response(status, headers, body)
           if status == 200 and not token then token = body end
        end
    ";
    for asked in asked_by_both(script, &["-t1", "-c1", "-d1", "-s", "script.lua"], "/") {
        assert_eq!(asked[0].line, "GET /login HTTP/1.1");
        assert!(asked.len() > 1);
        for next in &asked[1..] {
            assert_eq!(next.line, "GET /in HTTP/1.1");
            assert_eq!(next.header("authorization"), Some("hello"));
        }
    }
}

#[test]
fn a_thread_that_stops_itself_makes_no_more_requests() {
    let script = "
        local answers = 0
        function response()
           answers = answers + 1
           if answers == 20 then wrk.thread:stop() end
        end
    ";
    let origin = Origin::start(&[]);
    for output in both(
        script,
        &["-t2", "-c2", "-d1", "-s", "script.lua", &origin.url("/")],
    ) {
        assert_eq!(number(REQUESTS, &output.expect(0)), 40.0);
    }
}

/// Each thread has its own address.
#[test]
fn threads_use_the_addresses_of_setup() {
    let (one, other) = (Recorder::start(), Recorder::start());
    let address = other.address();
    let (_, port) = address.rsplit_once(':').unwrap();
    let script = format!(
        "
        local number = 0
        function setup(thread)
           number = number + 1
           if number == 2 then
              local found = wrk.lookup('127.0.0.1', '{port}')
              assert(#found == 1 and wrk.connect(found[1]))
              thread.addr = found[1]
           end
        end
        function init() print('sends to ' .. tostring(wrk.thread.addr)) end
        function delay() return 100 end
        "
    );
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    let arguments = ["-t2", "-c2", "-d1", "-s", "script.lua", &one.url("/x")];
    for run in [original, ours] {
        let output = run("wrk", &arguments, dir.path());
        let output = output.expect(0);
        for server in [&one, &other] {
            assert!(
                output
                    .out
                    .contains(&format!("sends to {}\n", server.address())),
                "{output:?}"
            );
            let asked = server.take();
            assert!(!asked.is_empty());
            // Both threads use the server of the URL.
            assert!(
                asked
                    .iter()
                    .all(|it| it.header("host") == Some(&one.address()))
            );
        }
    }
}

/// All threads use another port, not just the first.
#[test]
fn all_threads_can_use_another_address() {
    let (one, other) = (Recorder::start(), Recorder::start());
    let address = other.address();
    let (_, port) = address.rsplit_once(':').unwrap();
    let script = format!(
        "function setup(thread) thread.addr = wrk.lookup('127.0.0.1', '{port}')[1] end
         function delay() return 100 end"
    );
    let (_, own) = one.address().rsplit_once(':').map(owned).unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{own}/");
        let output = ours_with(&script, &["-t2", "-c2", "-d1", "-s", "script.lua", &url]).expect(0);
        assert!(number(REQUESTS, &output) > 0.0);
        assert_eq!(one.take(), [], "{host}");
        assert!(!other.take().is_empty(), "{host}");
    }
}

fn owned((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// An address that is reserved for documentation (RFC 5737) counts as public.
#[test]
fn scripts_can_not_load_public_addresses() {
    let origin = Origin::start(&[]);
    for script in [
        "wrk.connect(wrk.lookup('192.0.2.7', '80')[1])",
        "function setup(thread) thread.addr = wrk.lookup('192.0.2.7', '80')[1] end",
    ] {
        let url = origin.url("/");
        let output = ours_with(script, &["-t1", "-c1", "-d1", "-s", "script.lua", &url]).expect(1);
        assert!(output.err.contains("script.lua"), "{output:?}");
        assert!(output.err.contains("192.0.2.7 is outside"), "{output:?}");
        assert!(output.err.contains("PRONY_PUBLIC=1"), "{output:?}");
    }
}

#[test]
fn failures_are_reported_where_wrk_reports_them() {
    let origin = Origin::start(&[]);
    for path in ["/fault/truncate", "/fault/reset", "/fault/garbage"] {
        let url = origin.url(path);
        for output in both("", &["-t1", "-c2", "-d1", &url]).map(|output| output.expect(0)) {
            let read = "awk '/Socket errors:/ {print $6 + 0}'";
            assert!(number(read, &output) > 0.0, "{path}: {output:?}");
            let others = "awk '/Socket errors:/ {print $4 + $8 + $10}'";
            assert_eq!(number(others, &output), 0.0, "{path}: {output:?}");
            assert_eq!(number(REQUESTS, &output), 0.0, "{path}: {output:?}");
        }
    }
    // A late response counts as one; only prony reports responses that never arrive.
    let late = "awk '/Socket errors:/ {print $10}'";
    let url = origin.url("/delay/1300ms");
    for output in
        both("", &["-t1", "-c2", "-d2", "--timeout", "1", &url]).map(|output| output.expect(0))
    {
        assert_eq!(
            (number(REQUESTS, &output), number(late, &output)),
            (2.0, 2.0),
            "{output:?}"
        );
    }
    let output = ours_with(
        "",
        &[
            "-t1",
            "-c3",
            "-d2",
            "--timeout",
            "1",
            &origin.url("/fault/stall"),
        ],
    );
    assert_eq!(number(late, &output.expect(0)), 3.0);
}

/// Failing scripts, their message, and whether there are results.
const FAILING: &[(&str, &str, bool)] = &[
    ("x = = 1", ":1: unexpected symbol near '='\n", false),
    ("\nerror('no luck')", ":2: no luck\n", false),
    (
        "function setup(thread)\n thread:set('f', print)\nend",
        ":2: cannot transfer 'function' to thread\n",
        false,
    ),
    (
        "function init() local x = nil\n x.y = 1 end",
        ":2: attempt to index local 'x' (a nil value)\n",
        false,
    ),
    (
        "function request() return nil end",
        ": request() gave a nil in place of a string\n",
        false,
    ),
    (
        "function request() return 'GET /' end",
        ": request(): request 1 of what it gave has no end\n",
        false,
    ),
    (
        "n = 0\nfunction request()\n n = n + 1\n if n > 9 then error('enough') end\n \
         return wrk.request() end",
        ":4: enough\n",
        true,
    ),
    (
        "n = 0\nfunction request()\n n = n + 1\n return n > 9 and 'junk' or wrk.request() end",
        ": request(): \"junk\" is not an HTTP request\n",
        true,
    ),
    (
        "function response()\n response = {} + 1 end",
        ":2: attempt to perform arithmetic on a table value\n",
        true,
    ),
    (
        "function delay()\n return wrk.nothing.at.all end",
        ":2: attempt to index field 'nothing' (a nil value)\n",
        true,
    ),
    (
        "local ffi = require 'ffi'",
        ":1: module 'ffi' not found:\n",
        false,
    ),
];

#[test]
fn a_failing_script_is_reported_by_file_and_line_after_the_results() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let arguments = ["-t2", "-c2", "-d5", "-s", "script.lua", &url];
    for (script, expected_text, has_results) in FAILING {
        let output = ours_with(script, &arguments).expect(1);
        let expected_text = format!("script.lua{expected_text}");
        assert!(
            output.err.starts_with(&expected_text),
            "{script}: {output:?}"
        );
        let results = output.out.contains("Requests/sec:");
        assert_eq!(results, *has_results, "{script}: {output:?}");
    }
    let output = ours_with("", &["-s", "nowhere.lua", "-d1", &url]).expect(1);
    let expected_text = "nowhere.lua: cannot be read: No such file";
    assert!(output.err.starts_with(expected_text), "{output:?}");
    // Errors in `done` are reported, too.
    let script = "function done(s)\n print('n', s.requests)\n error('late') end";
    let output = ours_with(script, &["-t1", "-c1", "-d1", "-s", "script.lua", &url]).expect(1);
    assert_eq!(output.err, "script.lua:3: late\n");
    let n = through("awk '$1 == \"n\" {print $2}'", &output.out);
    assert_eq!(n, through(REQUESTS, &output.out));
}

/// Runs `prony wrk` until it has printed something, waits, interrupts it, and returns its output.
fn interrupted(script: &str, arguments: &[&str], printed: &str) -> CommandOutput {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    let all = [&["wrk"], arguments].concat();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let mut child = command(program, &all, dir.path()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut out = String::new();
    while !out.contains(printed) {
        let read = stdout.read_line(&mut out).unwrap();
        assert!(read > 0, "{out}");
    }
    thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stdout.read_to_string(&mut out).unwrap();
    let mut output = CommandOutput::from(child.wait_with_output().unwrap());
    output.out = out;
    output
}

#[test]
fn an_interrupt_ends_a_run_with_its_results() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let output = interrupted("", &["-t1", "-c2", "-d60", &url], " connections\n").expect(0);
    assert!(output.out.contains("Requests/sec:"), "{output:?}");
    // A script with an endless loop can't delay the end, and `done` is still called.
    let round = "
        local n = 0
        function request()
           n = n + 1
           if n > 20 then print('round') io.stdout:flush() end
           while n > 20 do end
           return wrk.request()
        end
        function done(summary) print('done', summary.requests) end
    ";
    let arguments = ["-t1", "-c2", "-d60", "-s", "script.lua", &url];
    let output = interrupted(round, &arguments, "round\n").expect(1);
    assert_eq!(output.err, "script.lua:6: interrupted\n");
    let done = through("awk '$1 == \"done\" {print $2}'", &output.out);
    assert_eq!(done, through(REQUESTS, &output.out));
}

/// wrk2's additions to wrk.
#[test]
fn a_rate_prints_wrk2s_spectrum() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/");
    let output = ours(
        "wrk",
        &["-t2", "-c4", "-d1", "-R200", "-U", &url],
        dir.path(),
    )
    .expect(0);
    assert_eq!(number(REQUESTS, &output), 200.0);
    for (script, expected) in [
        (
            "grep -c 'Latency Distribution (HdrHistogram - Recorded Latency)'",
            "1",
        ),
        (
            "grep -c 'Latency Distribution (HdrHistogram - Uncorrected Latency (measured'",
            "1",
        ),
        ("grep -c '^100.000%  '", "2"),
        ("grep -c '^ 99.999%  '", "2"),
        // In the form that HdrHistogram's plotters read.
        ("awk '/^#\\[Max/ {print $7 + 0}' | head -1", "200"),
        (
            "awk '$4 == \"inf\" {print $2, $3}' | head -1",
            "1.000000 200",
        ),
        ("grep -c '^-*$' | awk '{print ($1 >= 2)}'", "1"),
    ] {
        assert_eq!(
            through(script, &output.out),
            expected,
            "{script}: {output:?}"
        );
    }
}
