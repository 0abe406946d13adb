//! Paths in a Rust file, read from its tokens. Comments and strings are skipped, and types aren't
//! resolved.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::complaint::Complaint;
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
    /// Everything that looks like a path. `use` trees are expanded: `use a::{b, c::d}` gives `a::b`
    /// and `a::c::d`.
    pub(super) paths: Vec<Name>,
}

/// A path and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Segments of the path. A name that isn't a path has a single segment.
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
                TokenTree::Ident(_) => at = self.read_path(&tokens, at, prefix),
                TokenTree::Group(group) => {
                    self.read(group.stream(), &[]);
                    at += 1;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
            }
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

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), ..]
        if a.as_char() == ':' && a.spacing() == Spacing::Joint && b.as_char() == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = parse(text).unwrap();
        source.paths.iter().map(|p| p.segments.join("::")).collect()
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
    fn a_file_that_is_not_rust_is_reported() {
        let tree = Tree::of(&[("a.rs", "fn a() {\n"), ("b.txt", "fn a() {")]);
        let sources = parse_all(&tree);
        assert_eq!(sources.complaints.len(), 1);
        assert_eq!(sources.complaints[0].path, "a.rs");
    }
}
