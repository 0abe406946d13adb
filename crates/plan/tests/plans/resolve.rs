//! Tests of the services and loads of valid plans.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use prony_load::{CoreList, LoadSettings, ProxyVersion, SourceOrder};
use prony_stats::Metric;

use super::study_machine::StudyMachine;
use super::{GOOD, Study, allocate};
use prony_plan::service::{
    ContainerRuntime, ContainerSpec, Endpoint, ListenKind, PlaceKind, ResourceLimits,
};
use prony_plan::{DiagnosticKind, LoadModel, Plan, ResolvedVariant, STARTER, Scheme};

pub(super) fn resolved(plan: &Plan, id: &str) -> ResolvedVariant {
    let index = plan
        .variants
        .iter()
        .position(|variant| variant.id == id)
        .unwrap();
    plan.resolve(index, &allocate(&plan.allocations(index).unwrap()))
        .unwrap()
}

fn service<'r>(resolved: &'r ResolvedVariant, name: &str) -> &'r prony_plan::ResolvedService {
    resolved
        .services
        .iter()
        .find(|service| service.spec.name == name)
        .unwrap()
}

/// Returns a plan with one service and the given factors, fields and load.
pub(super) fn small(factors: &str, service: &str, load: &str) -> String {
    let command = if service.contains("command =") {
        ""
    } else {
        "command = [\"web-server\"]"
    };
    format!(
        "[factors]\n{factors}\n[service.web]\n{command}\n{service}\n\
         [load]\ntarget = \"web\"\n{load}\n"
    )
}

#[test]
fn the_services_of_the_example_plan() {
    let study = Study::new();
    let plan = study.read(GOOD).unwrap();
    assert_eq!((plan.name.as_str(), plan.margin), ("sockets", 0.02));
    assert_eq!(plan.question, "What does a socket cost?");
    assert_eq!((plan.trials.blocks_min, plan.trials.blocks_max), (5, 15));
    assert_eq!(plan.trials.warmup, Duration::from_secs(3));
    assert_eq!(plan.trials.duration, Duration::from_secs(30));
    assert_eq!((plan.trials.budget, plan.trials.seed), (None, None));
    assert_eq!(plan.metrics, [Metric::RatePerS]);
    let ids: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| variant.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "native-tcp",
            "native-unix",
            "namespace-tcp",
            "namespace-unix"
        ]
    );
    assert_eq!(
        (0..4).map(|v| plan.baseline_of(v)).collect::<Vec<_>>(),
        [1, 1, 1, 1]
    );
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);

    let wanted = plan.allocations(3).unwrap();
    assert_eq!(wanted.len(), 2);
    assert_eq!(
        (wanted[0].service.as_str(), wanted[0].place),
        ("app", PlaceKind::Namespace)
    );
    assert_eq!(
        wanted[0].listen,
        BTreeMap::from([(String::new(), ListenKind::Unix)])
    );
    assert_eq!(
        (wanted[1].service.as_str(), wanted[1].place),
        ("web", PlaceKind::Native)
    );

    let tcp = resolved(&plan, "native-tcp");
    let app = &service(&tcp, "app").spec;
    assert_eq!(
        app.command,
        ["app-server", "--workers", "2", "--bind", "10.0.0.1:8001"]
    );
    assert_eq!(
        (app.cores.as_slice(), app.cwd.as_path()),
        (&[0][..], study.folder.path())
    );
    let web = service(&tcp, "web");
    assert_eq!(web.spec.command, ["web-server", "-c", "/run/web/web.conf"]);
    assert_eq!(
        web.spec.files["web.conf"],
        b"upstream {\n    server 10.0.0.1:8001;\n}\n"
    );
    assert_eq!(
        (web.ready.get.as_deref(), web.ready.within),
        (Some("/"), Duration::from_secs(10))
    );
    assert_eq!(
        (web.ready.accepts(200), web.ready.accepts(204)),
        (true, false)
    );

    let unix = resolved(&plan, "namespace-unix");
    assert_eq!(service(&unix, "app").spec.command[4], "unix:/run/app/.sock");
    let web = service(&unix, "web");
    assert_eq!(
        web.spec.files["web.conf"],
        b"upstream {\n    server unix:/run/app/.sock;\n}\n"
    );
}

