//! Tests of templates that would exhaust the stack or the memory of this machine.

use std::path::Path;

use prony_machine::profile::MachineProfile;
use prony_plan::Plan;

/// A plan with one service. The tests replace its command and its file.
const PLAN: &str = r#"
baseline = { socket = "tcp" }
[factors]
socket = ["tcp", "unix"]
[service.web]
listen  = "{{ socket }}"
command = ["prony"]
[service.web.files]
"web.conf" = { template = "web.conf" }
[load]
target = "web"
"#;

/// Returns the messages about a plan whose file has this text, one per line, without the folder.
fn diagnostics(plan: &str, file: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("web.conf"), file).unwrap();
    let path: &Path = &folder.path().join("plan.toml");
    let Err(errors) = Plan::from_str(plan, path, MachineProfile::this()) else {
        return Vec::new();
    };
    let folder = format!("{}/", folder.path().display());
    let text = errors.to_string().replace(&folder, "");
    text.lines().map(str::to_owned).collect()
}

/// Templates that would overflow the stack, or that need far more memory than a machine has.
#[test]
fn templates_that_exhaust_stack_or_memory_are_errors_with_their_line() {
    let doubled = |set: &str| format!("{}{}", "{% set a = 'xxxx' %}", set.repeat(60));
    let many = |before: &str, repeated: &str, after: &str| {
        format!("{before}{}{after}", repeated.repeat(20_000))
    };
    let nested = "{% set n = namespace(x=[]) %}{% for i in range(60000) %}\
        {% set n.x = [n.x] %}{% endfor %}";
    let templates = [
        many("{{ ", "-", "1 }}"),
        many("{{ ", "not ", "1 }}"),
        many("{{ ", "(", "1 }}"),
        many("{{ 1", "+1", " }}"),
        many("{{ ", "1 if 1 else ", "1 }}"),
        many("{{ socket", ".b", " }}"),
        many("{{ socket", "|string", " }}"),
        many("{{ socket", "[0]", " }}"),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        many("x", "{% if 1 %}", ""),
        many("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% set n = namespace() %}{% set n.a = n %}{{ n|string }}".to_owned(),
        nested.to_owned(),
        "{{ [1]|batch(99999999999, 0) }}".to_owned(),
        "{{ [1]|slice(99999999999)|list }}".to_owned(),
        "{{ range(99999999999)|list }}".to_owned(),
        "{{ 'x' * 99999999999 }}".to_owned(),
        "{{ '%99999999999d'|format(1) }}".to_owned(),
        "{{ '%.99999999999f'|format(1.0) }}".to_owned(),
        "{{ 'x'|indent(99999999999, true) }}".to_owned(),
        format!("{{{{ 'xx'{} }}}}", "|replace('x', 'xxxxxxxxx')".repeat(40)),
        "{{".repeat(20_000),
        "{{ range(10000)|join('x' * 100000) }}".to_owned(),
        doubled("{% set a = a ~ a %}"),
        doubled("{% set a = a + a %}"),
        doubled("{% set a %}{{ a }}{{ a }}{% endset %}"),
    ];
    for template in templates {
        let command = format!("command = [\"prony\",\n\"\"\"{template}\"\"\"]\n");
        let plan = PLAN.replace("command = [\"prony\"]\n", &command);
        let line = 1 + plan.lines().position(|l| l.starts_with("\"\"\"")).unwrap();
        let place = format!("plan.toml:{line}: ");
        let in_plan = diagnostics(&plan, "");
        let is_it = |text: &String| text.starts_with(&place) && text.len() < 2500;
        assert!(in_plan.iter().any(is_it), "{template:.60}: {in_plan:?}");

        let in_file = diagnostics(PLAN, &format!("first line\n{template}\n"));
        assert!(
            in_file[0].starts_with("web.conf:2: "),
            "{template:.60}: {in_file:?}"
        );
    }
    assert_eq!(
        diagnostics(PLAN, "{{ socket|upper }}"),
        Vec::<String>::new()
    );
}
