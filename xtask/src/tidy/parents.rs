//! Rules about a module's own file and its child modules.
//!
//! **Cycles.** If a module's own file uses a child, directly or through other children, the child
//! must not use items that are declared in that file. A `pub use` is not a use. A file that adds
//! methods to a type of its parent counts as a part of the parent's file, so it may use what is
//! declared there, and what it declares may be used there.
//!
//! **Split types.** A type whose methods are in many files is one large file in disguise. Files
//! below a module may add methods to its types, but only a few for each type.
//!
//! Violations that exist are listed below. Their numbers may only fall, and a number that is too
//! high is reported as well.

use std::collections::BTreeMap;

use super::complaint::Complaint;
use super::items::Items;
use super::module_graph::joined;
use super::module_graph::{
    Dependency, Edges, Module, Names, by_crate, common_length, dependencies, module_of,
    shortest_path, way_text,
};

/// Path of this file, for complaints about its tables.
const HERE: &str = "xtask/src/tidy/parents.rs";

/// Maximum number of files that add methods to a type of a module above them.
const FILES_MAX: usize = 4;

/// Violations that existed when a rule was added.
struct Existing {
    /// Cycles of each crate.
    cycles: &'static [(&'static str, usize)],
    /// Types with more than [`FILES_MAX`] files: crate, type, number of files.
    split_types: &'static [(&'static str, &'static str, usize)],
}

const EXISTING: Existing = Existing {
    cycles: &[("fleet", 1), ("load", 1)],
    split_types: &[
        ("fleet", "coordinator::fleet::Fleet", 6),
        ("load", "settings::table::LoadSettings", 6),
        ("load", "engine::worker::Worker", 13),
    ],
};

/// Checks all crates.
pub(super) fn check(files: &BTreeMap<&str, Items>) -> Vec<Complaint> {
    check_except(files, &EXISTING)
}

fn check_except(files: &BTreeMap<&str, Items>, existing: &Existing) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (name, files) in by_crate(files) {
        let names = Names::of(&files);
        let types = split_types(&files, &names);
        let cycles = cycles(&dependencies(&files, &names), &types);
        let allowed = existing.cycles.iter().find(|(of, _)| *of == name);
        let allowed = allowed.map_or(0, |(_, cycles)| *cycles);
        if cycles.len() > allowed {
            complaints.extend(cycles);
        } else if cycles.len() < allowed {
            let text = format!(
                "{name} has only {} cycles left: lower its number",
                cycles.len()
            );
            complaints.push(Complaint::new(HERE, 0, text));
        }
        for ((module, ty), parts) in &types {
            let ty = format!("{}::{ty}", module.join("::"));
            let listed = existing
                .split_types
                .iter()
                .find(|(of, it, _)| (*of, *it) == (name, &ty));
            let allowed = listed.map_or(FILES_MAX, |(_, _, files)| *files);
            if parts.len() > allowed {
                let names: Vec<String> = parts.keys().map(|part| part.join("::")).collect();
                let text = format!(
                    "{} files add methods to {ty}; at most {allowed} may: {} (divide its state)",
                    parts.len(),
                    names.join(", ")
                );
                let path = parts.values().next().unwrap_or(&HERE);
                complaints.push(Complaint::new(path, 0, text));
            } else if listed.is_some() && parts.len() < allowed {
                let files = parts.len();
                let text = format!("{files} files add methods to {ty}: lower its number");
                complaints.push(Complaint::new(HERE, 0, text));
            }
        }
    }
    complaints
}

/// The modules that add methods to a type of a module above them, with their files, by that module
/// and the type.
type SplitTypes<'t> = BTreeMap<(Module, String), BTreeMap<Module, &'t str>>;

fn split_types<'t>(files: &[(&'t str, &Items)], names: &Names) -> SplitTypes<'t> {
    let mut types = SplitTypes::new();
    for (path, items) in files {
        let here = module_of(path);
        for block in items.impls.iter().filter(|block| !block.only_in_tests) {
            let from = joined(&here, &block.module);
            let Some(name) = block.path.last() else {
                continue;
            };
            if names.is_only_in_tests(&from) {
                continue;
            }
            if let Some(to) = names.resolve(&from, &block.path)
                && to.len() < from.len()
                && from.starts_with(&to)
            {
                types
                    .entry((to, name.clone()))
                    .or_default()
                    .insert(from, path);
            }
        }
    }
    types
}

