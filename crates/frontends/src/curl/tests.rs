use std::path::PathBuf;

use prony_load::{HttpVersion, TlsVersion};

use super::*;

fn parsed(text: &str) -> CurlCommand {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the values of all headers with this name in the command.
fn header<'a>(command: &'a CurlCommand, name: &str) -> Vec<&'a str> {
    let lines = command.settings.header.iter();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let named = fields.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.trim()).collect()
}

/// A request with a JSON body, as copied by Chrome. It has line continuations, and uses `$'…'` for
/// text that contains `!`.
const CHROME: &str = r#"curl 'https://shop.example.test/api/cart?id=7&lang=en' \
  -H 'accept: application/json, text/plain, */*' \
  -H 'accept-language: en-US,en;q=0.9' \
  -H 'content-type: application/json' \
  -b 'session=abc123; theme=dark' \
  -H 'origin: https://shop.example.test' \
  -H 'priority: u=1, i' \
  -H 'referer: https://shop.example.test/' \
  -H 'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"' \
  -H 'sec-fetch-mode: cors' \
  -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64)' \
  --data-raw $'{"text":"it\'s done\u0021\\n","count":2}' \
  --insecure"#;

/// A form request, as copied by Firefox.
const FIREFOX: &str = r#"curl 'http://app.example.test:8080/login' \
  --compressed \
  -X POST \
  -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0' \
  -H 'Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' \
  -H 'Accept-Encoding: gzip, deflate' \
  -H 'Content-Type: application/x-www-form-urlencoded' \
  -H 'Content-Length: 21' \
  -H 'Connection: keep-alive' \
  -H 'Cookie: csrftoken=t0k3n' \
  -H 'Upgrade-Insecure-Requests: 1' \
  --data-raw 'user=ann&password=a%21'"#;

#[test]
fn a_command_copied_from_chrome_is_read() {
    let command = parsed(CHROME);
    assert_eq!(
        command.url,
        "https://shop.example.test/api/cart?id=7&lang=en"
    );
    let settings = &command.settings;
    assert_eq!(settings.method.as_deref(), Some("POST"));
    assert_eq!(
        settings.body.as_deref(),
        Some(r#"{"text":"it's done!\n","count":2}"#)
    );
    assert_eq!(header(&command, "content-type"), ["application/json"]);
    assert_eq!(header(&command, "cookie"), ["session=abc123; theme=dark"]);
    assert_eq!(
        header(&command, "sec-ch-ua"),
        ["\"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\""]
    );
    assert_eq!(settings.header.len(), 10);
    assert!(settings.insecure);
}

#[test]
fn only_headers_without_a_value_are_removed() {
    let command = parsed("curl h -H 'X-Prefix: foo:' -H 'X-Empty;' -H 'X-Removed:'");
    assert_eq!(header(&command, "x-prefix"), ["foo:"]);
    assert_eq!(header(&command, "x-empty"), [""]);
    assert!(header(&command, "x-removed").is_empty());
}

#[test]
fn http3_is_used_if_it_is_the_only_version() {
    let command = parsed("curl --http3-only https://h/");
    assert_eq!(command.settings.http, Some(HttpVersion::Http3));
}

#[test]
fn a_command_copied_from_firefox_is_read() {
    let command = parsed(FIREFOX);
    assert_eq!(command.url, "http://app.example.test:8080/login");
    assert_eq!(command.settings.method.as_deref(), Some("POST"));
    assert_eq!(
        command.settings.body.as_deref(),
        Some("user=ann&password=a%21")
    );
    assert_eq!(header(&command, "accept-encoding"), ["gzip, deflate"]);
    assert_eq!(header(&command, "content-type").len(), 1);
    assert_eq!(header(&command, "cookie"), ["csrftoken=t0k3n"]);
    // The Content-Length header is dropped, because prony computes it itself.
    assert!(header(&command, "content-length").is_empty());
}

#[test]
fn methods_and_bodies_follow_curls_rules() {
    for (text, method, body, content) in [
        ("curl h", None, None, &[][..]),
        ("curl -I h", Some("HEAD"), None, &[]),
        ("curl -X DELETE h", Some("DELETE"), None, &[]),
        (
            "curl -da=1 -d b=2 h",
            Some("POST"),
            Some("a=1&b=2"),
            &["application/x-www-form-urlencoded"],
        ),
        (
            "curl -XPUT --json '{' --json '}' h",
            Some("PUT"),
            Some("{}"),
            &["application/json"],
        ),
        (
            "curl h -d x -H 'Content-Type: text/plain'",
            Some("POST"),
            Some("x"),
            &["text/plain"],
        ),
        (
            "curl h -d x -H 'Content-Type:'",
            Some("POST"),
            Some("x"),
            &[],
        ),
    ] {
        let command = parsed(text);
        assert_eq!(command.settings.method.as_deref(), method, "{text}");
        assert_eq!(command.settings.body.as_deref(), body, "{text}");
        assert_eq!(header(&command, "content-type"), content, "{text}");
    }
    let json = parsed("curl --json '{}' h");
    assert_eq!(header(&json, "accept"), ["application/json"]);
    let file = parsed("curl --data-binary @in.json h");
    assert_eq!(file.settings.body_file, Some(PathBuf::from("in.json")));
}

#[test]
fn data_is_the_query_with_get() {
    for (text, url) in [
        (
            "curl -G -d a=1 --data-urlencode 'q=x y' h/p",
            "h/p?a=1&q=x%20y",
        ),
        ("curl -G -d a=1 'h/p?b#top'", "h/p?b&a=1"),
        ("curl -IG -d a=1 h", "h?a=1"),
    ] {
        let command = parsed(text);
        assert_eq!(command.url, url);
        assert_eq!(command.settings.body, None);
        assert!(header(&command, "content-type").is_empty());
    }
}

#[test]
fn options_become_settings() {
    let text = "$ curl -sSvkL --url https://h/ -u ann:s3cret -A me -e 'http://r/;auto' -b a=1 \
                -b 'b=2' --compressed --http1.1 -x proxy.test --resolve +h:443:10.0.0.1 \
                -m 2.5 --connect-timeout 1 --tlsv1.3 -o /dev/null -w '%{http_code}' \
                --no-progress-meter";
    let command = parsed(text);
    let settings = &command.settings;
    assert_eq!(command.url, "https://h/");
    assert_eq!(settings.user.as_ref().unwrap().as_str(), "ann:s3cret");
    assert_eq!(header(&command, "user-agent"), ["me"]);
    assert_eq!(header(&command, "referer"), ["http://r/"]);
    assert_eq!(header(&command, "cookie"), ["a=1; b=2"]);
    assert_eq!(header(&command, "accept-encoding"), [ENCODINGS]);
    assert_eq!(settings.http, Some(HttpVersion::Http11));
    assert_eq!(settings.follow, Some(50));
    assert_eq!(settings.proxy, Some("proxy.test:1080".parse().unwrap()));
    assert_eq!(settings.resolve, ["h:443:10.0.0.1"]);
    assert_eq!(settings.timeout, Some(Duration::from_millis(2500)));
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(1)));
    assert_eq!(settings.tls_min, Some(TlsVersion::Tls13));
    assert!(settings.insecure);
    let command = parsed("curl h -L --max-redirs 3 --http2 -b a=1 -H 'Cookie: b=2' -H 'X;'");
    assert_eq!(command.settings.follow, Some(3));
    assert_eq!(command.settings.http, Some(HttpVersion::Http2));
    assert_eq!(header(&command, "cookie"), ["b=2; a=1"]);
    assert_eq!(header(&command, "x"), [""]);
    let command = parsed("curl h --oauth2-bearer t0ken -H 'A: 1'");
    assert_eq!(header(&command, "authorization"), ["Bearer t0ken"]);
    assert_eq!(header(&command, "a"), ["1"]);
}

