//! Rule: the modules of a crate have no dependency cycles.
//!
//! The nodes are sibling modules, at every depth. Module `a` depends on its sibling `b` if code
//! anywhere in `a` names an item anywhere in `b`. Dependencies between a parent and its own
//! children are ignored. A path through a re-export counts as a dependency on the module that
//! declares the item. Code that is compiled only for tests is ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::items::Items;

/// Path of a module from the crate root, as names.
type Module = Vec<String>;

/// Checks all crates.
pub(super) fn check(files: &BTreeMap<&str, Items>) -> Vec<Complaint> {
    let mut crates: BTreeMap<&str, Vec<(&str, &Items)>> = BTreeMap::new();
    for (path, items) in files {
        if let Some(name) = crate_of(path) {
            crates.entry(name).or_default().push((path, items));
        }
    }
    crates
        .values()
        .flat_map(|files| {
            let names = Names::of(files);
            cycles(&edges(files, &names))
        })
        .collect()
}

/// Returns the crate whose `src` folder contains a file.
fn crate_of(path: &str) -> Option<&str> {
    if path.starts_with("xtask/src/") {
        return Some("xtask");
    }
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

/// The modules of one crate, and the names that each module imports.
#[derive(Debug, Default)]
struct Names {
    modules: BTreeSet<Module>,
    only_in_tests: BTreeSet<Module>,
    imports: BTreeMap<Module, Vec<(String, Vec<String>)>>,
}

impl Names {
    fn of(files: &[(&str, &Items)]) -> Names {
        let mut names = Names::default();
        names.modules.insert(Module::new());
        for (path, items) in files {
            let here = module_of(path);
            names.modules.insert(here.clone());
            for module in &items.modules {
                let full = joined(
                    &joined(&here, &module.module),
                    std::slice::from_ref(&module.name),
                );
                if module.only_in_tests {
                    names.only_in_tests.insert(full.clone());
                }
                names.modules.insert(full);
            }
            for import in &items.imports {
                let module = joined(&here, &import.module);
                let entry = (import.name.clone(), import.path.clone());
                names.imports.entry(module).or_default().push(entry);
            }
        }
        names
    }

    fn is_only_in_tests(&self, module: &[String]) -> bool {
        (1..=module.len()).any(|n| self.only_in_tests.contains(&module[..n]))
    }

    /// Returns the module that declares the item that `path` names in module `from`; `None` for
    /// other crates, local variables and the prelude.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        if depth > 8 {
            return None;
        }
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Module::new(), rest),
            "self" => (from.to_vec(), rest),
            "super" => (from.split_last()?.1.to_vec(), rest),
            name => {
                let child = joined(from, &[name.to_string()]);
                if self.modules.contains(&child) {
                    (child, rest)
                } else {
                    let target = self.import(from, name)?;
                    let full = joined(target, rest);
                    let inside = matches!(target.first()?.as_str(), "crate" | "self" | "super")
                        || self.modules.contains(&joined(from, &target[..1]));
                    return inside.then(|| self.resolve(from, &full, depth + 1))?;
                }
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at.pop()?;
            } else {
                let child = joined(&at, std::slice::from_ref(name));
                if !self.modules.contains(&child) {
                    // The item belongs to `at`, or `at` re-exports it.
                    return match self.import(&at, name) {
                        Some(target) => {
                            let full = joined(target, after);
                            self.resolve(&at, &full, depth + 1).or(Some(at))
                        }
                        None => Some(at),
                    };
                }
                at = child;
            }
            rest = after;
        }
        Some(at)
    }

    fn import(&self, module: &[String], name: &str) -> Option<&Vec<String>> {
        let imports = self.imports.get(module)?;
        imports.iter().find(|(n, _)| n == name).map(|(_, p)| p)
    }
}

/// Dependencies between siblings, each with one of the locations (file and line) that cause it.
type Edges = BTreeMap<(Module, Module), (String, usize)>;

