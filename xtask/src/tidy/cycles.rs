//! Rule: the modules of a crate have no dependency cycles.
//!
//! The nodes are sibling modules, at every depth. Module `a` depends on its sibling `b` if code
//! anywhere in `a` names an item anywhere in `b`. A path through a re-export counts as a dependency
//! on the module that declares the item. Code that is compiled only for tests is ignored.
//! Dependencies between a parent and its own children are in `parents`.

use std::collections::BTreeMap;

use super::complaint::Complaint;
use super::items::Items;
use super::module_graph::{
    Dependency, Edges, Names, by_crate, common_length, dependencies, shortest_path, way_text,
};

/// Checks all crates.
pub(super) fn check(files: &BTreeMap<&str, Items>) -> Vec<Complaint> {
    by_crate(files)
        .values()
        .flat_map(|files| cycles(&sibling_edges(&dependencies(files, &Names::of(files)))))
        .collect()
}

fn sibling_edges(dependencies: &[Dependency]) -> Edges {
    let mut edges = Edges::new();
    for dependency in dependencies {
        let Dependency {
            from,
            to,
            path,
            line,
            ..
        } = dependency;
        let common = common_length(from, to);
        if common < from.len() && common < to.len() {
            let edge = (from[..=common].to_vec(), to[..=common].to_vec());
            edges.entry(edge).or_insert((path.to_string(), *line));
        }
    }
    edges
}

/// Returns one complaint for each dependency that is part of a cycle.
fn cycles(edges: &Edges) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for ((from, to), (path, line)) in edges {
        if let Some(way) = shortest_path(edges, to, from) {
            let way = way_text(std::iter::once(from).chain(&way));
            let text = format!("modules depend on each other: {way}");
            complaints.push(Complaint::new(path, *line, text));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::complaint::printed;
    use super::super::items;
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
