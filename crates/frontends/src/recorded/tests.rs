use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// One entry of an archive.
fn entry(at: &str, method: &str, url: &str, request: &str, response: &str) -> String {
    format!(
        r#"{{"startedDateTime": "2026-11-29T10:00:{at}Z", "time": 100,
            "request": {{"method": "{method}", "url": "{url}", {request}}},
            "response": {{"status": 200, {response}}}}}"#
    )
}

fn archive(entries: &[String]) -> String {
    format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","))
}

/// A login: a form with a token, its redirect, and an API that needs a token from JSON.
fn session() -> String {
    let host = "https://shop.test";
    let html = |body: &str| format!(r#""content": {{"mimeType": "text/html", "text": "{body}"}}"#);
    let form = r#"<input name=csrf value='abcdefgh1234'>"#;
    archive(&[
        entry(
            "00.000",
            "GET",
            &format!("{host}/login#top"),
            r#""headers": [{"name": ":method", "value": "GET"}, {"name": "User-Agent", "value": "x"},
               {"name": "Accept", "value": "text/html,*/*"}]"#,
            &html(form),
        ),
        entry(
            "00.200",
            "GET",
            &format!("{host}/logo.png"),
            r#""headers": []"#,
            r#""content": {"mimeType": "image/png"}"#,
        ),
        entry(
            "02.400",
            "POST",
            &format!("{host}/login?next=%2F"),
            r#""headers": [{"name": "Content-Type", "value": "application/x-www-form-urlencoded"},
               {"name": "Cookie", "value": "a=b"}],
               "postData": {"text": "user=ann+lee&csrf=abcdefgh1234"}"#,
            r#""content": {}"#,
        )
        .replace(r#""status": 200"#, r#""status": 302"#),
        entry(
            "02.550",
            "GET",
            &format!("{host}/api/token"),
            r#""headers": []"#,
            r#""content": {"mimeType": "application/json", "text": "{\"data\": [{\"key\": \"tok-123456\"}]}"}"#,
        ),
        entry(
            "02.700",
            "PUT",
            &format!("{host}/api/cart"),
            r#""headers": [{"name": "Authorization", "value": "Bearer tok-123456"},
               {"name": "Content-Type", "value": "application/json"}],
               "postData": {"text": "{\"item\": \"{{7}}\"}"}"#,
            &html(""),
        ),
        entry(
            "02.800",
            "GET",
            "https://ads.test/x",
            r#""headers": []"#,
            &html(""),
        ),
    ])
}

#[test]
fn an_archive_becomes_steps_with_captures() {
    let recorded = steps(&session()).unwrap();
    let text = steps_text(&recorded, "journey.toml");
    let expected = r#"# Run it: prony load --steps journey.toml https://shop.test
# It contains what was recorded, including passwords. Replace values that differ between
# users with {{ column }} and add --data users.csv.
# Left out: 1 images, scripts, styles and other parts of pages (page = true requests those that it names)
# Left out: 1 requests to other servers

[[step]]
url = "/login"
page = true
capture.csrf = { field = "csrf" }
think = "2100ms"

[[step]]
url = "/login?next=%2F"
form = { user = "ann lee", csrf = "{{ csrf }}" }
expect_status = "302"

[[step]]
url = "/api/token"
capture.token = { json = "/data/0/key" }

[[step]]
url = "/api/cart"
method = "PUT"
headers = { Authorization = "Bearer {{ token }}", Content-Type = "application/json" }
body = '{"item": "{{ "{{" }}7}}"}'
"#;
    assert_eq!(text, expected);
    // The steps can be used, and mean the same when they are read.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let read = prony_load::read_steps(file.path()).unwrap();
    let comparable = |steps: &[JourneyStep]| -> Vec<JourneyStep> {
        let steps = steps.iter().cloned();
        let placeless = steps.map(|mut step: JourneyStep| {
            step.place.clear();
            step
        });
        placeless.collect()
    };
    assert_eq!(comparable(&read), comparable(&recorded.steps));
    let settings = LoadSettings {
        steps: Some(file.path().to_owned()),
        ..LoadSettings::default()
    };
    settings.resolve(Some("http://127.0.0.1:1")).unwrap();
}

#[test]
fn curl_commands_become_steps() {
    let text = "curl 'http://h:1/login' \\\n  -H 'User-Agent: x' -H 'X-A: b' \\\n  --data-raw 'a=b+c' ;\n\
                curl 'http://h:1/' -H 'Accept: */*' &&\n$ curl http://other/";
    let recorded = steps(text).unwrap();
    let steps: Vec<_> = recorded.steps.iter().map(|it| it.url.as_str()).collect();
    assert_eq!(steps, ["/login", "/", "http://other/"]);
    assert_eq!(recorded.server, "http://h:1");
    let login = &recorded.steps[0];
    assert_eq!(login.form.0, [("a".to_owned(), "b c".to_owned())]);
    assert_eq!(login.headers.0, [("X-A".to_owned(), "b".to_owned())]);
}

#[test]
fn errors_name_the_cause() {
    for (text, cause) in [
        ("", "there is no request that could be a step"),
        ("{}", "not an HTTP archive (HAR): missing field `log`"),
        (
            r#"{"log": {"entries": []}}"#,
            "there is no request that could be a step",
        ),
        ("wget http://a/", "the command begins with \"wget\""),
    ] {
        let error = steps(text).unwrap_err().to_string();
        assert!(error.starts_with(cause), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_an_error_or_becomes_a_readable_file(
        url in "http://a/\\PC{0,12}", value in any::<String>(), body in any::<String>()
    ) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut request = String::new();
        let _ = write!(request, r#""headers": [{{"name": "X-B", "value": {}}}],"#, quoted(&value));
        let _ = write!(request, r#""postData": {{"text": {}}}"#, quoted(&body));
        let response = format!(r#""content": {{"text": {}}}"#, quoted(&value));
        let entries = [
            entry("00.000", "POST", "http://a/", &request, &response),
            entry("01.000", "POST", "http://a/", &request, &response)
                .replace("\"http://a/\"", &quoted(&url)),
        ];
        if let Ok(recorded) = steps(&archive(&entries)) {
            let text = steps_text(&recorded, "f");
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &text).unwrap();
            let read = prony_load::read_steps(file.path());
            prop_assert!(read.is_ok(), "{text}\n{}", read.unwrap_err());
        }
        let _ = steps(&body);
    }
}
