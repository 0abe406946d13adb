//! Loads that end when they are precise enough (`--precision`).

use crate::running::{Origin, Workdir};

#[test]
fn a_load_ends_when_its_rate_is_precise_enough() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-r", "400", "-d", "5m", "--precision", "rate 30%"];
    let outputs = [
        "--json",
        "r.json",
        "--html",
        "r.html",
        "--fail-if",
        "rate<1",
    ];
    let printed = workdir
        .run(&[&args[..], &outputs, &[&url]].concat())
        .expect(0);
    assert!(
        printed.out.contains("Precision within this load"),
        "{}",
        printed.out
    );
    assert!(printed.err.contains("rate 400 req/s ±"), "{}", printed.err);
    let record = workdir.json("r.json");
    assert!(record["totals"]["elapsed_s"].as_f64().unwrap() < 150.0);
    let interval = &record["intervals"][0];
    assert_eq!(interval["metric"], "rate");
    assert!(interval["relative_half_width"].as_f64().unwrap() <= 0.3);
    assert!(interval["low"].as_f64() <= Some(400.0) && interval["high"].as_f64() >= Some(400.0));
    assert!(
        workdir
            .read("r.html")
            .contains("Precision within this load")
    );
}

#[test]
fn a_precision_out_of_reach_is_reported_early_and_the_results_are_kept() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "load",
        "-r",
        "20",
        "-d",
        "12s",
        "--precision",
        "p99 2%",
        "--json",
        "r.json",
        &url,
    ];
    let printed = workdir.run(&args).expect(0);
    assert!(printed.err.contains("too few"), "{}", printed.err);
    let record = workdir.json("r.json");
    assert!(record["totals"]["ok"].as_u64().unwrap() > 100);
    assert_eq!(
        record["intervals"][0]["refused"]["because"],
        "too_few_requests"
    );
}

#[test]
fn precisions_that_no_load_can_have_are_rejected() {
    let workdir = Workdir::new();
    for (args, message) in [
        (
            vec!["--precision", "p99"],
            "is not a metric and a percentage",
        ),
        (vec!["--precision", "p50 1%"], "use 1.6% to 50%"),
        (vec!["--precision", "failed 5%"], "has no interval"),
        (
            vec!["--precision", "rate 5%", "-r", "1:100"],
            "no steady value",
        ),
    ] {
        let url = ["http://127.0.0.1:9/"];
        let printed = workdir
            .run(&[&["load"], &args[..], &url].concat())
            .expect(2);
        assert!(printed.err.contains(message), "{}", printed.err);
    }
}
