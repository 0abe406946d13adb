//! Tests that settings can be parsed from every format used by flags, plans and messages, and that
//! they round-trip.

use serde_json::json;

use super::*;

/// The flags of `prony load`. Other tests use them to describe loads.
#[path = "../../tests/flags/mod.rs"]
mod flags;

impl LoadSettings {
    /// Parses flags into settings.
    pub(crate) fn from_flags(words: &str) -> LoadSettings {
        LoadSettings::try_typed(words).unwrap()
    }

    fn try_typed(words: &str) -> Result<LoadSettings, String> {
        serde_json::from_value(flags::settings(words.split_whitespace()))
            .map_err(|error| error.to_string())
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let load = LoadSettings::default();
    assert_eq!(load.connections(), 50);
    assert_eq!(load.timeout(), Duration::from_secs(20));
    assert_eq!(load.connect_timeout(), Duration::from_secs(5));
    assert_eq!((load.method(), load.streams()), ("GET", 1));
    assert_eq!(load.planned(), Some(Duration::from_secs(10)));
    let statuses = load.expect_status();
    assert!(statuses.contains(399) && !statuses.contains(400));
}

/// Flags that are accepted.
const GOOD: &[&str] = &[
    "-c 10",
    "-n 1k",
    "-d 500ms",
    "--warmup 0s",
    "-r 20k",
    "-r 100:5000 -d 5s",
    "--stages 500@30s,2000@1m --stages 0@500ms",
    "--think exp:1s -d 5s",
    "-t 2",
    "--cores 0-1,3",
    "--seed 7",
    "-X PUT -H A:b --resolve h:80:127.0.0.1",
    "-u me:secret --body x",
    "--body-file f",
    "--form a=@b;type=c/d --form e=f --path-as-is",
    "--http 1.0",
    "--http 2 --streams 100",
    "--no-keepalive --cookies",
    "--requests-per-connection 100 --connection-lifetime 1m",
    "--connection-rate 500",
    "--tcp-only --idle 10k",
    "--addresses random --resolve-every 5s",
    "--follow 0",
    "--follow 20",
    "--urls f",
    "--steps f --ramp-up 5s",
    r#"--step {"url":"/a","name":"a","body":"b","once":true,"headers":{"A":"b"},"weight":2.5}"#,
    r#"--step {"url":"/","think":"exp:1s","repeat":3} --step {"url":"/","think":"0s","repeat":"1-3"}"#,
    r#"--step {"url":"/","capture":{"a":{"json":"/b","default":"c"}},"expect_status":"200,302"}"#,
    r#"--step {"url":"/","expect_body":{"regex":"a+"},"when":"30%","form":{"b":"c"}}"#,
    r#"--step {"url":"/","expect_body":"text","multipart":["a=b"],"body_file":"f","method":"PUT"}"#,
    "--order random",
    "--order weighted",
    "--data f --data-order random",
    "--script f --script-args a --script-args b",
    "--unix /s",
    "--proxy h:3128",
    "--proxy http://u:p@[::1]:3128/",
    "--source 127.0.0.2",
    "--source 127.0.0.0/30 --source ::1-::9",
    "--source 127.0.0.2,127.0.0.9 --source-order per-user",
    "--source-order round-robin",
    "--source-order random",
    "--proxy-protocol v1 --unix /s",
    "--proxy-protocol v2 --proxy-source 10.0.0.0/8 --proxy-source fd00::1",
    "--timeout 0s",
    "--connect-timeout 1s",
    "--wait-for-server=5s",
    "--io poll",
    "--io uring",
    "--io xdp --interface near --gateway-mac 02:00:00:00:00:01 --busy-poll",
    "--socket-buffer 64K",
    "--expect-status 200,404",
    "--expect-size 1K",
    "--insecure",
    "--ca f",
    "--cert f --key k",
    "--message a --message b --binary",
    "--message-file a --message-file b --messages f --deflate client_no_context_takeover",
    "--fan-out others",
    "--events sse",
    "--events lines --event-field choices.0.text",
    "--events chunks --end-marker [DONE]",
    "--events sse --gap-timeout 5s",
    "--grpc shop.v1.Cart/Add --proto f --proto-path d --grpc-gzip --grpc-message-max 1M",
    "--grpc Cart/Watch --protoset f --gap-timeout 5s",
    "--sni n",
    "--tls-min 1.2",
    "--tls-max 1.3",
    "--ciphers a,b",
    "--groups X25519,P-256",
    "--signature-algorithms ed25519",
    "--replay f --speed 2 --log-format $request --replay-methods POST,PUT",
    "--no-resumption",
    "--early-data",
    "--no-coalescing",
    "--public",
    "-r 5 --arrivals poisson",
];

/// Flags with invalid values.
const BAD: &[&str] = &[
    "-c 0",
    "-c x",
    "-n -1",
    "-d 0s",
    "-d 5x",
    "-r 0",
    "-t 0",
    "--cores a",
    "--user me",
    "--seed x",
    "--http 4",
    "--streams 0",
    "--follow x",
    "--io epoll",
    "--socket-buffer x",
    "--order upside",
    "--connect-timeout 0s",
    "--wait-for-server=x",
    "--expect-status 20",
    "--expect-size x",
    "--expect-sha256 12",
    "--events json",
    "--speed 0",
    "--speed fast",
    "--grpc Add",
    "--grpc shop..Cart/Add",
    "--grpc shop.Cart/Add/x",
    "--event-field a..b --events sse",
    "--gap-timeout x --events sse",
    "--tls-min 1.1",
    "--source 127.0.0.0/33",
    "--source-order upside",
    "--proxy https://h:1",
    "--step {}x",
    "--step {\"url\":\"/\",\"thnk\":\"1s\"}",
    "--proxy-protocol v3",
    "--proxy-source x --proxy-protocol v1",
];

/// Flags that contradict each other or need another flag. The error message begins with the first
/// flag.
const CONTRADICTORY: &[&str] = &[
    "--key f",
    "--arrivals poisson",
    "--source 127.0.0.2 --unix /s",
    "--proxy h:1 --unix /s",
    "--proxy-source 127.0.0.2",
    "--body x --body-file f",
    "--form a=b --body x",
    "--form a=b --body-file f",
    "--ca f --insecure",
    "--events sse --expect-size 5",
    "--event-field a",
    "--end-marker a",
    "--gap-timeout 1s",
    "--script-args a",
    "--script f --urls g",
    "--script f --data g",
    "--script f --cookies",
    "--steps f --urls g",
    "--steps f --order random",
    "--step {\"url\":\"/\"} --body x",
    "--ramp-up 1s",
    "--script f --think 1s",
];

#[test]
fn each_setting_takes_its_unit_and_refuses_another() {
    for words in GOOD {
        LoadSettings::from_flags(words).check().unwrap();
    }
    for words in BAD {
        assert!(LoadSettings::try_typed(words).is_err(), "{words}");
    }
    for words in CONTRADICTORY {
        let error = LoadSettings::from_flags(words).check().unwrap_err();
        let flag = flag_of(error.setting().unwrap());
        assert!(words.starts_with(&flag), "{words}: {error}");
        assert!(error.to_string().starts_with(&flag), "{words}: {error}");
    }
}

#[test]
fn values_round_trip() {
    for words in GOOD {
        let settings = LoadSettings::from_flags(words);
        let json = serde_json::to_string(&settings).unwrap();
        let again: LoadSettings = serde_json::from_str(&json).unwrap();
        assert_eq!(again, settings, "{json}");
        let flags: Vec<String> = settings
            .given()
            .iter()
            .flat_map(GivenSetting::flags)
            .collect();
        let flags = flags::settings(flags.iter().map(String::as_str));
        let again: LoadSettings = serde_json::from_value(flags).unwrap();
        assert_eq!(again, settings, "{words}");
    }
}

#[test]
fn defaults_of_the_table_are_values_or_described() {
    for setting in LoadSettings::TABLE {
        if setting.default.starts_with(|c: char| c.is_ascii_digit()) {
            let value = setting.default.split(',').next().unwrap();
            assert_eq!(setting.check(value), Ok(()), "{}", setting.key);
        }
        for (other, _) in setting.excludes {
            assert!(Setting::find(other).is_some(), "{other}");
        }
        assert!(
            setting
                .needs
                .is_none_or(|other| Setting::find(other).is_some())
        );
        let words = setting.meaning.split_whitespace().count();
        assert!((1..=20).contains(&words), "{}: {words} words", setting.key);
        assert!(!setting.meaning.ends_with('.'), "{}", setting.key);
    }
}

#[test]
fn every_setting_has_an_example_that_round_trips() {
    let all = GOOD.join(" ") + " --expect-sha256 " + &"0f".repeat(32);
    let given = LoadSettings::from_flags(&all).given();
    let given: Vec<&str> = given.iter().map(|setting| setting.key.as_str()).collect();
    assert_eq!(given, LoadSettings::KEYS);
}

#[test]
fn values_of_any_scalar_type_are_parsed_from_their_text() {
    let json = json!({
        "connections": 10, "requests": "1k", "rate": 2.5, "http": 1.0, "duration": 3,
        "cores": [0, "2-3"], "expect_status": [200, "300-303"], "ciphers": "a,b",
        "header": {"A": 1, "B": "x"}, "source": ["127.0.0.1", "127.0.0.8/30"],
        "body": 7, "urls": ["one.txt"], "no_keepalive": false,
    });
    let settings: LoadSettings = serde_json::from_value(json).unwrap();
    assert_eq!(settings.connections, Some(10));
    assert_eq!(settings.requests, Some(1000));
    assert_eq!(settings.rate, Some(2.5.into()));
    assert_eq!(settings.http, Some(HttpVersion::Http10));
    assert_eq!(settings.duration, Some(Duration::from_secs(3)));
    assert_eq!(settings.cores, Some(CoreList(vec![0, 2, 3])));
    assert!(settings.expect_status().contains(302));
    assert_eq!(settings.ciphers, ["a", "b"]);
    assert_eq!(settings.header, ["A: 1", "B: x"]);
    assert_eq!(settings.source.len(), 2);
    assert_eq!(settings.body.as_deref(), Some("7"));
    assert_eq!(settings.urls, Some("one.txt".into()));
    for bad in [
        json!({"no_keepalive": "true"}),
        json!({"connections": {"a": 1}}),
        json!({"connections": [1, 2]}),
        json!({"conections": 1}),
    ] {
        assert!(
            serde_json::from_value::<LoadSettings>(bad.clone()).is_err(),
            "{bad}"
        );
    }
}
