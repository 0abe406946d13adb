//! Tests of journeys: the steps of virtual users, and what is recorded about them.

use prony_record::{JourneyResults, Nanos, Outcome};
use rand::SeedableRng;

use super::*;

/// Returns the load of a journey with these steps.
fn journey(steps: &str, words: &str) -> LoadSpec {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), steps).unwrap();
    spec(&format!("--steps {} {words}", file.path().display()))
}

/// Creates a server whose response to each request is a function of the request's text.
fn site(response: impl Fn(&str) -> String + 'static) -> Box<dyn Server> {
    responding(move |request| {
        let text = String::from_utf8_lossy(&request.bytes);
        reply([(ms(5), Step::Send(response(&text).into_bytes()))])
    })
}

fn response(status: u16, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
}

/// A site with a login that returns a token, which all other pages need.
fn shop(text: &str) -> String {
    if text.starts_with("POST /login") {
        return response(200, "Set-Cookie: sid=7\r\n", r#"{"token": "t 1"}"#);
    }
    if text.contains("Bearer t 1") && text.contains("sid=7") {
        return response(200, "X-Page: 2\r\n", "<p>welcome</p>");
    }
    response(401, "", "no")
}

/// The requests that a load sent: the time in milliseconds, and the first line without the version.
fn sent(outcomes: &Outcomes) -> Vec<(u64, String)> {
    let log = outcomes.logs[0].borrow();
    let requests = log.requests.iter().map(|(at, bytes)| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let line = text.split(" HTTP").next().unwrap_or_default().to_owned();
        (at.0 / 1_000_000, line)
    });
    requests.collect()
}

fn lines(outcomes: &Outcomes) -> Vec<String> {
    sent(outcomes).into_iter().map(|(_, line)| line).collect()
}

/// The journeys of a load, after a check that they are accounted for.
fn journeys(outcomes: &Outcomes) -> &JourneyResults {
    let journeys = outcomes.record.journeys.as_ref().unwrap();
    assert_eq!(
        journeys.started,
        journeys.completed + journeys.failed + journeys.unfinished
    );
    // Each failed request ends a journey, and nothing else does.
    assert_eq!(journeys.failed, outcomes.record.totals.failed);
    journeys
}

const LOGIN: &str = r#"
[[step]]
name = "login"
url = "/login"
body = "{}"
capture.token = { json = "/token" }
think = "100ms"

[[step]]
url = "/page?t={{ token }}"
headers = { Authorization = "Bearer {{ token }}" }
capture.page = { header = "x-page" }
expect_body = "welcome"

[[step]]
url = "/page/{{ page }}"
method = "PUT"
headers = { Authorization = "Bearer {{ token }}" }
"#;

#[test]
fn captured_values_are_used_by_later_steps() {
    let outcomes = simulate(&journey(LOGIN, "-c 1 -n 2"), vec![site(shop)]);
    let expected = [
        (0, "POST /login"),
        (105, "GET /page?t=t%201"),
        (110, "PUT /page/2"),
        (115, "POST /login"),
        (220, "GET /page?t=t%201"),
        (225, "PUT /page/2"),
    ];
    let expected = expected.map(|(at, line)| (at, line.to_owned()));
    assert_eq!(sent(&outcomes), expected);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 6)]);
    let journeys = journeys(&outcomes);
    assert_eq!((journeys.started, journeys.completed), (2, 2));
    // The time of a journey consists of its response times, without the pauses.
    let time = &journeys.journey_time_us;
    assert!((time.min - 15_000.0).abs() < 60.0 && (time.max - 15_000.0).abs() < 60.0);
    let steps = outcomes.record.entries.as_ref().unwrap();
    let names = steps.each.iter().map(|it| (it.name.as_str(), it.ok));
    let expected = [
        ("login", 2),
        ("GET /page?t={{ token }}", 2),
        ("PUT /page/{{ page }}", 2),
    ];
    assert!(names.eq(expected));
}

#[test]
fn a_failed_step_ends_its_journey() {
    let fails = |from: &'static str, to: &'static str| {
        let server = site(move |text| shop(text).replace(from, to));
        let outcomes = simulate(&journey(LOGIN, "-c 1 -n 3"), vec![server]);
        let results = journeys(&outcomes).clone();
        assert_eq!((results.failed, results.completed), (3, 0), "{from}");
        (outcomes.all(), lines(&outcomes), errors_of(&outcomes))
    };
    let first = |line: &str| vec![line.to_owned(); 3];
    let (all, lines, error) = fails("token", "tokem");
    assert_eq!(all, [(Outcome::Capture, 3)]);
    assert_eq!(lines, first("POST /login"));
    let expected = "step \"login\": no value for token: /token in the JSON body was not found";
    assert!(error.contains(expected), "{error}");
    let (all, lines, _) = fails("200 X\r\nSet-Cookie", "403 X\r\nSet-Cookie");
    assert_eq!(all, [(Outcome::UnexpectedStatus, 3)]);
    assert_eq!(lines, first("POST /login"));
    let (all, lines, error) = fails("welcome", "goodbye");
    assert_eq!(all, [(Outcome::Ok, 3), (Outcome::UnexpectedBody, 3)]);
    assert_eq!(lines.len(), 6);
    assert!(
        error.contains("\"welcome\" was not found in the body"),
        "{error}"
    );
}

