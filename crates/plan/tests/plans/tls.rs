//! Tests of plans that vary the HTTP version over TLS with a generated certificate.

use std::path::Path;

use prony_load::HttpVersion;

use super::{Study, allocate};
use prony_plan::{Plan, ResolvedVariant, Scheme};

/// A plan with two HTTP versions and two settings of one server.
const VERSIONS: &str = r#"
baseline = { build = "installed", http = "1.1", aio = "off" }

[factors]
http = [
    { name = "1.1", version = "1.1", connections = 384 },
    { name = "2", version = "2", connections = 64, streams = 6 },
]
aio = ["off", "threads"]
build = [
    { name = "installed", program = "web-server" },
]

[service.web]
listen  = { https = "tcp" }
command = ["{{ build.program }}", "-c", "{{ web.files['web.conf'] }}"]
[service.web.files]
"web.conf"   = { text = "aio {{ aio }};\ncertificate {{ web.files['server.crt'] }};\n" }
"server.crt" = { certificate = ["localhost", "127.0.0.1"] }
"server.key" = { key_of = "server.crt" }

[load]
target      = "web"
insecure    = true
http        = "{{ http.version }}"
connections = "{{ http.connections }}"
streams     = "{{ http.streams }}"
"#;

fn resolved(plan: &Plan, variant: usize) -> ResolvedVariant {
    let allocated = allocate(&plan.allocations(variant).unwrap());
    plan.resolve(variant, &allocated).unwrap()
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.variants.iter().map(|v| v.id.as_str()).collect()
}

#[test]
fn the_http_version_is_a_factor_of_the_load_alone() {
    let study = Study::new();
    let plan = study.read(VERSIONS).unwrap();
    assert_eq!(ids(&plan), ["1.1-off", "1.1-threads", "2-off", "2-threads"]);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    let (one, two) = (resolved(&plan, 0), resolved(&plan, 2));
    assert_eq!(one.services, two.services, "no service knows of it");
    let load = |resolved: &ResolvedVariant| {
        let flags = &resolved.load.settings;
        (flags.http, flags.connections, flags.streams)
    };
    assert_eq!(load(&one), (Some(HttpVersion::Http11), Some(384), None));
    assert_eq!(load(&two), (Some(HttpVersion::Http2), Some(64), Some(6)));
    assert_eq!(two.load.scheme, Scheme::Https);
    // The plan's copy in the experiment's folder contains the same settings.
    let out = tempfile::tempdir().unwrap();
    plan.freeze(out.path()).unwrap();
    let copy = out.path().join("plan.toml");
    let text = std::fs::read_to_string(&copy).unwrap();
    let again = Plan::from_str(&text, &copy, study.machine()).unwrap();
    assert_eq!(resolved(&again, 2).load.settings, two.load.settings);
}

#[test]
fn numbers_are_versions_too() {
    let study = Study::new();
    let plain = VERSIONS
        .replace(
            "{ name = \"1.1\", version = \"1.1\", connections = 384 }",
            "1.1",
        )
        .replace(
            "{ name = \"2\", version = \"2\", connections = 64, streams = 6 }",
            "2",
        )
        .replace("{{ http.version }}", "{{ http }}")
        .replace("\"{{ http.connections }}\"", "10")
        .replace("streams     = \"{{ http.streams }}\"\n", "");
    let plan = study.read(&plain).unwrap();
    assert_eq!(ids(&plan)[2], "2-off");
    assert_eq!(
        resolved(&plan, 0).load.settings.http,
        Some(HttpVersion::Http11)
    );
    assert_eq!(
        resolved(&plan, 2).load.settings.http,
        Some(HttpVersion::Http2)
    );
}

#[test]
fn mistakes_in_a_version_name_the_line_that_holds_it() {
    let study = Study::new();
    let wrong = |from: &str, to: &str| {
        let text = VERSIONS.replace(from, to);
        assert_ne!(text, VERSIONS, "{from}");
        study.diagnostics(&text).join("\n")
    };
    let said = wrong("version = \"2\"", "version = \"2.0\"");
    assert!(
        said.starts_with("plan.toml:7: http of [load]: \"2.0\" is not one of 1.0, 1.1, 2"),
        "{said}"
    );
    let said = wrong("connections = 384", "connections = 384, streams = 6");
    assert!(
        said.starts_with(
            "plan.toml:6: [load]: streams = 6 needs HTTP/2, which http = 1.1 excludes"
        ),
        "{said}"
    );
    let said = wrong("streams = 6", "streams = 0");
    assert!(
        said.starts_with("plan.toml:7: streams of [load]: \"0\" is not a count"),
        "{said}"
    );
    let said = wrong("{{ http.streams }}", "{{ http.stream }}");
    assert!(
        said.starts_with("plan.toml:27: ") && said.contains("did you mean \"streams\"?"),
        "{said}"
    );
}

#[test]
fn a_certificate_is_the_same_in_every_variant_and_its_key_is_a_secret() {
    let study = Study::new();
    let plan = study.read(VERSIONS).unwrap();
    let web = |variant: usize| resolved(&plan, variant).services.remove(0).spec;
    let (one, two) = (web(0), web(3));
    let certificate = String::from_utf8(one.files["server.crt"].clone()).unwrap();
    assert!(
        certificate.starts_with("-----BEGIN CERTIFICATE-----"),
        "{certificate}"
    );
    assert_eq!(one.files["server.crt"], two.files["server.crt"]);
    assert_eq!(
        one.files["web.conf"],
        b"aio off;\ncertificate /run/web/server.crt;\n"
    );
    assert_eq!(one.secrets, two.secrets);
    assert_eq!(one.secrets.keys().collect::<Vec<_>>(), ["server.key"]);
    assert!(!one.files.contains_key("server.key"), "what results keep");
    let other = study.read(VERSIONS).unwrap();
    assert_ne!(resolved(&other, 0).services[0].spec.secrets, one.secrets);
}

