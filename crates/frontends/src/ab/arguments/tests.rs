use super::*;

fn read(words: &str) -> Result<AbCommand, AbArgumentsError> {
    let words: Vec<OsString> = words.split_whitespace().map(Into::into).collect();
    parse(&words)
}

fn load(words: &str) -> AbArguments {
    match read(words) {
        Ok(AbCommand::Load(arguments)) => *arguments,
        other => panic!("{words}: {other:?}"),
    }
}

fn error_of(words: &str) -> AbArgumentsError {
    match read(words) {
        Err(error_of) => error_of,
        Ok(wanted) => panic!("{words}: {wanted:?}"),
    }
}

#[test]
fn defaults_are_abs() {
    let plain = load("http://h/");
    assert_eq!((plain.requests, plain.concurrency), (1, 1));
    assert_eq!(plain.time_limit, None);
    assert_eq!(plain.timeout, Duration::from_secs(30));
    assert_eq!(plain.method, "GET");
    assert!(plain.percentages && plain.deviations && !plain.keepalive && !plain.quiet);
    assert_eq!(
        (plain.html, plain.expected_size, plain.tls),
        (None, None, None)
    );
}

#[test]
fn each_flag_is_read() {
    let all = load(
        "-n 100 -c 4 -s 5 -b 4096 -B 127.0.0.2 -T a/b -v 3 -C a=1 -C b=2 -H X:1 -H Y:2 -A u:p -P x:y \
         -X p:81 -k -d -S -q -l -g g.tsv -e e.csv -r -m DELETE -I -Z A:B -f TLS1.2 -E c.pem \
         --expect-size 10K --start-at 1793600000.5 https://h:8443/a?b",
    );
    assert_eq!((all.requests, all.concurrency), (100, 4));
    assert_eq!(
        (all.timeout, all.window),
        (Duration::from_secs(5), Some(4096))
    );
    assert_eq!(all.sources.len(), 1);
    assert_eq!(all.content_type.as_deref(), Some("a/b"));
    assert_eq!(all.verbosity, 3);
    assert_eq!(
        (all.cookies, all.headers),
        (
            vec!["a=1".into(), "b=2".into()],
            vec!["X:1".into(), "Y:2".into()]
        )
    );
    assert_eq!(
        (all.login.as_deref(), all.proxy_login.as_deref()),
        (Some("u:p"), Some("x:y"))
    );
    assert_eq!(
        all.proxy.map(|it| (it.host, it.port)),
        Some(("p".to_owned(), 81))
    );
    assert!(all.keepalive && !all.percentages && !all.deviations && all.quiet && all.any_length);
    assert_eq!(
        (all.gnuplot, all.csv),
        (Some("g.tsv".into()), Some("e.csv".into()))
    );
    assert_eq!((all.method.as_str(), all.hides_name), ("DELETE", true));
    assert_eq!(all.ciphers, ["A", "B"]);
    assert_eq!(all.tls, Some(TlsVersion::Tls12));
    assert_eq!(all.certificate, Some("c.pem".into()));
    assert_eq!(all.expected_size, Some(10_240));
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1_793_600_000.5);
    assert_eq!(all.start_at, Some(moment));
    assert_eq!((all.url.is_tls, all.url.port), (true, 8443));
}

#[test]
fn flags_may_be_bundled_and_values_attached() {
    let bundled = load("-kqn20 -c5 -lrdSi -- h/");
    assert_eq!((bundled.requests, bundled.concurrency), (20, 5));
    assert!(bundled.keepalive && bundled.quiet && bundled.any_length);
    assert_eq!(bundled.method, "HEAD");
    assert_eq!(load("--expect-size=7 h/").expected_size, Some(7));
}

#[test]
fn a_time_limit_sets_a_count_unless_one_follows() {
    assert_eq!(load("-t 5 h/").requests, 50_000);
    assert_eq!(load("-t 5 h/").time_limit, Some(Duration::from_secs(5)));
    assert_eq!(load("-n 10 -t 5 h/").requests, 50_000);
    assert_eq!(load("-t 5 -n 10 h/").requests, 10);
    // In ab, -t 0 means no time limit.
    let endless = load("-t 0 h/");
    assert_eq!((endless.time_limit, endless.requests), (None, 50_000));
}

#[test]
fn methods_come_from_four_flags_and_bodies_from_two() {
    let post = load("-p f h/");
    assert_eq!(
        (post.method.as_str(), post.body_file),
        ("POST", Some("f".into()))
    );
    assert_eq!(load("-u f h/").method, "PUT");
    assert_eq!(load("-i h/").method, "HEAD");
    let patch = load("-p f -m PATCH h/");
    assert_eq!(
        (patch.method.as_str(), patch.body_file),
        ("PATCH", Some("f".into()))
    );
    assert_eq!(load("-m PATCH -p f h/").method, "PATCH");
    for mixed in ["-i -p f h/", "-p f -i h/", "-p f -u f h/", "-i -u f h/"] {
        let AbArgumentsError::Value(error) = error_of(mixed) else {
            panic!("{mixed}");
        };
        let text = error.to_string();
        assert!(text.starts_with("Cannot mix "), "{text}");
    }
}