/// Returns a complaint for each child that uses its parent's file and is used by it.
fn cycles(dependencies: &[Dependency], types: &SplitTypes) -> Vec<Complaint> {
    let mut graphs: BTreeMap<Module, Edges> = BTreeMap::new();
    for dependency in dependencies.iter().filter(|it| !it.is_reexport) {
        let Dependency {
            from,
            to,
            path,
            line,
            ..
        } = dependency;
        let parent = &from[..common_length(from, to)];
        let node = |module: &Module| {
            let is_part = types
                .iter()
                .any(|((owner, _), parts)| owner == parent && parts.contains_key(module));
            if is_part || module == parent {
                parent.to_vec()
            } else {
                module[..=parent.len()].to_vec()
            }
        };
        let (from, to) = (node(from), node(to));
        if from != to {
            let edges = graphs.entry(parent.to_vec()).or_default();
            edges.entry((from, to)).or_insert((path.to_string(), *line));
        }
    }
    let mut complaints = Vec::new();
    for (parent, edges) in &graphs {
        let to_parent = edges.iter().filter(|((_, to), _)| to == parent);
        for ((child, _), (path, line)) in to_parent {
            if let Some(way) = shortest_path(edges, parent, child) {
                let way = way_text(std::iter::once(child).chain(&way));
                let text = format!("a child and its parent's file depend on each other: {way}");
                complaints.push(Complaint::new(path, *line, text));
            }
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

    const NOTHING: Existing = Existing {
        cycles: &[],
        split_types: &[],
    };

    fn complaints(files: &[(&str, &str)], existing: &Existing) -> Vec<String> {
        printed(&check_except(&items::read_all(&Tree::of(files)), existing))
    }

    const LIB: (&str, &str) = ("crates/load/src/lib.rs", "mod a;");
    const USES_PARENT: (&str, &str) = ("crates/load/src/a/x.rs", "use super::A;\npub struct X(A);");
    const CYCLE: &str = "crates/load/src/a/x.rs:1: a child and its parent's file depend on each \
                         other: a::x → a → a::x";

    #[test]
    fn a_child_that_uses_its_parent_must_not_be_used_by_it() {
        let parent = "mod x;\npub struct A;\nfn f() { x::g() }";
        let files = [LIB, ("crates/load/src/a/mod.rs", parent), USES_PARENT];
        assert_eq!(complaints(&files, &NOTHING), [CYCLE]);
        // A re-export is not a use; neither is a variable with the module's name.
        let parent = "mod x;\npub use x::X;\npub struct A;\nfn f(x: u8) { x }";
        let files = [LIB, ("crates/load/src/a/mod.rs", parent), USES_PARENT];
        assert!(complaints(&files, &NOTHING).is_empty());
        let parent = "mod x;\npub use x::X;\npub struct A;\nfn f(x: X) {}";
        let files = [LIB, ("crates/load/src/a/mod.rs", parent), USES_PARENT];
        assert_eq!(complaints(&files, &NOTHING), [CYCLE]);
    }

    #[test]
    fn a_cycle_through_another_child_is_found() {
        let files = [
            LIB,
            (
                "crates/load/src/a/mod.rs",
                "mod x;\nmod y;\nuse y::Y;\npub struct A(Y);",
            ),
            USES_PARENT,
            (
                "crates/load/src/a/y.rs",
                "pub(super) struct Y(super::x::X);",
            ),
        ];
        let expected = "crates/load/src/a/x.rs:1: a child and its parent's file depend on each \
                        other: a::x → a → a::y → a::x";
        assert_eq!(complaints(&files, &NOTHING), [expected]);
    }

    #[test]
    fn files_with_methods_of_the_parents_type_are_parts_of_the_parent_if_they_are_few() {
        let part = "use super::A;\npub(super) struct P;\nimpl<T: Fn() -> u8> A<T> {}";
        let names = ["p1", "p2", "p3", "p4", "p5"];
        let paths = names.map(|name| format!("crates/load/src/a/{name}.rs"));
        let mods = "mod p1; mod p2; mod p3; mod p4; mod p5;\npub struct A(p1::P);";
        let mut files = vec![LIB, ("crates/load/src/a/mod.rs", mods)];
        files.extend(paths.iter().map(|path| (path.as_str(), part)));
        let few = &files[..files.len() - 1];
        assert!(complaints(few, &NOTHING).is_empty());
        let expected = "crates/load/src/a/p1.rs: 5 files add methods to a::A; at most 4 may: a::p1, a::p2, \
                        a::p3, a::p4, a::p5 (divide its state)";
        assert_eq!(complaints(&files, &NOTHING), [expected]);
    }

    #[test]
    fn existing_violations_may_only_become_fewer() {
        let parent = "mod x;\npub struct A;\nfn f() { x::g() }";
        let files = [LIB, ("crates/load/src/a/mod.rs", parent), USES_PARENT];
        let allowing = |cycles| Existing { cycles, ..NOTHING };
        assert!(complaints(&files, &allowing(&[("load", 1)])).is_empty());
        let lower = format!("{HERE}: load has only 1 cycles left: lower its number");
        assert_eq!(complaints(&files, &allowing(&[("load", 2)])), [lower]);
    }
}