#[test]
fn the_load_of_the_example_plan() {
    let study = Study::new();
    let load = resolved(&study.read(GOOD).unwrap(), "native-unix").load;
    assert_eq!((load.service.as_str(), load.listener.as_str()), ("web", ""));
    assert_eq!(
        load.target_endpoint,
        Endpoint::Tcp(([10, 0, 0, 1], 8001).into())
    );
    assert_eq!((load.scheme, load.model), (Scheme::Http, LoadModel::Closed));
    assert_eq!(load.url, "http://10.0.0.1:8001/");
    let settings = LoadSettings {
        connections: Some(10),
        cores: Some(CoreList(vec![1])),
        duration: Some(Duration::from_secs(30)),
        urls: Some(study.path("urls.txt")),
        warmup: Some(Duration::from_secs(3)),
        ..LoadSettings::default()
    };
    assert_eq!(load.settings, settings);
}

#[test]
fn a_whole_expression_keeps_its_type_and_a_missing_key_takes_the_default() {
    let study = Study::new();
    let text = small(
        "tls = [\n{ name = \"system\", lib = \"\" },\n{ name = \"portable\", conns = 7, \
         env = { CAP = \"~0\", N = 4 }, flags = [\"-x\", \"{{ web.port }}\"], quiet = true },\n]",
        "env = \"{{ tls.env }}\"\nlibrary_path = \"{{ tls.lib }}\"\n\
         command = [\"web-server\", \"{{ tls.flags }}\", \"--name={{ tls.name }}\"]",
        "connections = \"{{ tls.conns }}\"\nno_keepalive = \"{{ tls.quiet }}\"",
    );
    let plan = study.read(&text).unwrap();
    let system = resolved(&plan, "system");
    assert!(system.services[0].spec.env.is_empty());
    assert_eq!(system.services[0].spec.library_path, None);
    assert_eq!(
        system.services[0].spec.command,
        ["web-server", "--name=system"]
    );
    assert_eq!(
        (
            system.load.settings.connections,
            system.load.settings.no_keepalive
        ),
        (None, false)
    );
    let portable = resolved(&plan, "portable");
    let env: Vec<_> = portable.services[0].spec.env.iter().collect();
    assert_eq!(
        env,
        [
            (&"CAP".to_owned(), &"~0".to_owned()),
            (&"N".to_owned(), &"4".to_owned())
        ]
    );
    assert_eq!(
        portable.services[0].spec.command,
        ["web-server", "-x", "8001", "--name=portable"]
    );
    assert_eq!(
        (
            portable.load.settings.connections,
            portable.load.settings.no_keepalive
        ),
        (Some(7), true)
    );
}

#[test]
fn templates_may_test_for_undefined_values() {
    let study = Study::new();
    let text = small(
        "tls = [\"none\", { name = \"on\", cert = \"c.pem\" }]",
        "[service.web.files]\n\"a.conf\" = { text = \"{% if tls.cert %}cert {{ tls.cert }}\
         {% else %}plain{% endif %} {{ web.path | default('tcp') }}\\n\" }",
        "",
    );
    let plan = study.read(&text).unwrap();
    let file = |id| resolved(&plan, id).services[0].spec.files["a.conf"].clone();
    assert_eq!(file("none"), b"plain tcp\n");
    assert_eq!(file("on"), b"cert c.pem tcp\n");
}

