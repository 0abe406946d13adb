//! Journeys of several steps, and steps from recorded requests.

use prony_record::{EntryGrouping, HalfSecondJourneys, Record};

use crate::fleet_loads::FleetSetup;
use crate::running::{Origin, Workdir, check_schema};

/// A token that a response contains, a request with it, and a page that fails now and then.
const STEPS: &str = r#"
[[step]]
name = "login"
url = "/echo"
body_file = "login.json"
capture.token = { json = "/token" }
capture.length = { header = "content-length" }

[[step]]
name = "use"
url = "/echo?{{ token }}"
form = { token = "{{ token }}", user = "{{ user }}" }
expect_body = { regex = "token=t%201&user=(ann|bob)" }
think = "5ms"

[[step]]
name = "rest"
url = "/bytes/{{ length }}"
"#;

fn write_steps(workdir: &Workdir) {
    workdir.write("journey.toml", STEPS);
    workdir.write("login.json", r#"{"token": "t 1"}"#);
    workdir.write("users.csv", "user\nann\nbob\n");
}

/// Checks that the journeys of a load are accounted for, and that none failed.
#[track_caller]
fn check_journeys(record: &Record) {
    record.totals.check().unwrap();
    let journeys = record.journeys.as_ref().unwrap();
    assert_eq!(journeys.failed, 0, "{journeys:?}");
    let ended = journeys.completed + journeys.failed + journeys.unfinished;
    assert_eq!(journeys.started, ended);
    let steps = record.entries.as_ref().unwrap();
    assert_eq!(steps.grouping, EntryGrouping::Step);
    let names = steps.each.iter().map(|it| it.name.as_str());
    assert!(names.eq(["login", "use", "rest"]));
}

#[test]
fn a_load_reports_its_journeys_and_steps() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    write_steps(&workdir);
    let url = origin.url("/");
    let words = [
        "load",
        "--steps",
        "journey.toml",
        "--data",
        "users.csv",
        "-c",
        "4",
        "-n",
        "20",
        "--json",
        "r.json",
        "--html",
        "r.html",
        "--csv",
        "r.csv",
        "--require",
        "journeys.completed>=20",
        "--fail-if",
        "failed(login)>0",
        "--require",
        "journey_time.p50<10s",
        &url,
    ];
    let output = workdir.run(&words).expect(0);
    assert!(output.out.contains("journeys of 3"), "{}", output.out);
    assert!(
        output.out.contains("Steps of the journey\n"),
        "{}",
        output.out
    );
    assert!(
        output.out.contains("20 journeys: 20 completed"),
        "{}",
        output.out
    );
    let json = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &json);
    let record = Record::from_json(&workdir.read("r.json")).unwrap();
    check_journeys(&record);
    assert_eq!(record.totals.ok, 60);
    let of_series = |count: fn(&HalfSecondJourneys) -> u64| -> u64 {
        let series = record.series.iter();
        series.map(|it| count(&it.journeys.unwrap())).sum()
    };
    assert_eq!(
        (of_series(|it| it.completed), of_series(|it| it.failed)),
        (20, 0)
    );
    assert!(workdir.read("r.csv").starts_with("t_s,"));
    assert!(workdir.read("r.csv").contains(",journeys_completed,"));
    let metrics = workdir.run(&["report", "r.json", "--openmetrics", "-"]);
    let metrics = metrics.expect(0).out;
    for line in [
        "prony_journeys_begun_total 20",
        "prony_journeys_total{end=\"completed\"} 20",
        "prony_journeys_total{end=\"failed\"} 0",
        "prony_step_requests_total{step=\"login\",result=\"ok\"} 20",
        "prony_journey_time_seconds_count 20",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    assert!(workdir.read("r.html").contains("20 journeys: 20 completed"));
    let again = workdir.run(&["report", "r.json"]).expect(0);
    assert!(
        again.out.contains("20 journeys: 20 completed"),
        "{}",
        again.out
    );
    // A failed check ends the journey, and the finding names it.
    workdir.write("login.json", r#"{"tokens": 1}"#);
    let output = workdir.run(&words).expect(1);
    assert!(
        output.out.contains("/token in the JSON body was not found"),
        "{}",
        output.out
    );
    assert!(output.out.contains("20 failed (100%)"), "{}", output.out);
    let failed = "prony_step_requests_total{step=\"login\",result=\"failed\"} 20";
    let metrics = workdir.run(&["report", "r.json", "--openmetrics", "-"]);
    assert!(metrics.expect(1).out.contains(failed));
}

#[test]
fn the_capacity_of_a_journey_is_a_rate_of_journeys() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    write_steps(&workdir);
    let url = origin.url("/");
    let words = [
        "capacity",
        "--goal",
        "journeys.failed<50%",
        "--max-rate",
        "100",
        "--probe",
        "1s",
        "--steps",
        "journey.toml",
        "--data",
        "users.csv",
        "--json",
        "c.json",
        &url,
    ];
    let printed = workdir.run(&words).expect(0);
    let bound = ": ≥ 100 journeys/s. This is the highest permitted rate.";
    assert!(printed.out.contains(bound), "{}", printed.out);
    assert!(!printed.err.contains("req/s"), "{}", printed.err);
    let document = workdir.json("c.json");
    check_schema("prony.capacity-1.schema.json", &document);
    let probe = &document["searches"][0]["probes"][1];
    assert_eq!(probe["rate_unit"], "journeys");
}

