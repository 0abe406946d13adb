//! What is wrong with a plan, word for word where people read it.

use super::{GOOD, Study};

/// A mistake made in [`GOOD`] by putting `to` in place of `from`, and what is said about it, which
/// must be all that is said. `@` stands for `plan.toml:` and the line of `to`.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "socket = [\"tcp\", \"unix\"]",
        "socket = [\"unix\"]",
        "@: factor \"socket\" has one level; a comparison needs two (add another, or set baseline)",
    ),
    (
        "socket = [\"tcp\", \"unix\"]",
        "socket = [\"tcp\", \"unix\", \"tcp\"]",
        "@: factor \"socket\" has the level \"tcp\" twice (take one out or rename it)",
    ),
    (
        "place  = [\"native\", \"namespace\"]",
        "place  = \"native\"",
        "@: factor \"place\" is a string, not an array (write place = [\"…\", \"…\"])",
    ),
    (
        "baseline = { place = \"native\", socket = \"unix\" }",
        "baseline = { place = \"native\", socket = \"unx\" }",
        "@: the baseline names \"unx\", no level of \"socket\" (did you mean \"unix\"?)",
    ),
    (
        "baseline = { place = \"native\", socket = \"unix\" }",
        "baseline = { plaice = \"native\" }",
        "@: the baseline has no key \"plaice\" (did you mean \"place\"?)",
    ),
    (
        "margin   = \"2%\"",
        "margin   = \"2\"",
        "@: margin is \"2\", not a percentage above 0% and up to 50% (such as \"2%\")",
    ),
    (
        "margin   = \"2%\"",
        "margine  = \"2%\"",
        "@: a plan has no key \"margine\" (did you mean \"margin\"?)",
    ),
    (
        "margin   = \"2%\"",
        "metrics = [\"rate\", \"p98\"]",
        "@: no verdict can be given on \"p98\" (known are: rate_per_s, total_time_us, p50_us, p99_us, \
         failed_share, server_cpu_us_per_request, \
         server_cpu_user_us_per_request, server_cpu_system_us_per_request, server_cpu_user_percent, \
         server_cpu_system_percent, server_memory_bytes)",
    ),
    (
        "duration = \"30s\"",
        "duration = \"30x\"",
        "@: duration: \"30x\" is not a time; write it like 500ms, 30s or 5m",
    ),
    (
        "duration = \"30s\"",
        "duration = \"0s\"",
        "@: duration is 0; nothing would be measured",
    ),
    (
        "duration = \"30s\"",
        "duration = [\"1s\"]",
        "@: duration is an array, not a string",
    ),
    (
        "blocks   = { min = 5, max = 15 }",
        "blocks   = { min = 5, max = 2 }",
        "@: blocks.min is 5, more than blocks.max, which is 2",
    ),
    (
        "blocks   = { min = 5, max = 15 }",
        "blocks   = 0",
        "@: blocks is 0, not a whole number from 1 to 1000",
    ),
    (
        "warmup   = \"3s\"",
        "warm_up  = \"3s\"",
        "@: [trials] has no key \"warm_up\" (did you mean \"warmup\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ app.adress }}",
        "@: service \"app\" offers no \"adress\" (did you mean \"address\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ ap.address }}",
        "@: no factor or service is called \"ap\" (did you mean \"app\"?)",
    ),
    (
        "{{ app.address }}",
        "{{ socket.address }}",
        "@: the levels of factor \"socket\" are plain values without \"address\" (write \
         {{ socket }}, or make its levels tables with a name)",
    ),
    (
        "{{ app.address }}",
        "{{ app.port }}",
        "@: \"app.port\" is not set, in variant native-unix and 1 more (a UNIX socket has path and \
         address, no host and port)",
    ),
    (
        "\"--bind\", \"{{ app.address }}\"",
        "\"--bind={{ app.host }}\"",
        "@: \"app.host\" is not set, in variant native-unix and 1 more (a UNIX socket has path and \
         address, no host and port)",
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
        "@: \"web.port\" is not known yet: this key decides where services live (name factors here, \
         not services)",
    ),
    (
        "listen  = \"{{ socket }}\"",
        "listen  = \"udp\"",
        "@: listen of service \"app\" is \"udp\" (one of: tcp, unix)",
    ),
    (
        "needs   = [\"app\"]",
        "needs   = [\"web\"]",
        "@: service \"web\" needs itself (take one need out)",
    ),
    (
        "needs   = [\"app\"]",
        "needs   = [\"apq\"]",
        "@: service \"web\" needs \"apq\", which is no service (did you mean \"app\"?)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"nginx-of-nobody\", ",
        "@: service \"web\": the program \"nginx-of-nobody\" is not installed (install it, or write \
         its whole path)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"varnishd\", ",
        "@: service \"web\": the program \"varnishd\" is not installed (apt install \
         varnish; FreeBSD's package is varnish7)",
    ),
    (
        "command = [\"web-server\", ",
        "command = [\"./bin/gone\", ",
        "@: service \"web\": the program \"./bin/gone\" is not installed (check the path; it starts \
         from the plan's folder)",
    ),
    (
        "place   = \"{{ place }}\"",
        "place   = \"namespce\"",
        "@: place of service \"app\" is \"namespce\" (did you mean \"namespace\"?)",
    ),
    (
        "place   = \"{{ place }}\"",
        "place   = \"jail\"",
        "@: service \"app\" lives in a jail, which linux has not (the nearest thing here is \
         \"namespace\")",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "ready   = { get = \"index\", status = 200 }",
        "@: ready.get of service \"web\" is \"index\", not a path (it begins with /)",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "ready   = { status = 20 }",
        "@: ready.status of service \"web\": \"20\" is not a list of statuses; write it like 200-399,404",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "stop = \"SIGSTOPP\"",
        "@: stop of service \"web\" is \"SIGSTOPP\", no signal (such as \"SIGTERM\" or \"SIGQUIT\")",
    ),
    (
        "ready   = { get = \"/\", status = 200, within = \"10s\" }",
        "cwd = \"nowhere\"",
        "@: cwd of service \"web\": nowhere does not exist (relative paths start from the plan's \
         folder)",
    ),
    (
        "\"web.conf\" = { template = \"web.conf\" }",
        "\"web.conf\" = { template = \"gone.conf\" }",
        "@: file \"web.conf\" of service \"web\": gone.conf does not exist (relative paths start \
         from the plan's folder)",
    ),
    (
        "\"web.conf\" = { template = \"web.conf\" }",
        "\"web.conf\" = { template = \"web.conf\" }\n\"../x\" = { text = \"\" }",
        "plan.toml:30: file \"../x\" of service \"web\" can't be called so (a name below the \
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
         { copy = \"path\" }, { text = \"…\" }, { certificate = \"host\" } or { key_of = \"its file\" })",
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
        "@: [load] has no key \"unix\" (listen = \"unix\" of the target, or its remote = \
         \"unix:/path\", names the socket)",
    ),
    (
        "connections = 10",
        "connections = 0",
        "@: [load]: invalid value '0' for '--connections <N>': \"0\" is not a count; a whole number \
         above zero is needed",
    ),
    (
        "connections = 10",
        "no_keepalive = \"yes\"",
        "@: no_keepalive is a string, not true or false",
    ),
    (
        "connections = 10",
        "rate = 100",
        "@: a closed loop has no rate: it goes as fast as the server answers (take rate out, or set \
         model = \"open\")",
    ),
    (
        "connections = 10",
        "duration = \"3s\"",
        "@: duration stands in [trials] and in [load] (take one out)",
    ),
    (
        "model       = \"closed\"",
        "model       = \"open\"",
        "@: an open loop needs a rate (add rate = 1000, requests a second)",
    ),
    (
        "urls        = \"urls.txt\"",
        "urls        = \"gone.txt\"",
        "@: urls: gone.txt does not exist (relative paths start from the plan's folder)",
    ),
    (
        "cores       = \"1\"",
        "cores       = \"1-3\"",
        "@: [load] wants cores 2, 3, which this machine lacks (it has cores 0 to 1)",
    ),
    (
        "target      = \"web\"",
        "target      = \"weeb\"",
        "@: the target \"weeb\" is no service (did you mean \"web\"?)",
    ),
    (
        "target      = \"web\"",
        "target      = \"web.http\"",
        "@: the target \"web.http\" is no listener of service \"web\" (it has one without a name: \
         target = \"web\")",
    ),
    (
        "[service.app]",
        "[service.app-1]",
        "@: service \"app-1\" can't be named in a template (letters, digits and _ only, a letter \
         first, such as \"app_1\")",
    ),
    (
        "name     = \"sockets\"",
        "name     = \"a/b\"",
        "@: name can't name a folder (1 to 100 bytes on one line without /, and no point at its \
         start)",
    ),
    (
        "name     = \"sockets\"",
        "name     = 1979-05-27",
        "@: a date has no meaning in a plan",
    ),
    (
        "name     = \"sockets\"",
        "name     = \"a\"\nname = \"b\"",
        "plan.toml:3: duplicate key: name",
    ),
];