fn errors_of(outcomes: &Outcomes) -> String {
    outcomes.finding("errors").unwrap_or_default().to_owned()
}

#[test]
fn a_captured_line_break_does_not_reach_a_header() {
    let server = site(|_| response(200, "", r#"{"token": "a\r\nX-Evil: 1"}"#));
    let outcomes = simulate(&journey(LOGIN, "-c 1 -n 1"), vec![server]);
    assert_eq!(outcomes.all(), [(Outcome::Capture, 1)]);
    assert!(errors_of(&outcomes).contains("can't be used in a header"));
}

#[test]
fn journeys_begin_on_the_schedule_and_times_count_from_then() {
    const STEPS: &str = "[[step]]\nurl = \"/a\"\nthink = \"30ms\"\n[[step]]\nurl = \"/b\"";
    let run = |words: &str| {
        let outcomes = simulate(
            &journey(STEPS, words),
            vec![site(|_| response(200, "", ""))],
        );
        let results = journeys(&outcomes).clone();
        (sent(&outcomes), results, outcomes)
    };
    // Three users are enough for a journey of 40 ms every 20 ms.
    let (sent, results, outcomes) = run("-c 3 -r 50 -n 4");
    let at = |line: &str| -> Vec<u64> {
        let sent = sent.iter().filter(|(_, it)| it == line);
        sent.map(|(at, _)| *at).collect()
    };
    assert_eq!(at("GET /a"), [0, 20, 40, 60]);
    assert_eq!(at("GET /b"), [35, 55, 75, 95]);
    assert_eq!(results.completed, 4);
    assert_eq!(outcomes.record.generator.late_us.max, 0.0);
    assert_eq!(outcomes.record.rate.offered_per_s, None);
    // One user takes 40 ms per journey, so each journey begins 20 ms later than the previous one
    // after it was due. Pauses are not part of the time.
    let (sent, results, _) = run("-c 1 -r 50 -n 4");
    let starts: Vec<u64> = sent.iter().step_by(2).map(|(at, _)| *at).collect();
    assert_eq!(starts, [0, 40, 80, 120]);
    let time = &results.journey_time_us;
    assert!((time.min - 10_000.0).abs() < 40.0, "{}", time.min);
    assert!((time.max - 70_000.0).abs() < 300.0, "{}", time.max);
    // Journeys that are due at the end of the load are unstarted or unfinished.
    let (_, results, _) = run("-c 1 -r 50 -d 100ms");
    assert_eq!((results.completed, results.unfinished), (2, 1));
    assert_eq!(results.unstarted, 2);
}

#[test]
fn steps_depend_on_chance_on_variables_and_on_earlier_journeys() {
    const STEPS: &str = r#"
        [[step]]
        url = "/once"
        once = true
        capture.kind = { header = "kind" }
        [[step]]
        url = "/rare"
        when = "10%"
        [[step]]
        url = "/gold"
        when = "kind == gold"
        [[step]]
        url = "/other"
        when = "kind != gold"
        [[step]]
        url = "/one"
        weight = 1
        [[step]]
        url = "/three"
        weight = 3
        [[step]]
        url = "/end"
        repeat = "2-4"
    "#;
    let server = site(|_| response(200, "Kind: gold\r\n", ""));
    let outcomes = simulate(&journey(STEPS, "-c 2 -n 2000 --seed 5"), vec![server]);
    assert_eq!(journeys(&outcomes).completed, 2_000);
    let lines = lines(&outcomes);
    let count = |path: &str| {
        let line = format!("GET {path}");
        lines.iter().filter(|it| **it == line).count()
    };
    assert_eq!(
        (count("/once"), count("/gold"), count("/other")),
        (2, 2_000, 0)
    );
    assert_eq!(count("/one") + count("/three"), 2_000);
    // Bounds of four standard deviations.
    assert!(count("/rare").abs_diff(200) < 54, "{}", count("/rare"));
    assert!(count("/one").abs_diff(500) < 78, "{}", count("/one"));
    assert!(count("/end").abs_diff(6_000) < 147, "{}", count("/end"));
}

#[test]
fn a_data_row_belongs_to_a_journey_and_with_once_to_a_user() {
    let data = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(data.path(), "user\na\nb\nc\n").unwrap();
    let run = |once: &str| {
        let steps = format!(
            "[[step]]\nurl = \"/in/{{{{ user }}}}/{{{{ seq }}}}\"\n{once}\n\
             [[step]]\nurl = \"/go/{{{{ user }}}}/{{{{ seq }}}}\""
        );
        let words = format!("-c 1 -n 4 --data {}", data.path().display());
        let server = site(|_| response(200, "", ""));
        lines(&simulate(&journey(&steps, &words), vec![server])).join(" ")
    };
    assert_eq!(
        run("").replace("GET ", ""),
        "/in/a/1 /go/a/1 /in/b/2 /go/b/2 /in/c/3 /go/c/3 /in/a/4 /go/a/4"
    );
    assert_eq!(
        run("once = true").replace("GET ", ""),
        "/in/a/1 /go/a/1 /go/a/2 /go/a/3 /go/a/4"
    );
}

#[test]
fn users_begin_over_the_ramp() {
    const STEPS: &str = "[[step]]\nurl = \"/\"\nthink = \"1s\"";
    for workers in [1, 2] {
        let servers = (0..workers).map(|_| site(|_| response(200, "", "")));
        let spec = journey(STEPS, "-c 4 -d 900ms --ramp-up 400ms");
        let outcomes = simulate(&spec, servers.collect());
        let logs = outcomes.logs.iter();
        let mut starts: Vec<Nanos> = logs
            .flat_map(|log| {
                log.borrow()
                    .requests
                    .iter()
                    .map(|it| it.0)
                    .collect::<Vec<_>>()
            })
            .collect();
        starts.sort();
        assert_eq!(starts, [0, 100, 200, 300].map(ms), "{workers} workers");
    }
}

#[test]
fn journeys_are_accounted_for_with_any_server() {
    for seed in 0..60_u64 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let server = responding(move |_| {
            let after = Nanos(random.random_range(0..40_000_000));
            let step = match random.random_range(0..12) {
                0 => Step::Close,
                1 => Step::Fail(libc::ECONNRESET),
                2 => Step::Send(OK_CLOSE.to_vec()),
                3 => Step::Send(response(500, "", "").into_bytes()),
                4 => Step::Send(response(200, "X-Page: 1\r\n", "none").into_bytes()),
                _ => {
                    let fields = "X-Page: 1\r\nSet-Cookie: a=b\r\n";
                    let body = r#"{"token": "welcome"}"#;
                    Step::Send(response(200, fields, body).into_bytes())
                }
            };
            reply([(after, step)])
        });
        let words = match seed % 5 {
            0 => "-c 3 -d 2s --timeout 30ms",
            1 => "-c 5 -n 40",
            2 => "-c 4 -r 40 -d 2s --timeout 35ms",
            3 => "-c 4 -r 100 -n 50 --arrivals poisson",
            _ => "-c 2 -d 2s --warmup 500ms",
        };
        let outcomes = simulate(&journey(LOGIN, words), vec![server]);
        let results = journeys(&outcomes);
        assert!(results.started > 0, "{words}");
        if words.contains("-n 40") {
            assert_eq!((results.started, results.unfinished), (40, 0));
        }
        if words.contains("-n 50") {
            assert_eq!((results.started, results.unfinished), (50, 0));
        }
    }
}

#[test]
fn the_parts_of_a_page_follow_it() {
    const STEPS: &str = r#"
        [[step]]
        name = "home"
        url = "/home/"
        headers = { Authorization = "x", Accept = "text/html" }
        page = true
        think = "100ms"
        expect_status = 200
        [[step]]
        name = "end"
        url = "/end"
    "#;
    let server = site(|text| {
        if text.starts_with("GET /home/ ") {
            let page = "<img src=a.png><img src=//other.test/b.png><script src=/c.js></script>";
            return response(200, "Set-Cookie: a=b; Path=/\r\n", page);
        }
        // The parts have the page's header fields and the user's cookies.
        let is_part = text.contains(" /home/a.png ") || text.contains(" /c.js ");
        assert_eq!(is_part, !text.contains("/end"), "{text}");
        assert!(!is_part || text.contains("Authorization: x\r\n"), "{text}");
        assert!(text.to_lowercase().contains("cookie: a=b\r\n"), "{text}");
        response(if text.contains("/c.js") { 404 } else { 200 }, "", "")
    });
    let outcomes = simulate(&journey(STEPS, "-c 1 -n 2"), vec![server]);
    let expected = [
        (0, "GET /home/"),
        (5, "GET /home/a.png"),
        (10, "GET /c.js"),
        (115, "GET /end"),
        (120, "GET /home/"),
        (125, "GET /home/a.png"),
        (130, "GET /c.js"),
        (235, "GET /end"),
    ];
    let expected = expected.map(|(at, line)| (at, line.to_owned()));
    assert_eq!(sent(&outcomes), expected);
    // A part that fails does not end the journey.
    let results = outcomes.record.journeys.as_ref().unwrap();
    assert_eq!((results.completed, results.failed), (2, 0));
    assert!((results.journey_time_us.max - 20_000.0).abs() < 100.0);
    let entries = outcomes.record.entries.as_ref().unwrap();
    let counts = entries
        .each
        .iter()
        .map(|it| (it.name.as_str(), it.ok, it.failed));
    let expected = [("home", 2, 0), ("end", 2, 0), ("parts of pages", 2, 2)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}