#[test]
fn sources_are_a_list_and_are_checked_with_the_plan() {
    let study = Study::new();
    let with = |source: &str| {
        small(
            "a = [1, 2]",
            "",
            &format!("header = [\"A: {{{{ a }}}}\"]\n{source}"),
        )
    };
    let plan = study
        .read(&with("source = [\"127.0.0.2\", \"127.0.0.8/30\"]"))
        .unwrap();
    let load = resolved(&plan, "1").load;
    assert_eq!(load.settings.source.len(), 2);
    assert_eq!(load.settings.source[1].to_string(), "127.0.0.8/30");
    let with_proxy = "source_order = \"per-user\"\nproxy_protocol = \"v2\"\n\
                proxy_source = [\"10.0.0.0/8\", \"fd00::1\"]";
    let load = resolved(&study.read(&with(with_proxy)).unwrap(), "1").load;
    assert_eq!(load.settings.proxy_source.len(), 2);
    assert_eq!(load.settings.source_order, Some(SourceOrder::PerUser));
    assert_eq!(load.settings.proxy_protocol, Some(ProxyVersion::V2));
    let error = study
        .read(&with("proxy_source = \"10.0.0.1\""))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("proxy_source needs proxy_protocol"),
        "{error}"
    );
    for (source, reason) in [("127.0.0.9/30", "within a network"), ("::1", "family")] {
        let error = study
            .read(&with(&format!("source = \"{source}\"")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(reason) && error.contains("source"),
            "{error}"
        );
    }
}

#[test]
fn several_listeners_and_a_unix_target() {
    let study = Study::new();
    let text = small(
        "a = [1, 2]",
        "listen = { http = \"tcp\", https = \"tcp\", admin = \"unix\" }\n\
         command = [\"web-server\", \"{{ web.http.port }}\", \"{{ web.https.address }}\", \
         \"{{ web.admin.path }}\", \"{{ a }}\", \"{{ web.dir }}\"]",
        "",
    );
    let plan = study
        .read(&text.replace("target = \"web\"", "target = \"web.https\""))
        .unwrap();
    let tls = resolved(&plan, "1");
    assert_eq!(
        tls.services[0].spec.command[1..],
        [
            "8001",
            "10.0.0.1:8002",
            "/run/web/admin.sock",
            "1",
            "/run/web"
        ]
    );
    assert_eq!(tls.load.url, "https://10.0.0.1:8002/");
    let plan = study
        .read(&text.replace("target = \"web\"", "target = \"web.admin\""))
        .unwrap();
    let unix = resolved(&plan, "2");
    assert_eq!(unix.load.url, "http://localhost/");
    assert_eq!(
        unix.load.settings.unix.as_deref(),
        Some(Path::new("/run/web/admin.sock"))
    );
}

#[test]
fn a_tls_target_is_probed_over_tls() {
    let study = Study::new();
    let text = small(
        "a = [1, 2]",
        "env = { A = \"{{ a }}\" }\nready = { get = \"/\" }",
        "scheme = \"https\"\ninsecure = true",
    );
    let ready = |text: &str| {
        resolved(&study.read(text).unwrap(), "1").services[0]
            .ready
            .clone()
    };
    assert!(ready(&text).https);
    assert!(!ready(&text.replace("get = \"/\"", "get = \"/\", scheme = \"http\"")).https);
    assert!(!ready(&text.replace("https", "http")).https);
}

#[test]
fn remote_services_are_not_started() {
    let study = Study::new();
    let text = "[factors]\nport = [8080, 8081]\n[service.far]\nremote = \"127.0.0.1:{{ port }}\"\n\
                [load]\ntarget = \"far\"\nrate = 100\nheader = { Host = \"{{ far.address }}\" }\n";
    let plan = study.read(text).unwrap();
    assert!(plan.allocations(0).unwrap().is_empty());
    assert_eq!(plan.metrics, [Metric::P99Us]);
    let far = resolved(&plan, "8081");
    assert_eq!(far.services[0].remote.as_deref(), Some("127.0.0.1:8081"));
    assert!(far.services[0].spec.command.is_empty());
    assert_eq!(
        (far.load.url.as_str(), far.load.model),
        ("http://127.0.0.1:8081/", LoadModel::Open)
    );
    assert_eq!(far.load.settings.header, ["Host: 127.0.0.1:8081"]);
}