#[test]
fn problems_of_certificates() {
    let study = Study::new();
    let wrong = |from: &str, to: &str| study.diagnostics(&VERSIONS.replace(from, to));
    assert_eq!(
        wrong("key_of = \"server.crt\"", "key_of = \"server.cert\""),
        [
            "plan.toml:20: file \"server.key\" of service \"web\": \"server.cert\" is not a certificate of this service (did you mean \"server.crt\"?)"
        ]
    );
    assert_eq!(
        wrong(
            "\"server.crt\" = { certificate = [\"localhost\", \"127.0.0.1\"] }\n",
            ""
        )[1],
        "plan.toml:19: file \"server.key\" of service \"web\": \"server.crt\" is not a certificate of this service (add \"server.crt\" = { certificate = \"localhost\" })"
    );
    assert_eq!(
        wrong("[\"localhost\", \"127.0.0.1\"]", "[\"local host\"]"),
        [
            "plan.toml:19: file \"server.crt\" of service \"web\": the certificate has the name \"local host\", which is not a host name or address (write { certificate = \"localhost\" }, or an array of names)"
        ]
    );
}

#[test]
fn a_single_table_level_in_the_baseline_is_a_constant() {
    let study = Study::new();
    let plan = study.read(VERSIONS).unwrap();
    assert_eq!(plan.factors.len(), 2);
    assert_eq!((plan.baseline.len(), plan.baseline.get("build")), (2, None));
    assert_eq!(resolved(&plan, 0).services[0].spec.command[0], "web-server");
    // With a second level, the constant becomes a factor.
    let build = "    { name = \"installed\", program = \"web-server\" },\n";
    let second = build.to_owned() + "    { name = \"own\", program = \"./bin/app-server\" },\n";
    let plan = study.read(&VERSIONS.replace(build, &second)).unwrap();
    assert_eq!((plan.factors.len(), plan.variants.len()), (3, 8));
    assert_eq!(plan.baseline.get("build"), Some("installed"));
    let own = resolved(&plan, 1);
    assert!(own.services[0].spec.command[0].ends_with("/bin/app-server"));
    assert_eq!(plan.baseline_of(7), 0);
    // A single level without a name, or with only a name, is reported as a mistake.
    let one_level = |from: &str, to: &str| {
        let said = study.diagnostics(&VERSIONS.replace(from, to)).join("\n");
        assert!(said.contains("factor \"build\" has one level"), "{said}");
    };
    one_level("build = \"installed\", ", "");
    one_level(
        "{ name = \"installed\", program = \"web-server\" }",
        "\"installed\"",
    );
}

#[test]
fn the_nginx_study_varies_the_factors_in_its_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/nginx-http2/plan.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let machine = Study::new().machine();
    let plan = Plan::from_str(&text, &file, machine.clone()).unwrap_or_else(|e| panic!("{e}"));
    let factors: Vec<_> = plan
        .factors
        .iter()
        .map(|f| (f.name.as_str(), f.levels.len()))
        .collect();
    assert_eq!(factors, [("page", 3), ("http", 2), ("aio", 2)]);
    // Uncomment another build, as the README of the study describes.
    let more = text.replace("    # { name = \"1.27.4\"", "    { name = \"1.27.4\"");
    assert_ne!(more, text);
    let more = Plan::from_str(&more, &file, machine.clone()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((more.factors.len(), more.variants.len()), (4, 24));
    let last = resolved(&more, 23).services;
    let web = last.iter().find(|s| s.spec.name == "web").unwrap();
    assert_eq!(web.spec.command[0], "/opt/nginx-1.27.4/sbin/nginx");
    assert_eq!(plan.variants.len(), 12);
    for variant in 0..12 {
        let resolved = resolved(&plan, variant);
        let flags = &resolved.load.settings;
        let at_once = flags.connections() * flags.streams();
        assert_eq!(at_once, 384, "as many requests at once in either version");
        let baseline = &plan.variants[plan.baseline_of(variant)].levels;
        let own = &plan.variants[variant].levels;
        assert_eq!(
            baseline.get("page"),
            own.get("page"),
            "compared within each page"
        );
        assert_eq!(
            (baseline.get("http"), baseline.get("aio")),
            (Some("HTTP/1.1"), Some("aio off"))
        );
        let web = resolved
            .services
            .iter()
            .find(|s| s.spec.name == "web")
            .unwrap();
        let configuration = String::from_utf8(web.spec.files["nginx.conf"].clone()).unwrap();
        let words: Vec<_> = configuration.split_whitespace().collect();
        let aio = format!(
            "aio {};",
            own.get("aio").unwrap().trim_start_matches("aio ")
        );
        assert!(words.join(" ").contains(&aio), "{configuration}");
        for (name, size) in [("www/1k.txt", 1 << 10), ("www/100k.txt", 100 << 10)] {
            assert_eq!(web.spec.files[name].len(), size, "{name}");
        }
        assert!(web.spec.secrets.contains_key("server.key"));
    }
}
