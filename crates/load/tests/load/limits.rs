//! Tests of limits on connections, threads and files, of stopping, and of empty loads.

use std::time::Duration;

use prony_load::{Control, SpecError, run};
use prony_record::{Outcome, Record};

use crate::harness::{Served, Via, io, load, outcomes, resolve};

#[test]
fn fewer_requests_than_connections() {
    let served = Served::clear();
    for threads in [1, 2] {
        let record = served.load(Via::Tcp, "/", &format!("-n 3 -c 50 -t {threads}"));
        assert_eq!(outcomes(&record), [(Outcome::Ok, 3)]);
        assert_eq!(record.totals.connections_opened, 3);
    }
}

#[test]
fn counts_are_exact_for_any_number_of_threads() {
    let served = Served::with(prony_origin::Config {
        threads: 2,
        ..prony_origin::Config::default()
    });
    for (n, connections, threads) in [(1000, 10, 1), (1001, 10, 3), (997, 7, 7)] {
        let before = served.origin.requests();
        let words = format!("-n {n} -c {connections} -t {threads}");
        let record = served.load(Via::Tcp, "/", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, n)], "{words}");
        assert_eq!(served.origin.requests() - before, n, "{words}");
        assert_eq!(record.totals.connections_opened, connections);
        assert_eq!(record.load.threads, threads);
    }
}

#[test]
fn an_open_loop_sends_as_many_requests_as_are_due() {
    let served = Served::clear();
    let record = served.load(Via::Tcp, "/", "-r 500 -d 1s -c 20 -t 2");
    let totals = &record.totals;
    assert_eq!(totals.started + totals.unstarted, 500);
    assert_eq!(totals.failed, 0);
    assert_eq!(record.rate.offered_per_s, Some(500.0));
    assert_eq!(totals.elapsed_s, 1.0);
}

#[test]
fn two_thousand_connections_at_once() {
    let served = Served::clear();
    let record = served.load(Via::Tcp, "/delay/50ms", "-n 4000 -c 2000");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4000)]);
    assert_eq!(record.totals.connections_opened, 2000);
}

#[test]
fn exceeding_the_file_limit_is_refused_with_a_hint() {
    let served = Served::clear();
    let url = served.url("/");
    let Err(SpecError::Environment(error)) = resolve(&url, &["-c", "4000000000"]) else {
        panic!("four billion connections were accepted");
    };
    assert!(
        error.to_string().contains("open files") && error.to_string().contains("ulimit -n"),
        "{error}"
    );
    let most = ["-c", "4000000000", "-t", "4000000000"];
    let Err(SpecError::Environment(error)) = resolve(&url, &most) else {
        panic!("four billion threads were accepted");
    };
    assert!(error.to_string().contains("(use --threads "), "{error}");
    let Err(SpecError::Settings(error)) = resolve(&url, &["-c", "4", "-t", "5"]) else {
        panic!("a thread without a connection was accepted");
    };
    assert!(
        error.to_string().contains("--threads 5") && error.to_string().contains("--connections 4"),
        "{error}"
    );
}

#[test]
fn a_missing_core_is_an_environment_error() {
    let served = Served::clear();
    // The last core number doesn't fit into the system's CPU masks.
    for core in ["1023", "4095"] {
        let cores = format!("0,{core}");
        let words = ["-c", "2", "-t", "2", "--cores", &cores, "-n", "2"];
        let spec = resolve(&served.url("/"), &words).unwrap();
        let error = run(&spec, &Control::new(2)).unwrap_err().to_string();
        assert!(error.contains(&format!("core {core}")), "{error}");
    }
}

#[test]
fn a_refused_tunnel_names_its_target() {
    let served = Served::clear();
    let Err(SpecError::Settings(error)) = resolve(&served.url("/"), &["-X", "CONNECT"]) else {
        panic!("CONNECT was accepted");
    };
    assert!(error.to_string().contains("--method CONNECT"), "{error}");
}

#[test]
fn a_stopped_load_returns_its_results_so_far() {
    let served = Served::clear();
    for words in [
        &["-d", "1h", "-c", "4"][..],
        &["-d", "1h", "-c", "4", "-r", "2000"],
    ] {
        let spec = resolve(&served.url("/"), words).unwrap();
        let control = Control::new(1);
        let record = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&spec, &control));
            while control.counts().0 < 100 {
                std::thread::sleep(Duration::from_millis(1));
            }
            control.stop();
            running.join().unwrap()
        });
        let record = record.unwrap();
        assert!(record.totals.ok >= 100);
        assert!(record.totals.elapsed_s < 3600.0 && record.totals.elapsed_s > 0.0);
        assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
        assert_eq!(control.counts().1, 0);
    }
}

#[test]
fn a_load_without_requests_has_a_complete_record() {
    let served = Served::clear();
    // On average, a request is due every thousand seconds, so it is very unlikely that one is due
    // within 100 ms.
    let record = served.load(Via::Tcp, "/", "-d 100ms -c 2 -r 0.001 --arrivals poisson");
    assert_eq!(record.totals.started, 0);
    let json = record.to_json();
    assert!(!json.contains("NaN") && !json.contains("inf"), "{json}");
    assert_eq!(Record::from_json(&json).unwrap(), record);
    assert_eq!(record.response_time_us.max, 0.0);
    assert_eq!(record.rate.ok_per_s, 0.0);
}

#[test]
fn a_timeout_shorter_than_the_response_is_enforced() {
    let served = Served::clear();
    let record = served.load(Via::Tcp, "/delay/10s", "-n 4 -c 2 --timeout 50ms");
    assert_eq!(outcomes(&record), [(Outcome::Timeout, 4)]);
    // Recorded values are precise to 0.1%.
    assert!(record.response_time_us.min >= 49_950.0);
    assert_eq!(record.totals.censored, 4);
}

#[test]
fn the_record_has_the_requested_settings() {
    let served = Served::clear();
    let url = served.url("/");
    let record = load(
        &url,
        "-d 200ms --warmup 100ms -c 2 -r 100 --seed 5 --timeout 3s",
    );
    let info = &record.load;
    assert_eq!(
        (info.url.as_str(), info.model.as_str()),
        (url.as_str(), "open")
    );
    assert_eq!((info.duration_s, info.warmup_s), (Some(0.2), 0.1));
    assert_eq!((info.rate_per_s, info.timeout_s), (Some(100.0), 3.0));
    assert_eq!(info.arrivals.as_deref(), Some("constant"));
    assert_eq!(
        (record.seed, info.keepalive, info.io.as_str()),
        (5, true, io())
    );
    assert!(record.generator.busy_share > 0.0 && record.generator.busy_share <= 1.0);
    assert!(record.generator.max_rss_bytes > 0);
    assert!(record.started_at.ends_with('Z'));
    assert!(!record.histograms["response_time"].is_empty());
    let series: u64 = record.series.iter().map(|slice| slice.ok).sum();
    assert_eq!(series, record.totals.ok);
}