#[test]
fn a_service_in_a_container_has_the_arguments_of_its_image() {
    let study = Study::new();
    let text = small(
        "tag = [\"1\", \"2\"]",
        "image = \"web:{{ tag }}\"\ncommand = [\"not-a-program-here\"]\ncwd = \"/site\"\n\
         runtime = \"docker\"\nvolumes = [\"bin:/opt/bin:ro\"]",
        "",
    );
    let spec = resolved(&study.read(&text).unwrap(), "2").services[0]
        .spec
        .clone();
    assert_eq!(spec.command, ["not-a-program-here"]);
    let expected = ContainerSpec {
        image: "web:2".to_owned(),
        runtime: Some(ContainerRuntime::Docker),
        volumes: vec![format!("{}:/opt/bin:ro", study.path("bin").display())],
        workdir: Some("/site".to_owned()),
    };
    assert_eq!(spec.container, Some(expected));
    let archive = text.replace("web:{{ tag }}", "./web.tar");
    let container = resolved(&study.read(&archive).unwrap(), "1").services[0]
        .spec
        .container
        .clone();
    let path = study.path("web.tar").display().to_string();
    assert_eq!(container.unwrap().image, path);
    let absent = text.replace("web:{{ tag }}", "absent");
    let errors = study.diagnostics(&absent);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].ends_with("image \"absent\": no such image"),
        "{errors:?}"
    );
    let errors = study.diagnostics(&text.replace("bin:/opt", "bin/opt"));
    assert!(errors[0].contains("is not a volume"), "{errors:?}");
    let inside = text.replace(
        "cwd =",
        "place = \"namespace\"\nwrapper = [\"nice\"]\ncwd =",
    );
    let errors = study.diagnostics(&inside);
    assert!(
        errors[0].contains("its place is \"namespace\""),
        "{errors:?}"
    );
    assert!(
        errors[1].contains("has both image and wrapper"),
        "{errors:?}"
    );
}

#[test]
fn limits_are_levels_of_factors() {
    let study = Study::new();
    let text = small(
        "cpu = [\"unlimited\", 0.5, 2]",
        "cpu = \"{{ cpu }}\"\nmemory = \"256M\"\npids = 100",
        "",
    );
    let plan = study.read(&text).unwrap();
    let limits = |level: &str| resolved(&plan, level).services[0].spec.limits;
    let expected = |cpu_quota_us| ResourceLimits {
        cpu_quota_us,
        memory_bytes: Some(256 << 20),
        pids: Some(100),
    };
    assert_eq!(limits("unlimited"), expected(None));
    assert_eq!(limits("0.5"), expected(Some(50_000)));
    assert_eq!(limits("2"), expected(Some(200_000)));
}

#[test]
fn wrapper_program_paths_and_signals() {
    let study = Study::new();
    let text = small(
        "a = [1, 2]",
        "wrapper = [\"app-server\", \"{{ a }}\"]\ncommand = [\"./bin/web-server\"]\n\
         stop = \"SIGQUIT\"\nopen_files = 4096\ncwd = \"bin\"\ncores = [0, 1]",
        "",
    );
    let spec = resolved(&study.read(&text).unwrap(), "2").services[0]
        .spec
        .clone();
    let program = study.path("bin/web-server").display().to_string();
    assert_eq!(spec.command, ["app-server", "2", &program]);
    assert_eq!((spec.stop_signal, spec.open_files), (3, Some(4_096)));
    assert_eq!((spec.cwd, spec.cores), (study.path("bin"), vec![0, 1]));
    let own = study
        .read(&small("a = [1, 2]", "", "").replace("web-server", "prony"))
        .unwrap();
    assert_eq!(resolved(&own, "1").services[0].spec.command, ["/opt/prony"]);
}

