//! Random mutations of plans. Reading a mutated plan must end and must not panic.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{GOOD, Study};
use prony_plan::STARTER;

/// Fragments to insert into plans at random.
const FRAGMENTS: &[&str] = &[
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "{",
    "}",
    "{{",
    "}}",
    "{{ ",
    " }}",
    "{%",
    "%}",
    "=",
    ".",
    ",",
    "#",
    "\n",
    "\r",
    "\0",
    "\u{feff}",
    "é",
    "-1",
    "0",
    "1e999",
    "nan",
    "9223372036854775808",
    "0x7f",
    "1979-05-27",
    "true",
    "null",
    "[[load]]",
    "[service]",
    "[load.x]",
    "[factors]",
    "\"{{ app }}\"",
    "\"{{ web.files }}\"",
    "\"{{ socket.x }}\"",
    "\"{{ range(99999999) }}\"",
    "\"{{ [1, 2] * 9999999999 }}\"",
    "[[], {}]",
    "{ name = \"x\" }",
    "{ template = \"/dev/zero\" }",
    "{ copy = \".\" }",
    "\"../../..\"",
    "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
    "\"{{ 9 * 'xxxxxxxx' }}\"",
    "needs = [\"web\", \"app\"]",
    "variants = [{}]",
    "name = \"\"",
];

fn below(end: usize, random: &mut ChaCha8Rng) -> usize {
    (random.next_u64() % end.max(1) as u64) as usize
}

/// Returns the last character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn mutate(text: &mut String, random: &mut ChaCha8Rng) {
    let at = boundary(text, below(text.len() + 1, random));
    let end = boundary(text, at + 12);
    let other = boundary(text, below(text.len() + 1, random));
    match below(6, random) {
        0 => text.insert_str(at, FRAGMENTS[below(FRAGMENTS.len(), random)]),
        1 => text.replace_range(at..end, ""),
        2 => {
            let piece = text[at..end].to_owned();
            text.insert_str(other, &piece);
        }
        3 => {
            // Replaces one value of a plan with another.
            if let Some(sign) = text[at..].find('=').map(|sign| at + sign + 1) {
                let end = text[sign..].find('\n').map_or(text.len(), |end| sign + end);
                text.replace_range(sign..end, FRAGMENTS[below(FRAGMENTS.len(), random)]);
            }
        }
        4 => {
            // Moves a line to another position.
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            let from = below(lines.len(), random);
            let line = if lines.is_empty() {
                ""
            } else {
                lines.remove(from)
            };
            lines.insert(below(lines.len() + 1, random), line);
            *text = lines.concat();
        }
        _ => text.truncate(at),
    }
}

#[test]
fn reading_ends_and_never_panics() {
    let study = Study::new();
    let mut random = ChaCha8Rng::seed_from_u64(20_130_412);
    let mut refused = 0;
    for round in 0..3_000 {
        let mut text = if round % 2 == 0 { GOOD } else { STARTER }.to_owned();
        for _ in 0..=below(4, &mut random) {
            mutate(&mut text, &mut random);
        }
        match study.read(&text) {
            Ok(plan) => {
                assert!(
                    plan.variants.len() >= 2 && !plan.metrics.is_empty(),
                    "{text}"
                );
                for variant in 0..plan.variants.len() {
                    plan.allocations(variant)
                        .unwrap_or_else(|error| panic!("{error}\n{text}"));
                }
            }
            Err(errors) => {
                refused += 1;
                let lines = text.lines().count() + 1;
                for error in errors.iter() {
                    assert!(
                        !error.message.is_empty() && !error.to_string().contains('\n'),
                        "{error:?}"
                    );
                    let own = error.file.ends_with("plan.toml");
                    assert!(
                        !own || error.line.is_none_or(|line| line <= lines),
                        "{error}\n{text}"
                    );
                }
            }
        }
    }
    assert!(
        refused > 500,
        "{refused} refused: the mutations are too tame"
    );
}

#[test]
fn oversized_plans_are_rejected() {
    let study = Study::new();
    let deep = format!("a = {}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(study.read(&deep).is_err());
    let factors: String = (0..40)
        .map(|factor| format!("f{factor} = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"))
        .collect();
    let many = GOOD.replace("[factors]\n", &format!("[factors]\n{factors}"));
    let keys: String = (0..50_000).map(|key| format!("key{key} = 1\n")).collect();
    let diagnostics = study.diagnostics(&format!("{keys}{GOOD}"));
    assert_eq!(
        diagnostics.last().map(String::as_str),
        Some("and 49950 more")
    );
    let levels: String = (0..50_000).map(|level| format!("{level},")).collect();
    let long = GOOD.replace("[\"tcp\", \"unix\"]", &format!("[{levels}]"));
    assert!(
        study
            .diagnostics(&long)
            .join("\n")
            .contains("more than 256 levels")
    );
    let services: String = (0..20_000).map(|n| format!("[service.s{n}]\n")).collect();
    let crowd = study.diagnostics(&format!("{GOOD}{services}")).join("\n");
    assert!(crowd.contains("more than 64 services"), "{crowd}");
    let diagnostics = study.diagnostics(&many).join("\n");
    assert!(
        diagnostics.contains("more than 256 combinations of levels"),
        "{diagnostics}"
    );
}
