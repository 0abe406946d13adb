//! Loads whose requests differ, from the command line, plans and agents. The tests check what the
//! server receives.

use std::collections::BTreeSet;

use crate::fleet_loads::FleetSetup;
use crate::recorder::Recorder;
use crate::running::Workdir;

/// A data file with three rows.
const USERS: &str = "id,name\n7,Ann Lee\n8,\"B \"\"q\"\" C\"\n9,é\n";

/// Returns the paths of the requests that a server received, each split into the part before `?n=`
/// and the number after it.
fn rows_and_numbers(recorder: &Recorder) -> Vec<(String, u64)> {
    let requests = recorder.take();
    let split = requests.iter().map(|request| {
        let path = request.line.split(' ').nth(1).unwrap();
        let (row, number) = path.split_once("?n=").unwrap();
        (row.to_owned(), number.parse().unwrap())
    });
    split.collect()
}

#[test]
fn values_come_from_the_file_and_the_functions() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    workdir.write("users.csv", USERS);
    let url = recorder.url("/u/{{ id }}/{{ name }}?n={{ seq }}");
    let header = "X-Name: {{ name | url }}";
    let body = "{\"name\":\"{{ name | json }}\",\"n\":{{ random(4, 4) }}}";
    let words = [
        "load",
        "-n",
        "6",
        "-c",
        "1",
        "--data",
        "users.csv",
        "-H",
        header,
        "-X",
        "POST",
        "--body",
        body,
        &url,
    ];
    let output = workdir.run(&words).expect(0);
    assert!(
        output.out.contains("/u/{{ id }}/{{ name }}"),
        "{}",
        output.out
    );
    let requests = recorder.take();
    let names = ["Ann%20Lee", "B%20%22q%22%20C", "%C3%A9"];
    let json = ["Ann Lee", "B \\\"q\\\" C", "é"];
    for (at, request) in requests.iter().enumerate() {
        let (row, number) = (at % 3, at + 1);
        let line = format!("POST /u/{}/{}?n={number} HTTP/1.1", row + 7, names[row]);
        assert_eq!(request.line, line);
        assert_eq!(request.header("x-name"), Some(names[row]));
        let body = format!("{{\"name\":\"{}\",\"n\":4}}", json[row]);
        assert_eq!(String::from_utf8_lossy(&request.body), body);
        assert_eq!(
            request.header("content-length"),
            Some(&*body.len().to_string())
        );
    }
    assert_eq!(requests.len(), 6);
}

#[test]
fn json_lines_and_plain_lines_can_be_mixed() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    workdir.write(
        "list",
        "/plain\n{\"url\": \"/json\", \"method\": \"PUT\", \"headers\": {\"X-A\": \"own\"}, \
         \"body\": \"{{ seq }}\", \"weight\": 1}\n",
    );
    let url = recorder.url("/");
    let words = [
        "load", "-n", "40", "-c", "2", "-H", "X-A: all", "--urls", "list", &url,
    ];
    workdir.run(&words).expect(0);
    let requests = recorder.take();
    assert_eq!(requests.len(), 40);
    for request in &requests {
        match request.line.as_str() {
            "GET /plain HTTP/1.1" => assert_eq!(request.header("x-a"), Some("all")),
            line => {
                assert_eq!(line, "PUT /json HTTP/1.1");
                assert_eq!(request.header("x-a"), Some("own"));
                let number: u64 = String::from_utf8_lossy(&request.body).parse().unwrap();
                assert!((1..=40).contains(&number));
            }
        }
    }
}

#[test]
fn mistakes_name_file_and_line_before_anything_is_sent() {
    let workdir = Workdir::new();
    let recorder = Recorder::start();
    let url = recorder.url("/");
    workdir.write("ragged.csv", "id,name\n1,Ann\n2\n");
    workdir.write("users.csv", USERS);
    workdir.write("lines.csv", "id\n\"1\n2\"\n");
    workdir.write("metod", "/\n{\"url\": \"/\", \"metod\": \"PUT\"}\n");
    workdir.write("open", "/\n/{{ id\n");
    workdir.write("weights", "/\n{\"url\": \"/\", \"weight\": 2}\n");
    for (words, expected) in [
        (
            &["--data", "ragged.csv"][..],
            "ragged.csv:3: 1 value in a table of 2 columns",
        ),
        (
            &["--data", "users.csv", "--body", "{{ nme }}"],
            "users.csv has no column \"nme\"; write one of id, name",
        ),
        (
            &["--body", "{{ nme }}"],
            "--body: {{ nme }}: no value has this name",
        ),
        (
            &["--data", "lines.csv", "-H", "A: {{ id }}"],
            "lines.csv:2: the value \"1\\n2\" of column id can't",
        ),
        (
            &["--urls", "metod"],
            "metod:2: column 20: unknown field `metod`, expected one of",
        ),
        (
            &["--urls", "open"],
            "open:2: \"{{\" is not closed; end it with }}",
        ),
        (
            &["--urls", "weights", "--order", "random"],
            "weights:2: a weight has no effect with --order random",
        ),
        (&["--body", "{{ random(2, 1) }}"], "the lower one first"),
        (&["--data-order", "random"], "--data"),
    ] {
        let words = [&["load", "-n", "1"], words, &[&url]].concat();
        let output = workdir.run(&words).expect(2);
        assert!(output.err.contains(expected), "{}", output.err);
    }
    assert_eq!(recorder.take(), []);
}

