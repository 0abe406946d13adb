//! Tests of messages about problems in a plan, which are compared verbatim.

use super::{GOOD, Study};
use prony_plan::Plan;

/// Each case: text of [`GOOD`] to replace, the replacement, and the first message that results. `@`
/// stands for `plan.toml:` and the line of the replacement.
const CASES: &[(&str, &str, &str)] = &[
    (
        "connections = 10",
        "abort_if = \"busy>5%\"",
        "@: abort_if of [load]: busy is known only after the load has ended (use --fail-if)",
    ),
    (
        "connections = 10",
        "abort_window = \"10s\"",
        "@: abort_window of [load] has no effect without abort_if (add abort_if = [\"failed > 5%\"], or remove abort_window)",
    ),
    (
        "connections = 10",
        "abort_window = \"10ms\"\nabort_if = [\"p99>1s\"]",
        "@: abort_window of [load]: at least 500 ms (a load is checked every half second)",
    ),
    (
        "socket = [\"tcp\", \"unix\"]",
        "socket = [\"unix\"]",
        "@: factor \"socket\" has one level; comparing needs at least two (add a level, or name another one in baseline)",
    ),
    (
        "socket = [\"tcp\", \"unix\"]",
        "socket = [\"tcp\", \"unix\", \"tcp\"]",
        "@: factor \"socket\" has level \"tcp\" twice (remove one, or rename it)",
    ),
    (
        "place  = [\"native\", \"namespace\"]",
        "place  = \"native\"",
        "@: factor \"place\" is a string, not an array (write place = [\"…\", \"…\"])",
    ),
    (
        "baseline = { place = \"native\", socket = \"unix\" }",
        "baseline = { place = \"native\", socket = \"unx\" }",
        "@: the baseline names \"unx\", which is not a level of factor \"socket\" (did you mean \"unix\"?)",
    ),
    (
        "baseline = { place = \"native\", socket = \"unix\" }",
        "baseline = { plaice = \"native\" }",
        "@: the baseline has no key \"plaice\" (did you mean \"place\"?)",
    ),
    (
        "margin   = \"2%\"",
        "margin   = \"2\"",
        "@: margin is \"2\", not a percentage above 0% and at most 50% (such as \"2%\")",
    ),
    (
        "margin   = \"2%\"",
        "margine  = \"2%\"",
        "@: a plan has no key \"margine\" (did you mean \"margin\"?)",
    ),
    (
        "margin   = \"2%\"",
        "metrics = [\"rate\", \"p98\"]",
        "@: \"p98\" is not a metric that can have a verdict (known metrics: rate_per_s, capacity_per_s, \
         journey_capacity_per_s, total_time_us, p50_us, p99_us, tls_p50_us, \
         events_per_s, first_event_p50_us, first_event_p99_us, event_gap_p50_us, event_gap_p99_us, \
         failed_share, journeys_per_s, journey_p50_us, journey_p99_us, journey_failed_share, server_cpu_us_per_request, \
         server_cpu_user_us_per_request, server_cpu_system_us_per_request, server_cpu_user_percent, \
         server_cpu_system_percent, server_memory_bytes)",
    ),
    (
        "duration = \"30s\"",
        "duration = \"30x\"",
        "@: duration: \"30x\" is not a time; write it like 500ms, 30s or 1m30s",
    ),
    (
        "duration = \"30s\"",
        "duration = \"0s\"",
        "@: duration is 0, so nothing would be measured",
    ),
    (
        "duration = \"30s\"",
        "duration = [\"1s\"]",
        "@: duration is an array, not a string",
    ),
    (
        "blocks   = { min = 5, max = 15 }",
        "blocks   = { min = 5, max = 2 }",
        "@: blocks.min (5) is more than blocks.max (2)",
    ),
    (
        "blocks   = { min = 5, max = 15 }",
        "blocks   = 0",
        "@: blocks is 0, not a whole number from 1 to 1000",
    ),
    (
        "cores   = \"0\"",
        "memory = \"12\"",
        "@: memory of service \"app\" is 12, not a whole number from 1048576",
    ),
    (
        "cores   = \"0\"",
        "runtime = \"docker\"",
        "@: runtime of service \"app\" has no effect without image (add image, or remove runtime)",
    ),
    (
        "cores   = \"0\"",
        "image = \"--privileged\"",
        "@: image of service \"app\" is \"--privileged\", not the name of an image (write it like \
         nginx:1.27, or the path of an archive like ./web.tar)",
    ),
    (
        "cores   = \"0\"",
        "pids = 0",
        "@: pids of service \"app\" is 0, not a whole number from 1 to 4194304",
    ),
    (
        "cores   = \"0\"",
        "cpu = \"0-3\"",
        "@: cpu of service \"app\" is 0-3, not a number of cores from 0.01 to 10000 (write cpu = 0.5 \
         for half the time of one core, or cpu = \"unlimited\"; `cores` chooses the cores themselves)",
    ),
    (
        "warmup   = \"3s\"",
        "interleave = \"on\"",
        "@: interleave is \"on\" (write auto, off, or a slice length from 20ms to 1m, such as 250ms)",
    ),
    (
        "warmup   = \"3s\"",
        "interleave = \"2m\"",
        "@: interleave is \"2m\" (write auto, off, or a slice length from 20ms to 1m, such as 250ms)",
    ),
    (
        "warmup   = \"3s\"",
        "interleave = [\"250ms\"]",
        "@: interleave is an array, not a string",
    ),
    (
        "warmup   = \"3s\"",
        "warm_up  = \"3s\"",
        "@: [trials] has no key \"warm_up\" (did you mean \"warmup\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ app.adress }}",
        "@: service \"app\" has no attribute \"adress\" (did you mean \"address\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ ap.address }}",
        "@: no factor or service has the name \"ap\" (did you mean \"app\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ socket.address }}",
        "@: the levels of factor \"socket\" are plain values without \"address\" (write \
         {{ socket }}, or turn the levels into tables with a name)",
    ),
    (
        "{{ app.address }}",
        "{{ app.port }}",
        "@: \"app.port\" is not set, in variant native-unix and 1 more (a UNIX socket has path \
            and address, but no host and port)",
    ),
    (
        "\"--bind\", \"{{ app.address }}\"",
        "\"--bind={{ app.host }}\"",
        "@: \"app.host\" is not set, in variant native-unix and 1 more (a UNIX socket has path \
        and address, but no host and port)",
    ),
    (
        "{{ app.address }}",
        "{{ app.address ",
        "@: template: syntax error: unexpected end of input, \
         expected end of variable block",
    ),
    (
        "{{ app.address }}",
        "{{ app }}",
        "@: command of service \"app\" is a table, not a string",
    ),
    (
        "listen  = \"{{ socket }}\"",
        "listen  = \"{{ web.port }}\"",
        "@: \"web.port\" is not known yet, because this key determines where services run (use factors here, not services)",
    ),
    (
        "listen  = \"{{ socket }}\"",
        "listen  = \"sctp\"",
        "@: listen of service \"app\" is \"sctp\" (one of: tcp, unix, udp)",
    ),
    (
        "needs   = [\"app\"]",
        "needs   = [\"web\"]",
        "@: service \"web\" needs itself (remove one of these needs)",
    ),
    (
        "needs   = [\"app\"]",
        "needs   = [\"apq\"]",
        "@: service \"web\" needs \"apq\", which is not a service (did you mean \"app\"?)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"nginx-of-nobody\", ",
        "@: service \"web\": the program \"nginx-of-nobody\" is not installed (install it)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"varnishd\", ",
        "@: service \"web\": the program \"varnishd\" is not installed (install it)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"./bin/gone\", ",
        "@: service \"web\": the program \"./bin/gone\" is not installed (install it)",
    ),
    (
        "place   = \"{{ place }}\"",
        "place   = \"namespce\"",
        "@: place of service \"app\" is \"namespce\" (did you mean \"namespace\"?)",
    ),
    (
        "place   = \"{{ place }}\"",
        "place   = \"jail\"",
        "@: place of service \"app\" is \"jail\", but prony starts no jails here (on Linux, use \"namespace\"; on a [host.NAME] that runs FreeBSD, use \"jail:NAME\")",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "ready   = { get = \"index\", status = 200 }",
        "@: ready.get of service \"web\" is \"index\", not a path (a path begins with /)",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "ready   = { status = 20 }",
        "@: ready.status of service \"web\": \"20\" is not a list of statuses; write it like 200-399,404",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "stop = \"SIGSTOPP\"",
        "@: stop of service \"web\" is \"SIGSTOPP\", not a signal (use a name such as \"SIGTERM\" or \"SIGQUIT\")",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "cwd = \"nowhere\"",
        "@: cwd of service \"web\": nowhere does not exist (relative paths are resolved against the plan's \
         folder)",
    ),
    (
        "\"web.conf\" = { template = \"web.conf\" }",
        "\"web.conf\" = { template = \"gone.conf\" }",
        "@: file \"web.conf\" of service \"web\": gone.conf does not exist (relative paths are \
         resolved against the plan's folder)",
    ),
    (
        "\"web.conf\" = { template = \"web.conf\" }",
        "\"web.conf\" = { template = \"web.conf\" }\n\"../x\" = { text = \"\" }",
        "plan.toml:30: file \"../x\" of service \"web\" has an invalid name (use a path below the \
         service's own folder, such as \"nginx.conf\")",
    ),
    (
        "web.files['web.conf']",
        "web.files['nginx.conf']",
        "@: service \"web\" has no such file (it has: web.conf)",
    ),
    (
        "\"web.conf\" = { template = \"web.conf\" }",
        "\"web.conf\" = \"web.conf\"",
        "@: file \"web.conf\" of service \"web\" is a string, not a table ({ template = \"path\" }, \
         { copy = \"path\" }, { text = \"…\" }, { certificate = \"host\" } or { key_of = \"certificate file\" })",
    ),
    (
        "connections = 10",
        "conections = 10",
        "@: [load] has no key \"conections\" (did you mean \"connections\"?)",
    ),
    (
        "connections = 10",
        "no-keepalive = true",
        "@: [load] has no key \"no-keepalive\" (write no_keepalive)",
    ),
    (
        "connections = 10",
        "unix = \"/s\"",
        "@: [load] has no key \"unix\" (set listen = \"unix\" in the target \
         service, or remote = \"unix:/path\")",
    ),
    (
        "connections = 10",
        "connections = 0",
        "@: connections of [load]: \"0\" is not a count; write a whole number above zero",
    ),
    (
        "connections = 10",
        "no_keepalive = \"yes\"",
        "@: no_keepalive is a string, not true or false",
    ),
    (
        "connections = 10",
        "rate = 100",
        "@: a closed loop has no rate: each response starts the next request (remove rate, or set \
         model = \"open\")",
    ),
    (
        "connections = 10",
        "duration = \"3s\"",
        "@: duration is in [trials] and in [load] (remove one)",
    ),
    (
        "model       = \"closed\"",
        "model       = \"open\"",
        "@: an open loop needs a rate (add rate = 1000 (requests per second))",
    ),
    (
        "urls        = \"urls.txt\"",
        "urls        = \"gone.txt\"",
        "@: urls: gone.txt does not exist (relative paths are resolved against the plan's folder)",
    ),
    (
        "cores       = \"1\"",
        "cores       = \"1-3\"",
        "@: [load] uses cores 2, 3, which this machine lacks (it has cores 0 to 1)",
    ),
    (
        "target      = \"web\"",
        "target      = \"weeb\"",
        "@: the target \"weeb\" is not a service (did you mean \"web\"?)",
    ),
    (
        "target      = \"web\"",
        "target      = \"web.http\"",
        "@: the target \"web.http\" is not a listener of service \"web\" (its only listener has \
            no name; write target = \"web\")",
    ),
    (
        "[service.app]",
        "[service.app-1]",
        "@: service \"app-1\" has a name that templates can't use (use letters, digits and _, \
        beginning with a letter, such as \"app_1\")",
    ),
    (
        "name     = \"sockets\"",
        "name     = \"a/b\"",
        "@: name can't be used as a folder name (use 1 to 100 bytes on one line, with no / and \
            no leading dot)",
    ),
    (
        "name     = \"sockets\"",
        "name     = 1979-05-27",
        "@: a plan can't have a date here",
    ),
    (
        "name     = \"sockets\"",
        "name     = \"a\"\nname = \"b\"",
        "plan.toml:3: duplicate key: name",
    ),
];