#[test]
fn a_frozen_plan_can_be_read_after_the_originals_are_removed() {
    let study = Study::new();
    study.write("urls.txt", "/\n/page POST <body.bin\n");
    study.write("body.bin", "body");
    let text = GOOD.replace("\"web.conf\" }", "\"../{{ 'x' }}/web.conf\" }");
    std::fs::create_dir_all(study.path("s/x")).unwrap();
    std::fs::rename(study.path("web.conf"), study.path("x-web.conf")).unwrap();
    std::fs::create_dir(study.path("x")).unwrap();
    std::fs::rename(study.path("x-web.conf"), study.path("x/web.conf")).unwrap();
    for name in ["urls.txt", "body.bin"] {
        std::fs::rename(study.path(name), study.path(&format!("s/{name}"))).unwrap();
    }
    let plan = Plan::from_str(&text, &study.path("s/plan.toml"), study.machine()).unwrap();
    let out = tempfile::tempdir().unwrap();
    plan.freeze(out.path()).unwrap();
    for gone in ["x/web.conf", "s/urls.txt", "s/body.bin"] {
        std::fs::remove_file(study.path(gone)).unwrap();
    }

    let frozen = out.path().join("plan.toml");
    let read = |file: &Path| {
        Plan::from_str(
            &std::fs::read_to_string(file).unwrap(),
            file,
            study.machine(),
        )
        .unwrap()
    };
    let again = read(&frozen);
    let tcp = resolved(&again, "native-tcp");
    assert_eq!(service(&tcp, "app").spec.cwd, study.path("s"));
    assert!(service(&tcp, "web").spec.files["web.conf"].starts_with(b"upstream"));
    let urls = tcp.load.settings.urls.unwrap();
    assert!(urls.starts_with(out.path()), "{}", urls.display());
    assert!(urls.with_file_name("body.bin").is_file());
    // Freezing the copy again changes only its `folder` key.
    assert_eq!(again.frozen_text().matches("folder = ").count(), 1);
}

#[test]
fn a_frozen_plan_replaces_folders_that_span_several_lines() {
    let study = Study::new();
    let folder = study.path("");
    let folder = folder.display();
    let folders = format!(
        "includes = '''\n{folder}''' # a comment\n\"folder\" = \"\"\"\\\n  \\\n{folder}\"\"\"\n"
    );
    let plan = study.read(&format!("{folders}{GOOD}")).unwrap();
    let text = plan.frozen_text();
    let (head, rest) = text.split_once("\n\n").unwrap();
    assert_eq!(head.lines().count(), 3, "{head}");
    assert_eq!(rest, GOOD);
}

