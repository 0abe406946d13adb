//! Rules: words and phrases that comments, strings and documents must not contain.

use super::Complaint;
use super::prose::{Kind, Passage, passages};
use crate::tree::Tree;

/// Words that must not begin a doc comment, in addition to those that are rejected everywhere.
const OPENINGS: &[&str] = &["what", "where", "who", "how", "whether", "so"];

/// Rejected phrases with their replacements. Each is spelled in two halves; otherwise the rule
/// would reject this file.
const PHRASES: &[(&str, &str)] = &[
    (concat!("an", "ew"), "again, new"),
    (concat!("be", "side"), "next to, besides"),
    (concat!("li", "es"), "is, is in, is within"),
    (concat!("sta", "nds"), "is, applies, is listed"),
    (concat!("be", "ar"), "tolerate, carry, allow"),
    (concat!("be", "ars"), "tolerates, carries, allows"),
    (concat!("bo", "rne"), "tolerated, carried, allowed"),
    (
        concat!("who", "ever"),
        "anyone who, the caller, the process that",
    ),
    (concat!("whom", "ever"), "anyone who"),
    (concat!("what is ", "more"), "also"),
    (concat!("so ", "many"), "a number, that many"),
    (concat!("is ", "no"), "isn't a, has no"),
    (concat!("can be ", "had"), "is available"),
    (concat!("to be ", "had"), "available"),
    (concat!("goes ", "away"), "disconnects, exits, is removed"),
    (concat!("go ", "away"), "disconnect, exit, be removed"),
    (
        concat!("went ", "away"),
        "disconnected, exited, was removed",
    ),
    (concat!("gone ", "away"), "disconnected, exited, removed"),
    (concat!("come so ", "far"), "reach, get there"),
    (concat!("comes so ", "far"), "reaches, gets there"),
    (concat!("came so ", "far"), "reached, got there"),
    (concat!("so far ", "as"), "as far as, if"),
    (concat!("at ", "hand"), "available, present"),
    (concat!("none of ", "this"), "name the things"),
    (concat!("an ", "url"), "a URL"),
    (concat!("to", "ld"), "reported, printed, given, notified"),
    (
        concat!("te", "lls"),
        "reports, prints, shows, distinguishes",
    ),
    (concat!("me", "nd"), "hint, fix"),
    (concat!("me", "nds"), "hint, fixes"),
];

/// Words after which the phrase `is no` is accepted.
const BEFORE_IS_NO: &[&str] = &["there"];
const AFTER_IS_NO: &[&str] = &[
    "longer", "more", "less", "fewer", "later", "earlier", "greater", "larger", "smaller",
    "higher", "lower", "better", "worse",
];

/// Words before "answer" that show that it is a noun.
const BEFORE_NOUN: &[&str] = &[
    "a",
    "an",
    "the",
    "its",
    "their",
    "his",
    "whose",
    "this",
    "these",
    "those",
    "each",
    "every",
    "no",
    "any",
    "some",
    "first",
    "second",
    "last",
    "next",
    "whole",
    "same",
    "other",
    "another",
    "one",
    "two",
    "three",
    "all",
    "many",
    "few",
    "more",
    "most",
    "of",
    "in",
    "by",
    "for",
    "with",
    "without",
    "until",
    "per",
    "http",
    "partial",
    "complete",
    "late",
    "long",
    "short",
    "large",
    "early",
    "good",
    "wrong",
    "different",
    "server's",
    "peer's",
    "final",
];

/// Words after "answer" that show that it is a noun.
const AFTER_NOUN: &[&str] = &[
    "is", "are", "was", "were", "has", "have", "had", "began", "ended", "begins", "ends", "came",
    "comes", "arrived", "arrives", "body", "bodies", "head", "heads", "header", "headers", "whose",
];

/// Checks all comments, strings and documents.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.texts() {
        for passage in passages(path, text) {
            check_passage(path, &passage, &mut complaints);
        }
    }
    complaints
}

fn check_passage(path: &str, passage: &Passage, complaints: &mut Vec<Complaint>) {
    let words = words(passage);
    if let Some(first) = words.first().filter(|_| passage.kind == Kind::Doc)
        && OPENINGS.contains(&first.text.as_str())
    {
        let text = format!(
            "doc comment begins with \"{}\" (state what the item is or does)",
            first.text
        );
        complaints.push(Complaint::new(path, first.line, text));
    }
    for at in 0..words.len() {
        for (phrase, instead) in PHRASES {
            if is_phrase(&words, at, phrase) && !is_ordinary(&words, at, phrase) {
                let text = format!("\"{phrase}\": write plainly ({instead})");
                complaints.push(Complaint::new(path, words[at].line, text));
            }
        }
        if is_answer_as_noun(&words, at) {
            let text = format!("\"{}\" as a noun: write response or result", words[at].text);
            complaints.push(Complaint::new(path, words[at].line, text));
        }
    }
}

/// A lowercase word of a passage. Code in backticks and `{…}` in strings are replaced by the word
/// `code` with a leading backtick.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: String,
    line: usize,
    /// True if only white space separates this word from the one before it.
    joined: bool,
    /// True if this word is the first of a sentence.
    opens_sentence: bool,
}

const CODE: &str = "`code";

