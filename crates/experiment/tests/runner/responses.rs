//! Tests of statuses and bodies that differ between variants.

use super::*;

#[test]
fn different_bodies_withhold_the_verdict_before_the_first_block() {
    let mut lab = Lab::new();
    let mut trials = 0;
    let plan = plan(&nginx_plan("Good bye", ""));
    let finished = lab.run(&plan, false, &mut |_, event| {
        trials += usize::from(matches!(event, ExperimentEvent::TrialBegan { .. }));
    });
    let document = finished.document.unwrap();
    assert_eq!((trials, document.blocks), (0, 0));
    assert!(document.is_withheld() && finished.failed.is_none());
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let found = document
        .findings
        .iter()
        .find(|finding| finding.id == FindingId::BytesDiffer)
        .unwrap();
    assert!(found.text.contains("8 bytes against 5"), "{}", found.text);
}

#[test]
fn without_any_success_the_experiment_ends_after_one_block() {
    let mut lab = Lab::new();
    let text = format!(
        "{}expect_size = 6\n",
        nginx_plan("Hello", "").replace("Hello", "Hi")
    );
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let failure = finished
        .failed
        .expect("the experiment must fail")
        .to_string();
    assert!(
        failure.contains("no request of any variant succeeded"),
        "{failure}"
    );
    assert!(failure.contains("unexpected_size"), "{failure}");
    assert_eq!(finished.document.unwrap().blocks, 1);
}

#[test]
fn a_status_that_fails_everywhere_is_found_before_the_first_block() {
    let mut lab = Lab::new();
    let text = nginx_plan("Hello", "").replace("return 200", "return 404");
    let mut trials = 0;
    let finished = lab.run(&plan(&text), false, &mut |_, event| {
        trials += usize::from(matches!(event, ExperimentEvent::TrialBegan { .. }));
    });
    let failure = finished.failed.unwrap().to_string();
    assert!(
        failure.contains("GET http://127.0.0.1:")
            && failure.contains("/ returns status 404; the load expects 200-399"),
        "{failure}"
    );
    assert_eq!((trials, finished.document), (0, None));
}

#[test]
fn a_status_that_fails_in_one_variant_withholds_its_verdict() {
    let mut lab = Lab::new();
    let extra = "map $host $missing { default 1; }";
    let text = nginx_plan("Hello", extra).replace(
        "location / {",
        "location / { {% if kind.extra %}return 404;{% endif %}",
    );
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let errors = document.findings.iter();
    let errors: Vec<&Finding> = errors
        .filter(|finding| finding.severity == Severity::Error && finding.id != FindingId::Errors)
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].id, FindingId::UnexpectedStatus);
    assert!(
        errors[0].text.contains("/ returns status 404"),
        "{}",
        errors[0].text
    );
}

/// Returns a plan for nginx over TLS that compresses its page in one variant.
fn gzip_plan(bodies: &str) -> String {
    let page = "<p>The same words again and again, as pages have them.</p>\n".repeat(30);
    nginx_plan(&page.replace('\n', " "), "gzip on; gzip_min_length 1;")
        .replace(
            "text = \"Hello\"",
            &format!("text = \"{}\"", page.replace('\n', " ")),
        )
        .replace(
            "listen {{ web.address }};",
            "listen {{ web.address }} ssl; default_type text/html; \
             ssl_certificate {{ web.files['server.crt'] }}; \
             ssl_certificate_key {{ web.files['server.key'] }};",
        )
        .replace(
            "[service.web.files]",
            "[service.web.files]\n\"server.crt\" = { certificate = [\"localhost\", \"127.0.0.1\"] }\n\
             \"server.key\" = { key_of = \"server.crt\" }",
        )
        + &format!(
            "scheme = \"https\"\ninsecure = true\nheader = [\"Accept-Encoding: gzip\"]\n{bodies}\n"
        )
}

#[test]
fn gzip_on_and_off_over_tls_get_a_verdict_because_the_decoded_bodies_are_the_same() {
    let mut lab = Lab::new();
    let finished = lab.run(&plan(&gzip_plan("")), false, &mut quiet);
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let document = finished.document.unwrap();
    // A busy machine may cause the verdict to be withheld, but the bodies must not.
    let sentence = &document.comparisons[0].text;
    assert!(!sentence.contains("bytes-differ"), "{sentence}");
    let of_bodies = document.findings.iter();
    let of_bodies: Vec<&Finding> = of_bodies
        .filter(|finding| {
            finding.id.as_str().starts_with("bodies") || finding.id.as_str().starts_with("bytes")
        })
        .collect();
    assert_eq!(of_bodies.len(), 1, "{of_bodies:?}");
    assert_eq!(of_bodies[0].id, FindingId::BodiesDecoded);
    let text = &of_bodies[0].text;
    assert!(text.contains("of text/html, gzip against"), "{text}");
}

#[test]
fn bodies_same_compares_compressed_bytes() {
    let mut lab = Lab::new();
    let plan = plan(&gzip_plan("bodies = \"same\""));
    let finished = lab.run(&plan, false, &mut quiet);
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let sentence = &document.comparisons[0].text;
    assert!(sentence.contains("bytes-differ"), "{sentence}");
    let mut findings = document.findings.iter();
    assert!(findings.any(|finding| finding.id == FindingId::BytesDiffer));
}

#[test]
fn bodies_that_may_differ_are_a_note() {
    let mut lab = Lab::new();
    let text = format!("{}bodies = \"may-differ\"\n", nginx_plan("Good bye", ""));
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let document = finished.document.unwrap();
    let sentence = &document.comparisons[0].text;
    assert!(!sentence.contains("bytes-differ"), "{sentence}");
    let mut findings = document.findings.iter();
    let note = findings
        .find(|finding| finding.id == FindingId::BodiesMayDiffer)
        .unwrap();
    assert!(note.text.contains("8 bytes"), "{}", note.text);
}