#[test]
fn the_starter_is_a_plan() {
    let study = Study::new();
    let file = study.path("plan.toml");
    let plan = Plan::from_str(STARTER, &file, study.machine()).unwrap();
    plan.check_machine().unwrap();
    let unix = resolved(&plan, "unix");
    assert_eq!(
        unix.services[0].spec.command[1..],
        ["origin", "--unix", "/run/web/.sock"]
    );
    assert_eq!(
        unix.load.settings.unix.as_deref(),
        Some(Path::new("/run/web/.sock"))
    );
    let tcp = resolved(&plan, "tcp");
    assert_eq!(
        tcp.services[0].spec.command[1..],
        ["origin", "--listen", "10.0.0.1:8001"]
    );
    // The keys that the starter plan has in comments must be valid too.
    let uncommented: String = STARTER
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") || rest.starts_with('[') => rest,
            _ => line,
        })
        .filter(|line| {
            // Skip prose, and keys that exclude other keys.
            ![
                "needs",
                "remote",
                "ssh",
                "source",
                "urls ",
                "[trials], lists",
                "host ",
                "agents ",
                "image",
                "volumes",
            ]
            .iter()
            .any(|word| line.starts_with(word))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let errors = Plan::from_str(&uncommented, &file, study.machine())
        .map(|_| ())
        .unwrap_err();
    assert!(
        errors
            .iter()
            .all(|error| error.kind == DiagnosticKind::File),
        "{errors}\n{uncommented}"
    );
    assert_eq!(errors.iter().count(), 2, "{errors}");
}

#[test]
fn every_study_is_a_plan() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut plans = 0;
    for study in std::fs::read_dir(studies).unwrap() {
        let file = study.unwrap().path().join("plan.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        // Use a simulated machine, because the machine that runs this test may lack cores and
        // servers.
        let roomy = StudyMachine {
            cores: (0..8).collect(),
            programs: "/nonexistent".into(),
        };
        let read = |machine| Plan::from_str(&text, &file, machine);
        let plan = read(roomy.clone()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(plan.notes, Vec::<String>::new());
        let odd = StudyMachine {
            cores: vec![3, 5],
            ..roomy.clone()
        };
        read(odd).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!plan.question.is_empty() && file.with_file_name("README.md").is_file());
        plans += 1;
    }
    assert!(plans > 0);
}

#[test]
fn columns_and_functions_are_left_to_the_load() {
    let study = Study::new();
    study.write("users.csv", "id,web,first name\n1,a,b\n");
    let load = r#"
        path = "/{{ id }}/{{ level }}?{{ seq }}&{{ id | raw }}"
        header = ["A: {{ uuid }}", "B: {{ random(1, 9) }}", "C: {{ web.port }}"]
        method = "POST"
        body = "{% if level == 1 %}{{ id | json }}{% endif %}{{ \"{{ first name }}\" }}"
        data = "users.csv"
        data_order = "random""#;
    let plan = study.read(&small("level = [1, 2]", "", load)).unwrap();
    let load = plan.resolve(0, &allocate(&plan.allocations(0).unwrap()));
    let load = load.unwrap().load;
    let (_, path) = load
        .url
        .split_once("//")
        .unwrap()
        .1
        .split_once('/')
        .unwrap();
    assert_eq!(path, "{{ id }}/1?{{ seq }}&{{ id | raw }}");
    let header = &load.settings.header;
    assert_eq!(header[..2], ["A: {{ uuid }}", "B: {{ random(1, 9) }}"]);
    // A service takes precedence over a column of the data file with the same name.
    assert!(header[2][3..].parse::<u16>().is_ok(), "{header:?}");
    let body = "{{ id | json }}{{ first name }}";
    assert_eq!(load.settings.body.as_deref(), Some(body));
    assert_eq!(load.settings.data, Some(study.path("users.csv")));
}

#[test]
fn columns_exist_in_the_load_only() {
    let study = Study::new();
    study.write("users.csv", "id\n1\n");
    let diagnostics = |service: &str, load: &str| {
        let plan = small("level = [1, 2]", service, load);
        study.diagnostics(&plan).join("\n")
    };
    let in_service = diagnostics("args = [\"{{ id }}\"]", "data = \"users.csv\"");
    assert!(
        in_service.contains("no factor or service has the name \"id\""),
        "{in_service}"
    );
    let without_data = diagnostics("", "path = \"/{{ id }}\"");
    assert!(
        without_data.contains("no factor or service has the name \"id\""),
        "{without_data}"
    );
    let misspelled = diagnostics("", "path = \"/{{ idd }}\"\ndata = \"users.csv\"");
    assert!(misspelled.contains("did you mean \"id\""), "{misspelled}");
    study.write("users.csv", "id,name\n1\n");
    let ragged = diagnostics("", "data = \"users.csv\"");
    assert!(
        ragged.contains("users.csv:2: 1 value in a table of 2 columns"),
        "{ragged}"
    );
}
