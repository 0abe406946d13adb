use super::*;

const PLAN: &str = r#"
name     = "cores"
baseline = { cores = "1", stack = "kernel" }
[factors]
cores = [
    { name = "1", list = "0" },
    { name = "2", list = "0-1" },   # a remark
    { name = "5", list = "0-4" },
]
stack = [{ name = "kernel", wrapper = [] }, { name = "nice", wrapper = ["nice"] }]
size  = [1, 2]
[service.web]
command = ["prony", "origin", "--listen", "{{ web.address }}"]
wrapper = "{{ stack.wrapper }}"
cores   = "{{ cores.list }}"
[load]
target = "web"
path   = "/bytes/{{ size }}"
"#;

fn machine(cores: usize) -> MachineProfile {
    MachineProfile {
        cores: (0..cores).collect(),
        ..MachineProfile::this()
    }
}

fn adapted(text: &str, cores: usize) -> (AdaptedPlan, Plan) {
    let origin = Path::new("plan.toml");
    let adapted = to_machine(text, origin, &machine(cores));
    let adapted = adapted.unwrap_or_else(|classify| panic!("{classify:?}"));
    let plan = Plan::from_str(&adapted.text, origin, machine(cores));
    let plan = plan.unwrap_or_else(|errors| panic!("{errors}\n{}", adapted.text));
    plan.check_machine()
        .unwrap_or_else(|errors| panic!("{errors}"));
    (adapted, plan)
}

#[test]
fn a_plan_that_the_machine_can_run_is_unchanged() {
    let (adapted, plan) = adapted(PLAN, 5);
    assert_eq!(adapted.text, PLAN);
    assert!(adapted.left_out.is_empty());
    assert_eq!(plan.variants.len(), 12);
}

#[test]
fn levels_that_need_more_cores_are_removed_and_named() {
    let (adapted, plan) = adapted(PLAN, 2);
    assert_eq!(plan.variants.len(), 8);
    let cores = plan.factors.iter().find(|factor| factor.name == "cores");
    assert_eq!(
        cores.unwrap().levels.len(),
        2,
        "every remaining level is used by a variant"
    );
    let [line] = &adapted.left_out[..] else {
        panic!("{:?}", adapted.left_out)
    };
    assert!(
        line.contains("5-kernel-1") && line.contains("lacks"),
        "{line}"
    );
    assert!(
        adapted.text.starts_with("# left out on this machine: "),
        "{}",
        adapted.text
    );
    // On a machine with one core, only one level of the factor remains.
    let (_, plan) = self::adapted(PLAN, 1);
    assert_eq!((plan.variants.len(), plan.factors.len()), (4, 2));
}

#[test]
fn part_of_a_product_becomes_a_list() {
    let text = PLAN.replace(
        "cores   = \"{{ cores.list }}\"",
        "cores = \"{% if stack.name == 'nice' %}{{ cores.list }}{% else %}0{% endif %}\"",
    );
    let (adapted, plan) = adapted(&text, 1);
    assert_eq!(plan.variants.len(), 8);
    assert!(adapted.text.contains("variants = [\n"), "{}", adapted.text);
    // The second round of narrowing replaces the list of variants that the first one wrote.
    let listed = adapted.text.replace("0-1", "0-7");
    let again = to_machine(&listed, Path::new("plan.toml"), &machine(1)).unwrap();
    assert_eq!(again.text.matches("variants =").count(), 1);
}

#[test]
fn what_all_variants_need_is_refused() {
    let origin = Path::new("plan.toml");
    let text = PLAN.replace("\"{{ cores.list }}\"", "\"7\"");
    let refused = to_machine(&text, origin, &machine(2));
    assert!(
        matches!(&refused, Err(CannotAdapt::Lacks(why)) if why.contains("core 7")),
        "a missing core is a limitation of the machine"
    );
    let text = PLAN.replace("\"nice\"]", "\"no-such-program\"]");
    let refused = to_machine(&text, origin, &machine(5));
    assert!(
        matches!(&refused, Err(CannotAdapt::Wrong(why)) if why.to_string().contains("no-such-program")),
        "a missing program is an error, because the user can install it"
    );
    // The baseline's own level needs cores that the machine doesn't have.
    let text = PLAN.replace("list = \"0\" }", "list = \"6\" }");
    assert!(to_machine(&text, origin, &machine(5)).is_err());
}

#[test]
fn levels_can_be_added() {
    let text = with_level(
        PLAN,
        "stack={ name = \"slow\", wrapper = [\"nice\", \"-n\", \"9\"] }",
    );
    let (_, plan) = adapted(&text.unwrap(), 5);
    assert_eq!(plan.variants.len(), 18);
    let (_, plan) = adapted(&with_level(PLAN, "size = 3").unwrap(), 5);
    assert_eq!(plan.factors[2].levels[2].name, "3");
    let text = with_level(PLAN, "cores={ name = \"3\", list = \"0-2\" }").unwrap();
    assert_eq!(adapted(&text, 5).1.factors[0].levels[3].name, "3");
    for (input, text) in [
        ("stack", "FACTOR=LEVEL"),
        ("stak=x", "its factors are: cores, size, stack"),
        ("stack={ name = slow }", "FACTOR=LEVEL"),
        ("stack=1\nevil = 2", "FACTOR=LEVEL"),
    ] {
        let failure = with_level(PLAN, input).err().map(|f| f.to_string());
        assert!(
            failure.as_ref().is_some_and(|f| f.contains(text)),
            "{input}: {failure:?}"
        );
    }
    let word = with_level(PLAN, "size=large").unwrap();
    assert!(word.contains("\"large\""), "{word}");
}

#[test]
fn lengths_replace_those_of_the_plan_or_are_added() {
    let text = "[trials]\nduration = \"10s\" # long\n[load]\nrequests = 3000\n";
    let shorter = with_length(text, "duration", "\"5us\"");
    assert_eq!(shorter, text.replace("\"10s\"", "\"5us\""));
    let fewer = with_length(text, "requests", "7");
    assert_eq!(fewer, text.replace("3000", "7"));
    let warmup = with_length(text, "warmup", "\"1s\"");
    assert!(
        warmup.starts_with("[trials]\nwarmup = \"1s\"\nduration"),
        "{warmup}"
    );
    let of_load = "[load]\nduration = \"3s\"\n";
    assert_eq!(
        with_length(of_load, "duration", "\"1s\""),
        "[load]\nduration = \"1s\"\n"
    );
    let none = with_length("name = \"x\"\n", "duration", "\"1s\"");
    assert!(none.ends_with("\n[trials]\nduration = \"1s\"\n"), "{none}");
}