fn edges(files: &[(&str, &Items)], names: &Names) -> Edges {
    let mut edges = Edges::new();
    for (path, items) in files {
        let here = module_of(path);
        let imports = items
            .imports
            .iter()
            .filter(|i| !i.only_in_tests)
            .map(|i| (&i.module, &i.path, i.line));
        let references = items
            .references
            .iter()
            .filter(|r| !r.only_in_tests)
            .map(|r| (&r.module, &r.path, r.line));
        for (inner, named, line) in imports.chain(references) {
            let from = joined(&here, inner);
            if names.is_only_in_tests(&from) {
                continue;
            }
            let Some(to) = names.resolve(&from, named, 0) else {
                continue;
            };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let edge = (from[..=common].to_vec(), to[..=common].to_vec());
                edges.entry(edge).or_insert((path.to_string(), line));
            }
        }
    }
    edges
}

/// Returns one complaint for each dependency that is part of a cycle.
fn cycles(edges: &Edges) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for ((from, to), (path, line)) in edges {
        if let Some(way) = shortest_path(edges, to, from) {
            let names: Vec<String> = std::iter::once(from)
                .chain(way.iter())
                .map(|m| m.join("::"))
                .collect();
            let text = format!("modules depend on each other: {}", names.join(" → "));
            complaints.push(Complaint::new(path, *line, text));
        }
    }
    complaints
}

/// Returns the shortest path from one module to another along the edges, including both.
fn shortest_path(edges: &Edges, from: &Module, to: &Module) -> Option<Vec<Module>> {
    let mut ways = vec![vec![from.clone()]];
    let mut visited = BTreeSet::from([from.clone()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last()?;
            if last == to {
                return Some(way);
            }
            for (_, next) in edges.keys().filter(|(start, _)| start == last) {
                if visited.insert(next.clone()) {
                    let mut way = way.clone();
                    way.push(next.clone());
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// Path of the module that a file in a crate's `src` folder contains.
fn module_of(path: &str) -> Module {
    let (_, inside) = path.split_once("src/").unwrap_or(("", path));
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Module = inside.split('/').map(str::to_string).collect();
    let is_root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

fn joined(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().chain(b).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::{items, printed};
    use super::*;
    use crate::tree::Tree;

    const LIB: (&str, &str) = (
        "crates/load/src/lib.rs",
        "mod a;\nmod b;\nmod c;\npub use b::B;",
    );

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        printed(&check(&items::read_all(&Tree::of(files))))
    }

    #[test]
    fn two_siblings_that_use_each_other_are_reported_at_both_ends() {
        let seen = complaints(&[
            LIB,
            ("crates/load/src/a.rs", "use crate::b::B;"),
            ("crates/load/src/b.rs", "\nfn f() { super::a::g() }"),
        ]);
        let expected = [
            "crates/load/src/a.rs:1: modules depend on each other: a → b → a",
            "crates/load/src/b.rs:2: modules depend on each other: b → a → b",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_cycle_of_three_is_found_below_and_through_a_re_export() {
        let seen = complaints(&[
            LIB,
            ("crates/load/src/a/mod.rs", "mod inner;"),
            ("crates/load/src/a/inner.rs", "use crate::{B, c};"),
            (
                "crates/load/src/b.rs",
                "pub struct B;\nfn f() { crate::c::g() }",
            ),
            ("crates/load/src/c.rs", "use super::a::inner::X;"),
        ]);
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(seen.iter().any(|s| s.contains("a → b → c → a")), "{seen:?}");
    }

    #[test]
    fn siblings_below_a_module_are_checked_as_well() {
        let seen = complaints(&[
            LIB,
            ("crates/load/src/a/mod.rs", "mod x;\nmod y;"),
            ("crates/load/src/a/x.rs", "use super::y::Y;"),
            (
                "crates/load/src/a/y.rs",
                "use crate::a::x;\nfn f() { x::g() }",
            ),
        ]);
        assert_eq!(seen.len(), 2, "{seen:?}");
    }

    #[test]
    fn parents_children_tests_and_other_crates_make_no_cycle() {
        let seen = complaints(&[
            LIB,
            (
                "crates/load/src/a/mod.rs",
                "mod x;\nuse x::X;\npub struct A;",
            ),
            ("crates/load/src/a/x.rs", "use super::A;\nuse b::Y;"),
            (
                "crates/load/src/b.rs",
                "#[cfg(test)]\nmod tests { use crate::c::C; }",
            ),
            (
                "crates/load/src/c.rs",
                "use crate::B;\nuse std::fmt;\nfn f(b: u8) { b }",
            ),
        ]);
        assert!(seen.is_empty(), "{seen:?}");
    }
}