fn words(passage: &Passage) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut joined = false;
    let mut opens_sentence = true;
    let mut in_block = false;
    let mut code_until: Option<char> = None;
    for (index, line) in passage.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            code_until = None;
            opens_sentence = true;
            continue;
        }
        if in_block {
            continue;
        }
        if line.trim().is_empty() {
            opens_sentence = true;
            joined = false;
            code_until = None;
        }
        let mut word = String::new();
        for c in line.chars().chain(std::iter::once('\n')) {
            if let Some(end) = code_until {
                if c == end {
                    code_until = None;
                }
                continue;
            }
            if c.is_alphanumeric() || c == '_' || (matches!(c, '\'' | '-') && !word.is_empty()) {
                word.extend(c.to_lowercase());
                continue;
            }
            let opens_code = match c {
                '`' => Some('`'),
                '{' if passage.kind == Kind::Literal => Some('}'),
                _ => None,
            };
            for text in [
                std::mem::take(&mut word),
                opens_code.map_or("", |_| CODE).to_string(),
            ] {
                let text = text.trim_end_matches(['\'', '-']);
                if !text.is_empty() {
                    words.push(Word {
                        text: text.to_string(),
                        line: passage.line + index,
                        joined,
                        opens_sentence,
                    });
                    joined = true;
                    opens_sentence = false;
                }
            }
            code_until = opens_code;
            joined &= c.is_whitespace() || opens_code.is_some();
            opens_sentence |= matches!(c, '.' | '!' | '?' | ';' | '|');
        }
    }
    words
}

fn is_phrase(words: &[Word], at: usize, phrase: &str) -> bool {
    phrase.split(' ').enumerate().all(|(n, part)| {
        words
            .get(at + n)
            .is_some_and(|w| w.text == part && (n == 0 || w.joined))
    })
}

/// Returns true if a rejected phrase is ordinary English in this context.
fn is_ordinary(words: &[Word], at: usize, phrase: &str) -> bool {
    let text = |at: usize| words.get(at).map_or("", |w| w.text.as_str());
    let before = at.checked_sub(1).map_or("", text);
    let after = text(at + phrase.split(' ').count());
    match phrase.split_once(' ').unwrap_or((phrase, "")) {
        ("is", "no") => BEFORE_IS_NO.contains(&before) || AFTER_IS_NO.contains(&after),
        ("so", "many") => words[at + 2..]
            .iter()
            .take_while(|w| !w.opens_sentence)
            .any(|w| w.text == "that"),
        ("stands", _) => after == "for" || (after == "in" && text(at + 2) == "for"),
        _ => false,
    }
}

fn is_answer_as_noun(words: &[Word], at: usize) -> bool {
    let word = &words[at];
    let text = word.text.as_str();
    if matches!(text, "answer's" | "answers'") {
        return true;
    }
    if !matches!(text, "answer" | "answers") {
        return false;
    }
    let before = at
        .checked_sub(1)
        .filter(|_| word.joined)
        .map(|b| words[b].text.as_str());
    let after = words
        .get(at + 1)
        .filter(|a| a.joined)
        .map(|a| a.text.as_str());
    let numbered = before.is_some_and(|b| b.bytes().all(|c| c.is_ascii_digit()));
    let pointed = text == "answer" && before == Some("that");
    numbered
        || pointed
        || before.is_some_and(|b| BEFORE_NOUN.contains(&b) && !(text == "answers" && b == "this"))
        || after.is_some_and(|a| AFTER_NOUN.contains(&a))
}

#[cfg(test)]
mod tests {
    use super::super::printed;
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        printed(&check(&Tree::of(&[(path, text)])))
    }

    fn refused(sentence: &str) -> usize {
        complaints("docs/a.md", sentence).len()
    }

    #[test]
    fn doc_comments_begin_with_the_item() {
        for opening in OPENINGS {
            let text = format!("fn a() {{}}\n\n/// {opening} it is done.\nfn b() {{}}");
            let seen = complaints("a.rs", &text);
            assert_eq!(seen.len(), 1, "{opening}");
            assert!(seen[0].starts_with("a.rs:3: doc comment"), "{seen:?}");
        }
        assert!(complaints("a.rs", "/// The way\n/// how it is done.\nfn a() {}").is_empty());
        assert!(complaints("a.rs", "// How it is done.\nfn a() {}").is_empty());
    }

    #[test]
    fn every_phrase_is_refused_across_lines_and_in_any_case() {
        for (phrase, _) in PHRASES {
            let text = format!("First {}\nthing.", phrase.to_uppercase());
            assert_eq!(refused(&text), 1, "{phrase}");
            let text = format!("// first\n// {}\n", phrase.replace(' ', "\n// "));
            let seen = complaints("a.rs", &text);
            assert_eq!(seen.len(), 1, "{phrase}");
            assert!(seen[0].starts_with("a.rs:2:"), "{seen:?}");
        }
    }

    #[test]
    fn parts_of_words_code_and_names_are_not_refused() {
        assert_eq!(
            refused(
                "besides, a bearer, believes, `anew`, standstill, recommend, /fault/lies-short"
            ),
            0
        );
        assert_eq!(refused("```text\nanew\n```\n"), 0);
        assert!(complaints("a.rs", "fn f() { beside(\"told\"); }").is_empty());
        assert!(complaints("a.rs", "fn f() { g(\"a {told} b\"); }").is_empty());
    }

    #[test]
    fn ordinary_uses_are_accepted() {
        for sentence in [
            "If there is no file, it waits.",
            "It is no longer there.",
            "It sends so many bytes that the peer stops.",
            "The star stands for any name.",
            "The server answers within a second, and the question has to be answered.",
        ] {
            assert_eq!(refused(sentence), 0, "{sentence}");
        }
    }

    #[test]
    fn a_noun_for_a_response_is_refused() {
        let word = concat!("ans", "wer");
        for sentence in [
            format!("The {word} is cut."),
            format!("Wait for the first {word}."),
            format!("It sends 200 {word}s."),
            format!("The {word}'s head."),
            format!("HTTP {word}s."),
        ] {
            assert_eq!(refused(&sentence), 1, "{sentence}");
        }
    }
}
