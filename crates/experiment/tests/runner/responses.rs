//! Tests of statuses and bodies that differ between variants.

use prony_experiment::runner::{CommonFailure, TrialError};
use prony_record::finding::Errors;

use super::*;

#[test]
fn different_bodies_withhold_the_verdict_before_the_first_block() {
    let mut lab = Lab::new();
    let mut trials = 0;
    let plan = plan(&nginx_plan("Good bye", ""));
    let finished = lab.run(&plan, false, &mut |_, event| {
        trials += usize::from(matches!(event, ExperimentEvent::TrialBegan { .. }));
    });
    let document = finished.document;
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
    let failed = finished.failed.expect("the experiment must fail");
    let TrialError::NothingSucceeded(Some(CommonFailure::Requests(finding))) = &*failed.error
    else {
        panic!("{failed}");
    };
    let errors: Errors = finding.figures().unwrap();
    assert!(
        errors.outcomes.contains_key("unexpected_size"),
        "{errors:?}"
    );
    assert_eq!(finished.document.blocks, 1);
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
    assert_eq!((trials, finished.document.blocks), (0, 0));
    assert_eq!(finished.document.ended_early, Some(failure));
}

#[test]
fn cleartext_requests_to_a_tls_port_are_explained() {
    let mut lab = Lab::new();
    let text = gzip_plan("").replace("scheme = \"https\"\ninsecure = true\n", "");
    let failure = lab.run(&plan(&text), false, &mut quiet).failed.unwrap();
    let failure = failure.to_string();
    assert!(failure.contains("returns status 400"), "{failure}");
    assert!(
        failure.contains("this port expects TLS: use https://"),
        "{failure}"
    );
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
    let document = finished.document;
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
    let document = finished.document;
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
    let document = finished.document;
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
    let document = finished.document;
    let sentence = &document.comparisons[0].text;
    assert!(!sentence.contains("bytes-differ"), "{sentence}");
    let mut findings = document.findings.iter();
    let note = findings
        .find(|finding| finding.id == FindingId::BodiesMayDiffer)
        .unwrap();
    assert!(note.text.contains("8 bytes"), "{}", note.text);
}

/// Returns a plan with the variants `plain`, `same` and `other`. In `other`, nginx's server has
/// `directives`.
fn plan_of_three(directives: &str, load: &str) -> String {
    let page = "location / { return 200 '{{ kind.text }}'; }";
    let text = nginx_plan("Hello", "")
        .replace(
            "\"other\", text",
            "\"same\", text = \"Hello\", extra = \"\" }, { name = \"other\", text",
        )
        .replace(
            page,
            &format!("{{% if kind.name == 'other' %}}{directives}{{% else %}}{page}{{% endif %}}"),
        )
        // One block is enough to see which variants run.
        .replace("blocks = 3", "blocks = 1");
    text + load
}

#[test]
fn variants_that_the_check_rules_out_are_left_out_of_all_blocks() {
    for (directives, id) in [
        ("location / { return 200 'Hella'; }", FindingId::BytesDiffer),
        ("location / { return 200 ''; }", FindingId::BytesDiffer),
        ("location / { return 404; }", FindingId::UnexpectedStatus),
    ] {
        let mut lab = Lab::new();
        let mut ran = Vec::new();
        let mut ruled_out = Vec::new();
        let plan = plan(&plan_of_three(directives, ""));
        let finished = lab.run(&plan, false, &mut |_, event| match event {
            ExperimentEvent::TrialBegan { id, .. } => ran.push((*id).to_owned()),
            ExperimentEvent::InterleavedBlockBegan { .. } => ran.push("block".to_owned()),
            ExperimentEvent::TrialEnded { id, .. } => ran.push((*id).to_owned()),
            ExperimentEvent::RuledOut { variants, .. } => ruled_out.extend_from_slice(variants),
            _ => {}
        });
        assert!(finished.failed.is_none(), "{:?}", finished.failed);
        assert_eq!(ruled_out, [2]);
        assert!(ran.contains(&"same".to_owned()), "{ran:?}");
        assert!(!ran.contains(&"other".to_owned()), "{ran:?}");
        let document = finished.document;
        assert_eq!(document.blocks, 1);
        assert_eq!(document.order[0].len(), 2);
        let mut errors = document.findings.iter();
        let errors = errors.find(|it| it.id == id && it.severity == Severity::Error);
        assert!(errors.is_some(), "{:?}", document.findings);
        for one in &document.comparisons {
            let is_withheld = one.verdict == Verdict::Withheld;
            assert_eq!(is_withheld, one.name == "other", "{}", one.text);
        }
        // The findings stay when the experiment is resumed.
        let resumed = lab.run(&plan, true, &mut quiet).document;
        assert_eq!(resumed.findings, document.findings);
        assert_eq!(resumed.blocks, 1);
    }
}

#[test]
fn other_protocols_are_found_before_the_first_block() {
    let tls = |kind: &str, text: String| {
        text.replace(
            "listen {{ web.address }};",
            &format!(
                "listen {{{{ web.address }}}} ssl; {{% if kind.name == 'other' %}}{kind}{{% endif %}} \
                 ssl_certificate {{{{ web.files['server.crt'] }}}}; \
                 ssl_certificate_key {{{{ web.files['server.key'] }}}};"
            ),
        )
        .replace(
            "[service.web.files]",
            "[service.web.files]\n\"server.crt\" = { certificate = [\"localhost\", \"127.0.0.1\"] }\n\
             \"server.key\" = { key_of = \"server.crt\" }",
        )
    };
    let same = "location / { return 200 'Hello'; }";
    for (directives, seen) in [
        // The default of older versions of nginx ends at TLS 1.2, and that of newer ones begins there.
        (
            "ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305; ssl_protocols TLSv1.2;",
            "CHACHA20",
        ),
        ("http2 on;", "HTTP/2"),
    ] {
        let load = "scheme = \"https\"\ninsecure = true\n";
        // Older versions of nginx have no directive for HTTP/2.
        let directives = match directives {
            "http2 on;" => "listen 127.0.0.1:{{ web.port }} ssl http2;",
            other => other,
        };
        let text = tls(directives, plan_of_three(same, load));
        let text = text.replace(
            "listen {{ web.address }} ssl; {% if kind.name == 'other' %}listen",
            "{% if kind.name != 'other' %}listen {{ web.address }} ssl;{% else %}listen",
        );
        let mut lab = Lab::new();
        let mut ruled_out = Vec::new();
        let finished = lab.run(&plan(&text), false, &mut |_, event| {
            if let ExperimentEvent::RuledOut { variants, findings } = event {
                assert_eq!(findings[0].id, FindingId::NegotiationDiffers);
                assert!(findings[0].text.contains(seen), "{}", findings[0].text);
                ruled_out.extend_from_slice(variants);
            }
        });
        assert_eq!(ruled_out, [2], "{seen}");
        assert!(finished.document.is_withheld());
        // The user can allow the difference.
        let mut lab = Lab::new();
        let text = format!("{text}bodies = \"may-differ\"\n");
        let document = lab.run(&plan(&text), false, &mut quiet).document;
        let mut findings = document.findings.iter();
        let found = findings.find(|it| it.id == FindingId::NegotiationDiffers);
        assert_eq!(found.map(|it| it.severity), Some(Severity::Warning));
    }
}
