//! Compares Lua scripts in `prony wrk` and wrk: counts, threads, addresses and errors.

use std::fs;

use crate::programs::{Origin, original, ours, through};
use crate::recorder::Recorder;
use crate::wrk::{REQUESTS, asked_by_both, both, folder, number, ours_with, owned};

/// A script that counts requests in each thread, and prints all counts at the end as CSV.
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
        // Up to six requests may be in flight, and one more was generated to check the script.
        assert!((requests..=requests + 7).contains(&asked), "{output:?}");
        assert_eq!((field(2), field(3)), (requests, 0), "{output:?}");
        assert!(field(4) > 0 && field(6) > field(4), "{output:?}");
        assert!(field(8) >= 900_000, "{output:?}");
        assert_eq!((fields[9], field(10)), ("hello", 0), "{output:?}");
    }
}

/// A script may return several requests in one string, as in wrk's example of pipelining.
#[test]
fn pipelined_requests_are_counted_individually() {
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
    // Pipelined requests are also counted if the script has no `response` hook.
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
            "script.lua: request(): it returned 3 requests at once, but 2 in an earlier call\n",
        ),
        (
            "function request() return wrk.format('HEAD') .. wrk.format() end",
            "script.lua: request(): it returned a HEAD request together with others\n",
        ),
    ] {
        assert_eq!(ours_with(script, &arguments).expect(1).err, expected_text);
    }
}

/// The token in the first response is sent in every later request.
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

/// Each thread sends requests to the address in its `thread.addr`.
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
            // The Host header comes from the URL, whichever server receives the request.
            assert!(
                asked
                    .iter()
                    .all(|it| it.header("host") == Some(&one.address()))
            );
        }
    }
}

/// All threads, not just one, use a port other than the URL's.
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
        ": request() returned a nil instead of a string\n",
        false,
    ),
    (
        "function request() return 'GET /' end",
        ": request(): request 1 of the returned text is incomplete\n",
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