#[test]
fn a_step_whose_variable_was_not_captured_fails_by_name() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let steps = "[[step]]\nname = \"maybe\"\nurl = \"/echo\"\nbody = \"t\"\nwhen = \"50%\"\n\
                 capture.token = { regex = \"t\" }\n\
                 [[step]]\nname = \"use\"\nurl = \"/?{{ token }}\"\n";
    workdir.write("journey.toml", steps);
    let url = origin.url("/");
    let words = [
        "load",
        "--steps",
        "journey.toml",
        "-c",
        "2",
        "-n",
        "40",
        "--json",
        "r.json",
        &url,
    ];
    let output = workdir.run(&words).expect(0);
    let reason = "{{ token }} has";
    assert!(output.out.contains(reason), "{}", output.out);
    let record = Record::from_json(&workdir.read("r.json")).unwrap();
    record.totals.check().unwrap();
    let journeys = record.journeys.as_ref().unwrap();
    assert_eq!(journeys.completed + journeys.failed, 40);
    assert!(
        journeys.completed > 5 && journeys.failed > 5,
        "{journeys:?}"
    );
    let steps = &record.entries.as_ref().unwrap().each;
    assert_eq!((steps[0].failed, steps[1].failed), (0, journeys.failed));
}

#[test]
fn agents_divide_the_users_of_a_journey() {
    let ground = FleetSetup::new(2);
    write_steps(&ground.workdir);
    let url = ground.origin.url("/");
    let words = [
        "load",
        "--agents",
        "2",
        "-c",
        "5",
        "-n",
        "41",
        "--steps",
        "journey.toml",
        "--data",
        "users.csv",
        "--json",
        "by-agents.json",
        &url,
    ];
    let words = ground.words(&words);
    ground.workdir.run(&words).expect(0);
    let record = Record::from_json(&ground.workdir.read("by-agents.json")).unwrap();
    check_journeys(&record);
    let journeys = record.journeys.as_ref().unwrap();
    assert_eq!((journeys.completed, record.totals.ok), (41, 123));
    assert!(journeys.journey_time_us.p50 > 0.0);
    ground.end();
}

#[test]
fn comparisons_alternate_between_journeys() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    write_steps(&workdir);
    let urls = [origin.url("/"), origin.url("/")];
    for (mode, dir) in [("auto", "interleaved"), ("off", "sequential")] {
        let args = "compare -c 4 -d 1200ms --warmup 100ms --blocks 2 --names old,new \
                    --steps journey.toml --data users.csv";
        let words: Vec<&str> = args.split_whitespace().collect();
        let more = ["--interleave", mode, "--out", dir, &urls[0], &urls[1]];
        // A verdict may be withheld on a busy machine.
        let output = workdir.run(&[&words[..], &more].concat());
        assert!(
            output.out.contains("login"),
            "{} {}",
            output.out,
            output.err
        );
        let verdict = workdir.json(&format!("{dir}/verdict.json"));
        check_schema("prony.verdict-1.schema.json", &verdict);
        let rate = &verdict["variants"][1]["metrics"]["journeys_per_s"]["median"];
        assert!(rate.as_f64().unwrap() > 0.0, "{verdict}");
        // The second step has a think time, so the number of users determines the rate.
        let compared = &verdict["comparisons"][0]["metric"];
        assert_eq!(compared, "journey_p99_us");
        assert!(
            output.out.contains("Steps of the journey"),
            "{}",
            output.out
        );
        for name in ["old", "new"] {
            let json = workdir.read(&format!("{dir}/trials/1-{name}/record.json"));
            check_journeys(&Record::from_json(&json).unwrap());
        }
    }
}

#[test]
fn recorded_requests_become_a_file_that_can_be_run() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("");
    workdir.write(
        "copied.txt",
        &format!(
            "curl '{url}/echo' -H 'User-Agent: x' --data-raw 'a=1&b=c+d' ;\ncurl '{url}/bytes/7'\n"
        ),
    );
    let output = workdir.run(&["steps", "copied.txt"]).expect(0);
    assert!(
        output.out.contains("wrote journey.toml with 2 steps"),
        "{}",
        output.out
    );
    let text = workdir.read("journey.toml");
    assert!(text.contains("form = { a = \"1\", b = \"c d\" }"), "{text}");
    workdir
        .run(&[
            "load",
            "--steps",
            "journey.toml",
            "-n",
            "3",
            "-c",
            "1",
            &url,
        ])
        .expect(0);
    let output = workdir.run(&["steps", "copied.txt"]).expect(2);
    assert!(
        output.err.contains("journey.toml already exists"),
        "{}",
        output.err
    );
    workdir.write("other.txt", "wget x");
    let output = workdir.run(&["steps", "other.txt", "-"]).expect(2);
    assert!(
        output
            .err
            .contains("other.txt: the command begins with \"wget\""),
        "{}",
        output.err
    );
}