#[test]
fn each_problem_is_reported_with_its_line_and_hint() {
    let study = Study::new();
    let mut wrong = Vec::new();
    for (from, to, said) in CASES {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let line = text[..text.find(to).unwrap()].matches('\n').count() + 1;
        let said = said.replace('@', &format!("plan.toml:{line}"));
        let diagnostics = study.diagnostics(&text);
        if diagnostics.first().is_none_or(|first| *first != said) {
            wrong.push(format!(
                "{to}:\n  {}\nnot\n  {said}",
                diagnostics.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn all_problems_are_reported_at_once_in_line_order() {
    let study = Study::new();
    let text = GOOD
        .replace("\"2%\"", "2")
        .replace("\"30s\"", "\"soon\"")
        .replace("cores   = \"0\"", "cores   = \"7\"")
        .replace("within = \"10s\"", "whithin = \"10s\"")
        .replace("model ", "modle ");
    let diagnostics = study.diagnostics(&text);
    let lines: Vec<usize> = diagnostics
        .iter()
        .map(|line| line.split(':').nth(1).unwrap().parse().unwrap())
        .collect();
    // Cores are checked only after all other checks have passed.
    assert_eq!(lines.len(), 4, "{diagnostics:#?}");
    assert!(lines.is_sorted(), "{diagnostics:#?}");
}

#[test]
fn an_unclosed_bracket_is_one_problem_that_names_its_line() {
    let text = GOOD.replace("[\"tcp\", \"unix\"]", "[\"tcp\", \"un # ]ix\"");
    let opened = text[..text.find("un # ]ix").unwrap()].matches('\n').count() + 1;
    let diagnostics = Study::new().diagnostics(&text);
    let [only] = &diagnostics[..] else {
        panic!("{diagnostics:#?}");
    };
    let hint = format!("(is the bracket in line {opened} closed?)");
    assert!(only.ends_with(&hint), "{only}");
}

#[test]
fn problems_in_templates_have_file_and_line() {
    let study = Study::new();
    study.write("web.conf", "a\nb {{ app.adress }}\n");
    assert_eq!(
        study.diagnostics(GOOD),
        ["web.conf:2: service \"app\" has no attribute \"adress\" (did you mean \"address\"?)"]
    );
    study.write("web.conf", "a\n\n{{ app.port }}\n");
    assert_eq!(
        study.diagnostics(GOOD),
        [
            "web.conf:3: \"app.port\" is not set, in variant native-unix and 1 more (a UNIX \
                socket has path and address, but no host and port)"
        ]
    );
    study.write("web.conf", "{% for a in %}\n");
    assert!(study.diagnostics(GOOD)[0].starts_with("web.conf:1: template: syntax error"));
    study.write(
        "web.conf",
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}\
                             {% endfor %}",
    );
    assert_eq!(
        study.diagnostics(GOOD),
        ["web.conf:1: the template did not finish rendering; it may contain an endless loop"]
    );
}

#[test]
fn missing_tables_and_files() {
    let study = Study::new();
    let diagnostics = study.diagnostics("");
    for part in ["no factors", "no service", "no load"] {
        assert!(
            diagnostics.iter().any(|line| line.contains(part)),
            "{part}: {diagnostics:?}"
        );
    }
    let text = GOOD.replace("target      = \"web\"\n", "");
    assert!(
        study.diagnostics(&text)[0]
            .ends_with("[load] has no target (name a service: target = \"app\")")
    );
    let text = GOOD.replace(
        "command = [\"web-server\", \"-c\", \"{{ web.files['web.conf'] }}\"]\n",
        "",
    );
    assert!(study.diagnostics(&text)[0].contains("service \"web\" has no command"));
    assert!(
        Plan::read(&study.path("none.toml"), study.machine())
            .unwrap_err()
            .to_string()
            .ends_with("none.toml: the plan does not exist (prony init writes a starter plan)")
    );
}

#[test]
fn a_missing_or_unusable_part_does_not_hide_other_mistakes() {
    let study = Study::new();
    let misspelled = GOOD.replacen("command = ", "comand = ", 1);
    assert_ne!(misspelled, GOOD);
    let (without_load, _) = misspelled.split_once("[load]").unwrap();
    let broken_listener = misspelled.replace("listen  = \"tcp\"", "listen  = \"tpc\"");
    assert_ne!(broken_listener, misspelled);
    for (text, other) in [
        (without_load.to_owned(), "the plan has no load"),
        (format!("load = 3\n{without_load}"), "load is a number"),
        (
            format!(
                "factors = 3\n{}",
                misspelled.replace("[factors]", "[other]")
            ),
            "factors is a number",
        ),
        (broken_listener, "listen of service"),
        (
            misspelled.replace("[load]", "[load]\nconections = 2"),
            "[load] has no key \"conections\"",
        ),
        (
            format!("{misspelled}\n[telemetry]\ncouners = \"off\"\n"),
            "[telemetry] has no key \"couners\"",
        ),
    ] {
        let diagnostics = study.diagnostics(&text);
        for part in [other, "has no key \"comand\" (did you mean \"command\"?)"] {
            let mut with_part = diagnostics.iter().filter(|line| line.contains(part));
            assert!(with_part.next().is_some(), "{part}: {diagnostics:?}");
            assert_eq!(with_part.next(), None, "{diagnostics:?}");
        }
    }
    // A target is not reported as unknown if the plan has no service at all.
    let (before, _) = GOOD.split_once("[service.").unwrap();
    let (_, load) = GOOD.split_once("[load]").unwrap();
    let text = format!("{before}[load]{load}");
    let diagnostics = study.diagnostics(&text);
    assert!(
        !diagnostics.iter().any(|line| line.contains("known are")),
        "{diagnostics:?}"
    );
}

#[test]
fn cyclic_needs() {
    let study = Study::new();
    let text = GOOD.replace("[service.app]", "[service.app]\nneeds = [\"web\"]");
    assert_eq!(
        study.diagnostics(&text),
        ["plan.toml:17: services need each other: app → web → app (remove one of these needs)"]
    );
}

#[test]
fn a_plan_in_which_no_factor_varies_is_refused() {
    let plan = r#"
baseline = { socket = "tcp" }
[factors]
socket = [{ name = "tcp", listen = "tcp" }]
[service.app]
command = ["app-server", "{{ app.address }}"]
[load]
target = "app"
"#;
    assert_eq!(
        Study::new().diagnostics(plan),
        [
            "plan.toml:4: factor \"socket\" has one level; comparing needs at least two (add a level, \
             or name another one in baseline)"
        ]
    );
}

#[test]
fn variants_and_baselines_that_do_not_match() {
    let study = Study::new();
    let listed = |variants: &str| {
        study.diagnostics(&GOOD.replace("margin ", &format!("variants = [{variants}]\nmargin ")))
    };
    assert_eq!(
        listed(
            "{ place = \"native\", socket = \"tcp\" }, { place = \"namespace\", socket = \"tcp\" }"
        ),
        [
            "plan.toml:4: the baseline { place = \"native\", socket = \"unix\" } is not one of the variants (add it to variants)"
        ]
    );
    assert!(
        listed("{ place = \"native\" }")[0]
            .contains("the variant lacks a level of factor \"socket\"")
    );
    assert!(
        listed("{ place = \"native\", socket = \"unix\" }")[0]
            .contains("there is only one variant")
    );
    let twice = "{ place = \"native\", socket = \"unix\" }";
    assert!(
        listed(&format!("{twice}, {twice}"))
            .join("\n")
            .contains("this variant is listed twice")
    );
    let text = GOOD
        .replace("baseline = { place = \"native\", ", "baseline = { ")
        .replace(
            "margin ",
            "variants = [{ place = \"native\", socket = \"unix\" }, \
             { place = \"namespace\", socket = \"tcp\" }]\nmargin ",
        );
    assert_eq!(
        study.diagnostics(&text),
        [
            "plan.toml:4: variant namespace-tcp has no baseline: the same variant with socket = \
            \"unix\" is not listed (list that variant too)"
        ]
    );
}