#[test]
fn plans_leave_columns_to_the_load() {
    let workdir = Workdir::new();
    workdir.write("codes.csv", "code\n200\n201\n");
    workdir.write(
        "plan.toml",
        r#"
        name     = "values"
        baseline = { socket = "unix" }
        [trials]
        blocks     = 1
        warmup     = "0s"
        duration   = "200ms"
        [factors]
        socket = ["tcp", "unix"]
        [service.origin]
        command = ["prony", "origin", "--listen", "{{ origin.address }}"]
        listen  = "{{ socket }}"
        [load]
        target      = "origin"
        connections = 2
        path        = "/status/{{ code }}?{{ socket }}={{ seq }}"
        header      = ["X-Id: {{ uuid }}", "X-N: {{ random(1, 9) }}"]
        data        = "codes.csv"
        "#,
    );
    let output = workdir.run(&["compare", "plan.toml", "--out", "r"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    for trial in ["1-tcp", "1-unix"] {
        let record = workdir.json(&format!("r/trials/{trial}/record.json"));
        let statuses = record["status"].as_object().unwrap();
        let codes: BTreeSet<&str> = statuses.keys().map(String::as_str).collect();
        assert_eq!(codes, BTreeSet::from(["200", "201"]));
        let count = |code: &str| statuses[code].as_u64().unwrap();
        assert!(count("200").abs_diff(count("201")) <= 4, "{statuses:?}");
    }
    workdir.write(
        "bad.toml",
        &workdir.read("plan.toml").replace("{{ code }}", "{{ cod }}"),
    );
    let output = workdir.run(&["compare", "bad.toml", "--dry-run"]).expect(2);
    assert!(
        output.err.contains("bad.toml:16") && output.err.contains("code"),
        "{}",
        output.err
    );
}

#[test]
fn compared_urls_have_values_too() {
    let workdir = Workdir::new();
    let servers = [Recorder::start(), Recorder::start()];
    workdir.write("users.csv", USERS);
    let urls = servers
        .each_ref()
        .map(|server| server.url("/{{ id }}?n={{ seq }}"));
    let words = [
        "compare",
        "--blocks",
        "1",
        "-d",
        "100ms",
        "--warmup",
        "0s",
        "-c",
        "1",
        "--data",
        "users.csv",
        "--out",
        "r",
        &urls[0],
        &urls[1],
    ];
    let output = workdir.run(&words);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    for server in &servers {
        for (row, number) in rows_and_numbers(server) {
            assert_eq!(row, format!("/{}", 7 + (number - 1) % 3));
        }
    }
}

#[test]
fn agents_send_each_row_and_number_once() {
    let ground = FleetSetup::new(3);
    let recorder = Recorder::start();
    ground.workdir.write("users.csv", USERS);
    let url = recorder.url("/{{ id }}?n={{ seq }}");
    let words = [
        "load",
        "--agents",
        "3",
        "-c",
        "6",
        "-n",
        "301",
        "--data",
        "users.csv",
        &url,
    ];
    let words = ground.words(&words);
    ground.workdir.run(&words).expect(0);
    let mut numbers = BTreeSet::new();
    let mut checks = 0;
    for (row, number) in rows_and_numbers(&recorder) {
        assert_eq!(row, format!("/{}", 7 + (number - 1) % 3));
        // Each agent sends the first request once more to check the target.
        checks += u32::from(!numbers.insert(number) && number == 1);
    }
    assert!(checks <= 3, "{checks}");
    assert_eq!(numbers, (1..=301).collect());
    ground.end();
}
