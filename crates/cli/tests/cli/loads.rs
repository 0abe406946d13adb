//! `prony load` and its output files.

use serde_json::Value;

use crate::running::{Origin, Workdir, check_schema};

#[test]
fn only_the_record_goes_to_standard_output_and_it_adds_up() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let output = workdir
        .run(&[
            "load",
            "-n",
            "50",
            "-c",
            "3",
            "--json",
            "-",
            &origin.url("/bytes/1K"),
        ])
        .expect(0);
    let record: Value = serde_json::from_str(&output.out).unwrap();
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["schema"], "prony.record/1");
    assert_eq!(record["load"]["url"], Value::from(origin.url("/bytes/1K")));
    let totals = &record["totals"];
    let number = |key: &str| totals[key].as_u64().unwrap();
    assert_eq!(
        number("started"),
        number("ok") + number("failed") + number("unfinished")
    );
    assert_eq!(number("ok"), 50);
    assert_eq!(number("body_bytes_in"), 50 * 1024);
    assert_eq!(record["status"]["200"], 50);
    assert_eq!(output.err, "");
}

#[test]
fn series_and_timeline_hold_every_success() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let files = [
        "--json",
        "r.json",
        "--csv",
        "r.csv",
        "--timeline",
        "t.json",
        "--html",
        "r.html",
    ];
    let args = [
        &["load", "-d", "1200ms", "-c", "2", "-r", "200"][..],
        &files,
        &[&origin.url("/")],
    ];
    let output = workdir.run(&args.concat()).expect(0);
    assert!(output.out.contains("req/s"), "{}", output.out);
    let ok = workdir.json("r.json")["totals"]["ok"].as_u64().unwrap();
    assert!(ok > 0);
    let timeline = workdir.json("t.json");
    let completions = timeline
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| pair[1].as_u64().unwrap());
    assert_eq!(completions.sum::<u64>(), ok);
    let csv = workdir.read("r.csv");
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("t_s,ok,"));
    let column = lines.map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(column.sum::<u64>(), ok);
    assert!(
        workdir.read("r.html").starts_with("<!doctype html>")
            || workdir.read("r.html").starts_with("<!DOCTYPE html>")
    );
}

#[test]
fn csv_takes_the_place_of_the_summary() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let output = workdir
        .run(&["load", "-n", "5", "-c", "1", "--csv", "-", &origin.url("/")])
        .expect(0);
    assert!(output.out.starts_with("t_s,ok,"), "{}", output.out);
    assert_eq!(output.out.lines().count(), 2);
}

#[test]
fn lists_of_urls_and_sockets_are_loaded() {
    let workdir = Workdir::new();
    let socket = workdir.path("o.sock");
    let origin = Origin::start(
        &workdir,
        &["--listen", "0", "--unix", socket.to_str().unwrap()],
    );
    assert_eq!(origin.addresses[1], format!("unix:{}", socket.display()));
    workdir.write("urls.txt", "# three\n/\n/bytes/10 \n/echo POST hello\n");
    let output = workdir.run(&[
        "load",
        "-n",
        "9",
        "-c",
        "1",
        "--urls",
        "urls.txt",
        "--json",
        "-",
        &origin.addresses[0],
    ]);
    let record: Value = serde_json::from_str(&output.expect(0).out).unwrap();
    assert_eq!(record["totals"]["body_bytes_in"], 3 * (13 + 10 + 5));
    let unix = [
        "load",
        "-n",
        "4",
        "-c",
        "1",
        "--unix",
        "o.sock",
        "--json",
        "-",
        "http://localhost/",
    ];
    let record: Value = serde_json::from_str(&workdir.run(&unix).expect(0).out).unwrap();
    assert_eq!(record["totals"]["ok"], 4);
    assert_eq!(origin.stop(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_origin_serves_quic_on_the_port_of_tcp_and_on_its_own() {
    let workdir = Workdir::new();
    let args = ["--listen", "0", "--tls", "--quic", "--quic=0"];
    let origin = Origin::start(&workdir, &args);
    let [tcp, shared, own] = &origin.addresses[..] else {
        panic!("{:?}", origin.addresses);
    };
    let port = tcp.strip_prefix("https://").unwrap().trim_end_matches('/');
    assert_eq!(shared, &format!("quic:{port}"));
    assert_ne!(own, shared);
    for address in [shared, own] {
        let address = address.strip_prefix("quic:").unwrap();
        let taken = std::net::UdpSocket::bind(address).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "{address}");
    }
    let bad = workdir.run(&["origin", "--quic=unix:/run/o"]).expect(2);
    assert!(bad.err.contains("is not a UDP address"), "{}", bad.err);
}

#[test]
fn tls_is_verified_by_default() {
    let workdir = Workdir::new();
    let origin = Origin::start(&workdir, &["--listen", "0", "--tls"]);
    assert!(
        origin.addresses[0].starts_with("https://"),
        "{:?}",
        origin.addresses
    );
    let output = workdir
        .run(&["load", "-n", "2", "-c", "1", &origin.addresses[0]])
        .expect(1);
    assert!(output.out.contains("tls"), "{}", output.out);
    workdir
        .run(&[
            "load",
            "-n",
            "2",
            "-c",
            "1",
            "--insecure",
            &origin.addresses[0],
        ])
        .expect(0);
}
