//! Items of a Rust file: modules, imports, and paths in code.
//!
//! This module reads tokens and resolves no names. Code that is compiled only for tests is marked.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice::Iter;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use crate::tree::Tree;

/// The items of one file.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) modules: Vec<ModuleItem>,
    pub(super) imports: Vec<Import>,
    pub(super) references: Vec<Reference>,
    /// The types that inherent `impl` blocks add methods to.
    pub(super) impls: Vec<Reference>,
}

/// A declared module, inline or in a separate file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModuleItem {
    pub(super) name: String,
    pub(super) module: Vec<String>,
    pub(super) only_in_tests: bool,
}

/// One name that a `use` declaration brings into a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// Name in the importing module; `*` for a glob import.
    pub(super) name: String,
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    pub(super) module: Vec<String>,
    pub(super) only_in_tests: bool,
    /// True for `pub use` and `pub(…) use`.
    pub(super) is_reexport: bool,
}

/// A path in code, outside `use` declarations.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    pub(super) module: Vec<String>,
    pub(super) only_in_tests: bool,
}

/// Reads every Rust file. Files that can't be tokenized are skipped; `source` reports them.
pub(super) fn read_all(tree: &Tree) -> BTreeMap<&str, Items> {
    tree.texts()
        .filter(|(path, _)| path.ends_with(".rs"))
        .filter_map(|(path, text)| Some((path, read(text)?)))
        .collect()
}

fn read(text: &str) -> Option<Items> {
    let stream: TokenStream = text.trim_start_matches('\u{feff}').parse().ok()?;
    let mut items = Items::default();
    items.read(stream, &Scope::default());
    Some(items)
}

/// Context of the tokens at one nesting level.
#[derive(Debug, Clone, Default)]
struct Scope {
    module: Vec<String>,
    only_in_tests: bool,
}

/// Prefixes of an item that have been read before its keyword.
#[derive(Debug, Default)]
struct Prefixes {
    only_in_tests: bool,
    /// True after `pub`.
    visible: bool,
    /// True after the first word of the item.
    begun: bool,
}

type Tokens<'a> = Peekable<Iter<'a, TokenTree>>;