#[test]
fn table_attributes_imply_the_table() {
    let default = "bgcolor=white".to_owned();
    assert_eq!(load("-w h/").html, Some(HtmlAttributes::default()));
    assert_eq!(load("-x border=1 h/").html.unwrap().table, "border=1");
    assert_eq!(load("-y a=b h/").html.unwrap().row, "a=b");
    assert_eq!(load("-y a=b h/").html.unwrap().cell, default);
    assert_eq!(load("-z c=d -w h/").html.unwrap().cell, "c=d");
}

#[test]
fn several_addresses_from_one_or_several_flags() {
    let sources =
        load("-B 127.0.0.2 -B 127.0.0.16/28 -B127.0.0.40-127.0.0.44,127.0.0.9 h/").sources;
    let text: Vec<String> = sources.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "127.0.0.2",
            "127.0.0.16/28",
            "127.0.0.40-127.0.0.44",
            "127.0.0.9"
        ]
    );
    let named = load("-B localhost h/").sources[0].to_string();
    assert!(["127.0.0.1", "::1"].contains(&named.as_str()), "{named}");
    assert!(matches!(
        error_of("-B 127.0.0.0/33 h/"),
        AbArgumentsError::Value(_)
    ));
}

#[test]
fn protocols_that_the_library_does_not_support_are_refused_by_name() {
    for old in ["SSL2", "SSL3", "TLS1", "TLS1.1", "tls1.0"] {
        let AbArgumentsError::Refused(error) = error_of(&format!("-f {old} https://h/")) else {
            panic!("{old}");
        };
        let text = error.to_string();
        assert!(text.contains(old), "{text}");
    }
    assert_eq!(load("-f tls1.3 https://h/").tls, Some(TlsVersion::Tls13));
    assert_eq!(load("-f ALL https://h/").tls, None);
    assert!(matches!(
        error_of("-f QUIC https://h/"),
        AbArgumentsError::Value(_)
    ));
}

#[test]
fn a_proxy_has_a_port_or_the_usual_one() {
    for (text, host, port) in [
        ("p", "p", 80),
        ("p:3128", "p", 3128),
        ("[::1]:81", "[::1]", 81),
    ] {
        let proxy = load(&format!("-X {text} h/")).proxy.unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), (host, port));
    }
    for bad in ["p:x", ":81", "p:0", "http://p:81", "u:p@h:81"] {
        assert!(
            matches!(
                error_of(&format!("-X {bad} h/")),
                AbArgumentsError::Value(_)
            ),
            "{bad}"
        );
    }
}

#[test]
fn invalid_arguments_are_reported_with_the_usage() {
    for (words, text) in [
        ("", "wrong number of arguments"),
        ("-n 3", "wrong number of arguments"),
        // The first argument that is not a flag ends the flags.
        ("h/ -n 3", "wrong number of arguments"),
        ("a/ b/", "wrong number of arguments"),
        ("h", "invalid URL"),
        ("-n", "option requires an argument -- n"),
        ("-kc", "option requires an argument -- c"),
        ("-Q h/", "illegal option -- Q"),
        ("-kQ h/", "illegal option -- Q"),
        ("--size 3 h/", "illegal option -- --size"),
        (
            "--expect-size",
            "option requires an argument -- expect-size",
        ),
        (
            "-c 5 h/",
            "Cannot use concurrency level greater than total number of requests",
        ),
        (
            "-n 3 -c 5 h/",
            "Cannot use concurrency level greater than total number of requests",
        ),
    ] {
        assert_eq!(
            error_of(words),
            AbArgumentsError::Usage(text.into()),
            "{words}"
        );
    }
}

#[test]
fn invalid_values_are_refused_completely() {
    for words in [
        "-n 0 h/",
        "-n x h/",
        "-n 10k h/",
        "-n -5 h/",
        "-c 0 h/",
        "-c -1 h/",
        "-t -1 h/",
        "-t 1.5 h/",
        "-s 0 h/",
        "-b x h/",
        "-b 99999999999 h/",
        "-v x h/",
        "-m GE:T h/",
        "--expect-size x h/",
        "--start-at noon h/",
        "--start-at -5 h/",
    ] {
        assert!(
            matches!(error_of(words), AbArgumentsError::Value(_)),
            "{words}: {:?}",
            error_of(words)
        );
    }
}

#[test]
fn start_times_are_seconds_or_dates_with_an_offset() {
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_600_000);
    for text in [
        "1793600000",
        "@1793600000",
        "2026-11-02T06:13:20Z",
        "2026-11-02T07:13:20+01:00",
        "2026-11-02T01:13:20-05:00",
    ] {
        assert_eq!(moment(text), Ok(expected), "{text}");
    }
    for text in [
        "",
        "2026-11-02",
        "2026-11-02T06:13:20",
        "é06:13",
        "2026-11-02T06:13:20é1:00",
    ] {
        assert!(moment(text).is_err(), "{text}");
    }
}

#[test]
fn help_and_version_need_no_url() {
    assert!(matches!(read("-h"), Ok(AbCommand::Usage)));
    assert!(matches!(read("-V"), Ok(AbCommand::Version)));
    assert!(matches!(read("-n 5 -V"), Ok(AbCommand::Version)));
}

#[test]
fn a_start_time_has_two_forms() {
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_600_000);
    for text in [
        "1793600000",
        "@1793600000",
        "2026-11-02T06:13:20Z",
        "2026-11-02T07:13:20+01:00",
    ] {
        assert_eq!(moment(text), Ok(expected), "{text}");
    }
}
