//! Functions, paths, macros and modules of a Rust file, read from its tokens. Comments and strings
//! are skipped, and types aren't resolved.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::Complaint;
use crate::tree::Tree;

/// All Rust files of a tree.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Files that were read, by path.
    pub(super) files: BTreeMap<String, Source>,
    /// One complaint for each file that can't be tokenized.
    pub(super) complaints: Vec<Complaint>,
}

/// One Rust file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Functions with a body, in source order.
    pub(super) functions: Vec<Function>,
    /// Everything that looks like a path. `use` trees are expanded: `use a::{b, c::d}` gives `a::b`
    /// and `a::c::d`.
    pub(super) paths: Vec<Name>,
    /// Names of invoked macros.
    pub(super) macros: Vec<Name>,
    /// Names of declared modules.
    pub(super) modules: Vec<Name>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`.
    pub(super) line: usize,
    /// Number of lines from `fn` to the closing brace, inclusive.
    pub(super) lines: usize,
}

/// A name and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Segments of a path. A name that isn't a path has a single segment.
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// Reads every Rust file of a tree.
pub(super) fn parse_all(tree: &Tree) -> Sources {
    let mut sources = Sources::default();
    for (path, text) in tree.texts().filter(|(p, _)| p.ends_with(".rs")) {
        match parse(text) {
            Ok(source) => {
                sources.files.insert(path.to_string(), source);
            }
            Err(line) => {
                sources
                    .complaints
                    .push(Complaint::new(path, line, "can't be tokenized as Rust"));
            }
        }
    }
    sources
}

/// Reads one file. The error is the line of the first invalid token.
pub(super) fn parse(text: &str) -> Result<Source, usize> {
    let stream: TokenStream = text
        .trim_start_matches('\u{feff}')
        .parse()
        .map_err(|e: proc_macro2::LexError| e.span().start().line)?;
    let mut source = Source::default();
    source.read(stream, &[]);
    Ok(source)
}

impl Source {
    /// Reads one level of tokens. `prefix` is the path before the braces of a `use` tree, empty
    /// elsewhere.
    fn read(&mut self, stream: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(ident) => {
                    let line = ident.span().start().line;
                    self.note_keyword(&ident.to_string(), line, &tokens[at + 1..]);
                    at = self.read_path(&tokens, at, prefix);
                }
                TokenTree::Group(group) => {
                    self.read(group.stream(), &[]);
                    at += 1;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
            }
        }
    }

    fn note_keyword(&mut self, word: &str, line: usize, rest: &[TokenTree]) {
        match (word, rest.first()) {
            ("fn", Some(TokenTree::Ident(name))) => {
                if let Some(body) = body(&rest[1..]) {
                    let last = body.span_close().end().line;
                    let name = name.to_string();
                    self.functions.push(Function {
                        name,
                        line,
                        lines: last - line + 1,
                    });
                }
            }
            ("mod", Some(TokenTree::Ident(name))) => {
                self.modules.push(Name {
                    segments: vec![name.to_string()],
                    line,
                });
            }
            (name, Some(TokenTree::Punct(p))) if p.as_char() == '!' && !is_not_equal(rest) => {
                self.macros.push(Name {
                    segments: vec![name.to_string()],
                    line,
                });
            }
            _ => {}
        }
    }

    /// Reads the path that starts at `start` and returns the index after it.
    fn read_path(&mut self, tokens: &[TokenTree], start: usize, prefix: &[String]) -> usize {
        let line = tokens[start].span().start().line;
        let mut segments = prefix.to_vec();
        segments.push(tokens[start].to_string());
        let mut at = start + 1;
        while is_path_separator(&tokens[at..]) {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(ident)) => {
                    // The last segment of `std::macro!` is also the name of a macro.
                    let line = ident.span().start().line;
                    self.note_keyword(&ident.to_string(), line, &tokens[at + 3..]);
                    segments.push(ident.to_string());
                    at += 3;
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.read(group.stream(), &segments);
                    at += 3;
                    break;
                }
                _ => {
                    at += 2;
                    break;
                }
            }
        }
        self.paths.push(Name { segments, line });
        at
    }
}

/// Finds the braces of a function's body; `None` if `;` comes first.
fn body(tokens: &[TokenTree]) -> Option<&Group> {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return Some(group),
            TokenTree::Punct(p) if p.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), ..]
        if a.as_char() == ':' && a.spacing() == Spacing::Joint && b.as_char() == ':')
}

fn is_not_equal(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), ..]
        if a.as_char() == '!' && a.spacing() == Spacing::Joint && b.as_char() == '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = parse(text).unwrap();
        source.paths.iter().map(|p| p.segments.join("::")).collect()
    }

    #[test]
    fn functions_are_measured_from_fn_to_the_closing_brace() {
        let text = "\
/// Text with a brace {.
#[inline]
fn a<T>(f: fn(u8) -> u8) -> T
where
    T: Default,
{
    let s = \"}}}\"; // }
    T::default()
}
trait T { fn without_body(&self); fn with(&self) {} }
";
        let functions = parse(text).unwrap().functions;
        let seen: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines))
            .collect();
        assert_eq!(seen, [("a", 3, 7), ("with", 10, 1)]);
    }

    #[test]
    fn use_trees_are_spread_out() {
        let seen = paths("use std::{net::{TcpStream, SocketAddr as A}, time};");
        assert!(
            seen.contains(&"std::net::TcpStream".to_string()),
            "{seen:?}"
        );
        assert!(seen.contains(&"std::net::SocketAddr".to_string()));
        assert!(seen.contains(&"std::time".to_string()));
    }

    #[test]
    fn paths_in_code_are_seen_and_those_in_text_are_not() {
        let seen = paths("//! std::net\nfn f() { let s = \"std::fs\"; ::std::thread::spawn(g) }");
        assert!(seen.contains(&"std::thread::spawn".to_string()), "{seen:?}");
        assert!(
            !seen.iter().any(|p| p.contains("net") || p.contains("fs")),
            "{seen:?}"
        );
    }

    #[test]
    fn macros_and_modules_are_named_with_their_lines() {
        let text = "mod a;\nfn f() { if x != y { std::todo!() } }\npub(crate) mod b { mod c {} }";
        let source = parse(text).unwrap();
        let names = |v: &[Name]| -> Vec<(String, usize)> {
            v.iter().map(|n| (n.segments.join("::"), n.line)).collect()
        };
        assert_eq!(names(&source.macros), [("todo".to_string(), 2)]);
        let expected = [
            ("a".to_string(), 1),
            ("b".to_string(), 3),
            ("c".to_string(), 3),
        ];
        assert_eq!(names(&source.modules), expected);
    }

    #[test]
    fn a_file_that_is_not_rust_is_reported() {
        let tree = Tree::of(&[("a.rs", "fn a() {\n"), ("b.txt", "fn a() {")]);
        let sources = parse_all(&tree);
        assert_eq!(sources.complaints.len(), 1);
        assert_eq!(sources.complaints[0].path, "a.rs");
    }
}