impl Items {
    fn read(&mut self, stream: TokenStream, scope: &Scope) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut tokens = tokens.iter().peekable();
        let mut prefixes = Prefixes::default();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(p) if p.as_char() == '#' => {
                    prefixes.only_in_tests |= is_test_attribute(&mut tokens);
                }
                TokenTree::Punct(p) if matches!(p.as_char(), ';' | ',') => {
                    prefixes = Prefixes::default();
                }
                TokenTree::Ident(ident) => {
                    let word = ident.to_string();
                    let line = ident.span().start().line;
                    self.read_word(&word, line, &mut tokens, scope, &mut prefixes);
                }
                TokenTree::Group(group) => {
                    self.read(group.stream(), &inner_scope(scope, prefixes.only_in_tests));
                    if group.delimiter() == Delimiter::Brace {
                        prefixes = Prefixes::default();
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn read_word(
        &mut self,
        word: &str,
        line: usize,
        tokens: &mut Tokens<'_>,
        scope: &Scope,
        prefixes: &mut Prefixes,
    ) {
        let only_in_tests = scope.only_in_tests || prefixes.only_in_tests;
        let reference = |path| Reference {
            path,
            line,
            module: scope.module.clone(),
            only_in_tests,
        };
        match word {
            "pub" => {
                prefixes.visible = true;
                skip_scope(tokens);
            }
            "mod" => {
                self.read_module(tokens, scope, prefixes.only_in_tests);
                *prefixes = Prefixes::default();
            }
            "use" => {
                let start = self.imports.len();
                self.read_use(tokens, &[], scope, only_in_tests);
                for import in &mut self.imports[start..] {
                    import.is_reexport = prefixes.visible;
                }
                *prefixes = Prefixes::default();
            }
            "impl" if !prefixes.begun => self
                .impls
                .extend(extended_type(tokens.clone()).map(reference)),
            _ => {
                let path = read_path(word, tokens);
                self.references.push(reference(path));
                prefixes.begun = true;
            }
        }
    }

    fn read_module(&mut self, tokens: &mut Tokens<'_>, scope: &Scope, pending_test: bool) {
        let Some(TokenTree::Ident(name)) = tokens.peek() else {
            return;
        };
        let name = name.to_string();
        tokens.next();
        self.modules.push(ModuleItem {
            name: name.clone(),
            module: scope.module.clone(),
            only_in_tests: scope.only_in_tests || pending_test,
        });
        if let Some(body) = next_group(tokens, Delimiter::Brace) {
            let mut inner = inner_scope(scope, pending_test);
            inner.module.push(name);
            self.read(body.stream(), &inner);
        }
    }

    /// Reads a `use` tree up to `;` or its closing brace. `prefix` is the path before it.
    fn read_use(&mut self, tokens: &mut Tokens<'_>, prefix: &[String], scope: &Scope, test: bool) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut line = 0;
        loop {
            match tokens.next() {
                Some(TokenTree::Ident(ident)) if ident == "as" => {
                    if let Some(TokenTree::Ident(alias)) = tokens.next() {
                        name = Some(alias.to_string());
                    }
                }
                Some(TokenTree::Ident(ident)) => {
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                }
                Some(TokenTree::Punct(p)) if p.as_char() == '*' => name = Some("*".to_string()),
                Some(TokenTree::Group(group)) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.read_use(&mut inner.iter().peekable(), &path, scope, test);
                    path.clear();
                }
                Some(TokenTree::Punct(p)) if p.as_char() == ':' => {}
                end => {
                    if path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    if let Some(last) = path
                        .last()
                        .filter(|_| path.len() > prefix.len() || line > 0)
                    {
                        self.imports.push(Import {
                            name: name.take().unwrap_or_else(|| last.clone()),
                            path: path.clone(),
                            line,
                            module: scope.module.clone(),
                            only_in_tests: test,
                            is_reexport: false,
                        });
                    }
                    match end {
                        Some(TokenTree::Punct(p)) if p.as_char() == ',' => {
                            path = prefix.to_vec();
                            line = 0;
                        }
                        _ => return,
                    }
                }
            }
        }
    }
}

fn inner_scope(scope: &Scope, pending_test: bool) -> Scope {
    Scope {
        module: scope.module.clone(),
        only_in_tests: scope.only_in_tests || pending_test,
    }
}

/// Consumes the parentheses of `pub(…)`, which use no item. Those of a tuple are left.
fn skip_scope(tokens: &mut Tokens<'_>) {
    if let Some(TokenTree::Group(group)) = tokens.peek()
        && group.delimiter() == Delimiter::Parenthesis
        && let Some(TokenTree::Ident(first)) = group.stream().into_iter().next()
        && ["crate", "in", "self", "super"]
            .iter()
            .any(|word| first == word)
    {
        tokens.next();
    }
}

/// Returns the path of the type in the header of an inherent `impl` block, whose tokens follow
/// `impl`. Returns `None` for the implementation of a trait, and for `impl` within a type.
fn extended_type(mut tokens: Tokens<'_>) -> Option<Vec<String>> {
    let mut path = None;
    let mut depth = 0;
    while let Some(token) = tokens.next() {
        match token {
            // The arrow of a function's type is not the end of a list of generics.
            TokenTree::Punct(p) if p.as_char() == '-' => drop(tokens.next()),
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' => depth -= 1,
            TokenTree::Ident(ident) if depth == 0 => match ident.to_string().as_str() {
                "for" => return None,
                word => {
                    let named = read_path(word, &mut tokens);
                    path.get_or_insert(named);
                }
            },
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return path,
            TokenTree::Punct(p) if p.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

/// Reads the remaining segments of a path that begins with `first`.
fn read_path(first: &str, tokens: &mut Tokens<'_>) -> Vec<String> {
    let mut path = vec![first.to_string()];
    loop {
        let mut ahead = tokens.clone();
        let (Some(TokenTree::Punct(a)), Some(TokenTree::Punct(b))) = (ahead.next(), ahead.next())
        else {
            return path;
        };
        if a.as_char() != ':' || a.spacing() != Spacing::Joint || b.as_char() != ':' {
            return path;
        }
        let Some(TokenTree::Ident(ident)) = ahead.next() else {
            return path;
        };
        path.push(ident.to_string());
        *tokens = ahead;
    }
}

/// Takes the next token if it is a group with the given delimiters.
fn next_group<'a>(tokens: &mut Tokens<'a>, delimiter: Delimiter) -> Option<&'a Group> {
    match tokens.peek() {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
            tokens.next();
            Some(group)
        }
        _ => None,
    }
}

/// Consumes the brackets after `#`. Returns true for `#[test]` and for a `#[cfg(…)]` that requires
/// `test`.
fn is_test_attribute(tokens: &mut Tokens<'_>) -> bool {
    if let Some(TokenTree::Punct(p)) = tokens.peek()
        && p.as_char() == '!'
    {
        tokens.next();
    }
    let Some(group) = next_group(tokens, Delimiter::Bracket) else {
        return false;
    };
    let text: String = group.stream().into_iter().map(|t| t.to_string()).collect();
    let text = text.replace(' ', "");
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let items = read(text).unwrap();
        let printed = |i: &Import| format!("{} = {}", i.name, i.path.join("::"));
        items.imports.iter().map(printed).collect()
    }

    #[test]
    fn use_trees_are_expanded() {
        let text = "use a::{self, b as c, d::{e, f}, g::*};\npub(crate) use super::h;";
        let expected = [
            "a = a",
            "c = a::b",
            "e = a::d::e",
            "f = a::d::f",
            "* = a::g",
            "h = super::h",
        ];
        assert_eq!(imports(text), expected);
    }

    #[test]
    fn code_that_only_tests_compile_is_marked() {
        let text =
            "use a::b;\n#[cfg(test)]\nmod tests { use c::d; fn f() { e::g() } }\nfn h() { i::j() }";
        let items = read(text).unwrap();
        let marks: Vec<bool> = items.imports.iter().map(|i| i.only_in_tests).collect();
        assert_eq!(marks, [false, true]);
        assert!(items.modules[0].only_in_tests);
        let find = |name: &str| items.references.iter().find(|r| r.path[0] == name).unwrap();
        assert!(find("e").only_in_tests);
        assert_eq!(find("e").module, ["tests"]);
        assert!(!find("i").only_in_tests);
    }
}