#[test]
fn each_mistake_is_told_with_its_line_and_its_mend() {
    let study = Study::new();
    let mut wrong = Vec::new();
    for (from, to, said) in MISTAKES {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let line = text[..text.find(to).unwrap()].matches('\n').count() + 1;
        let said = said.replace('@', &format!("plan.toml:{line}"));
        let mistakes = study.mistakes(&text);
        if mistakes.first().is_none_or(|first| *first != said) {
            wrong.push(format!("{to}:\n  {}\nnot\n  {said}", mistakes.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_lines() {
    let study = Study::new();
    let text = GOOD
        .replace("\"2%\"", "2")
        .replace("\"30s\"", "\"soon\"")
        .replace("cores   = \"0\"", "cores   = \"7\"")
        .replace("within = \"10s\"", "whithin = \"10s\"")
        .replace("model ", "modle ");
    let mistakes = study.mistakes(&text);
    let lines: Vec<usize> = mistakes
        .iter()
        .map(|line| line.split(':').nth(1).unwrap().parse().unwrap())
        .collect();
    // The cores are looked at once the rest is right.
    assert_eq!(lines.len(), 4, "{mistakes:#?}");
    assert!(lines.is_sorted(), "{mistakes:#?}");
}

#[test]
fn mistakes_in_templates_name_their_file_and_line() {
    let study = Study::new();
    study.write("web.conf", "a\nb {{ app.adress }}\n");
    assert_eq!(
        study.mistakes(GOOD),
        ["web.conf:2: service \"app\" offers no \"adress\" (did you mean \"address\"?)"]
    );
    study.write("web.conf", "a\n\n{{ app.port }}\n");
    assert_eq!(
        study.mistakes(GOOD),
        [
            "web.conf:3: \"app.port\" is not set, in variant native-unix and 1 more (a UNIX socket has \
          path and address, no host and port)"
        ]
    );
    study.write("web.conf", "{% for a in %}\n");
    assert!(study.mistakes(GOOD)[0].starts_with("web.conf:1: template: syntax error"));
    study.write(
        "web.conf",
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}\
                             {% endfor %}",
    );
    assert_eq!(
        study.mistakes(GOOD),
        ["web.conf:1: this template runs without end"]
    );
}

#[test]
fn what_is_missing_altogether() {
    let study = Study::new();
    let mistakes = study.mistakes("");
    for part in ["no factors", "no service", "no load"] {
        assert!(
            mistakes.iter().any(|line| line.contains(part)),
            "{part}: {mistakes:?}"
        );
    }
    let text = GOOD.replace("target      = \"web\"\n", "");
    assert!(
        study.mistakes(&text)[0]
            .ends_with("[load] has no target (name a service: target = \"app\")")
    );
    let text = GOOD.replace(
        "command = [\"web-server\", \"-c\", \"{{ web.files['web.conf'] }}\"]\n",
        "",
    );
    assert!(study.mistakes(&text)[0].contains("service \"web\" has no command"));
    assert!(
        super::Plan::read(&study.path("none.toml"))
            .unwrap_err()
            .to_string()
            .ends_with("none.toml: this plan does not exist (prony init writes one to start from)")
    );
}

#[test]
fn needs_that_run_in_a_circle() {
    let study = Study::new();
    let text = GOOD.replace("[service.app]", "[service.app]\nneeds = [\"web\"]");
    assert_eq!(
        study.mistakes(&text),
        ["plan.toml:17: services need each other: app → web → app (take one need out)"]
    );
}

#[test]
fn variants_and_baselines_that_do_not_fit() {
    let study = Study::new();
    let listed = |variants: &str| {
        study.mistakes(&GOOD.replace("margin ", &format!("variants = [{variants}]\nmargin ")))
    };
    assert_eq!(
        listed(
            "{ place = \"native\", socket = \"tcp\" }, { place = \"namespace\", socket = \"tcp\" }"
        ),
        [
            "plan.toml:4: the baseline { place = \"native\", socket = \"unix\" } is none of the \
          variants (list it under variants)"
        ]
    );
    assert!(
        listed("{ place = \"native\" }")[0]
            .contains("the variant names no level of factor \"socket\"")
    );
    assert!(
        listed("{ place = \"native\", socket = \"unix\" }")[0].contains("there is one variant")
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
        study.mistakes(&text),
        [
            "plan.toml:4: variant namespace-tcp has no baseline: socket = \"unix\" with its other \
          levels is not listed (list that variant too)"
        ]
    );
}