#[test]
fn proxies_have_the_port_1080_unless_they_have_one() {
    for (text, proxy) in [
        ("p", "p:1080"),
        ("http://u:w@p/", "http://u:w@p:1080"),
        ("http://[::1]", "http://[::1]:1080"),
        ("[::1]:3128", "[::1]:3128"),
        ("p:3128", "p:3128"),
    ] {
        assert_eq!(proxy_with_port(text), proxy);
    }
}

#[test]
fn unusable_commands_are_refused_by_name_with_a_hint() {
    for (text, parts) in [
        ("", &["empty"][..]),
        ("wget h", &["\"wget\"", "begins with curl"]),
        ("curl", &["no URL"]),
        ("curl a b", &["several URLs", "--urls"]),
        ("curl h --frobnicate", &["--frobnicate", "not supported"]),
        (
            "curl h --data-bin x",
            &["--data-bin", "did you mean --data-binary?"],
        ),
        ("curl h -F a", &["-F", "NAME=VALUE"]),
        ("curl h -sSF a=@-", &["-F", "standard input"]),
        ("curl h --form-string a", &["--form-string", "NAME=VALUE"]),
        ("curl h -F a=b -d c", &["-F", "the data"]),
        ("curl h -F a=b -I", &["-F", "-I"]),
        ("curl h --digest", &["--digest", "basic"]),
        ("curl h -y 5", &["-y", "not supported"]),
        ("curl h -H", &["-H", "value is missing"]),
        ("curl h -H nothing", &["-H", "has no colon"]),
        ("curl h -H @file", &["-H", "headers in a file"]),
        ("curl h -b jar.txt", &["-b", "jar.txt", "NAME=VALUE"]),
        ("curl h -u ann", &["-u", "USER:PASSWORD"]),
        ("curl h -I -d x", &["-I", "-G"]),
        ("curl h -d @-", &["-d", "standard input"]),
        ("curl h -d @/nowhere", &["-d", "/nowhere"]),
        (
            "curl h --data-raw $'\\xff'",
            &["UTF-8", "--data-binary @FILE"],
        ),
        ("curl h -H $'a: \\xff'", &["-H", "UTF-8"]),
        ("curl h -m never", &["-m", "seconds"]),
        ("curl h -x socks5://p", &["-x", "HTTP proxy"]),
        ("curl h --http3", &["--http3"]),
        ("curl h --tls-max 1.1", &["--tls-max", "1.1"]),
        ("curl h --retry 3", &["--retry", "remove the option"]),
    ] {
        let error = parse(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
