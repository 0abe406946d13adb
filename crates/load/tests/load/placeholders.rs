//! Runs the fuzz target for placeholders briefly, with many random texts.

#[expect(unreachable_pub, reason = "shared with the fuzz target")]
#[path = "../../../../fuzz/src/template.rs"]
mod template;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pieces of placeholders, and characters that end or break placeholders.
const PARTS: &[&str] = &[
    "{{",
    "}}",
    "{",
    "}",
    " ",
    "\"",
    "seq",
    "uuid",
    "random",
    "(",
    "1",
    ",",
    "9",
    ")",
    "-3",
    "|",
    "raw",
    "url",
    "json",
    "name",
    "\\",
    "é",
    "\0",
    "\n",
    "a",
    "18446744073709551616",
];

#[test]
fn texts_are_accepted_or_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let length = random.random_range(0..12);
        let parts = (0..length).map(|_| PARTS[random.random_range(0..PARTS.len())]);
        let mut text: String = parts.collect();
        if random.random_range(0..2) == 0 {
            text = format!("{{{{ {text} }}}}");
        }
        match template::run(text.as_bytes()) {
            0 => refused += 1,
            _ => accepted += 1,
        }
    }
    assert!(accepted > 50 && refused > 50, "{accepted} {refused}");
    for valid in ["", "{{ seq }}", "{{uuid}}{{random(1, 9)}}", "{{ \"{{\" }}"] {
        assert_eq!(template::run(valid.as_bytes()), 3, "{valid}");
    }
    assert_eq!(template::run(b"\xff"), 0);
    assert_eq!(template::run(b"{{ random(9, 1) }}"), 0);
}
