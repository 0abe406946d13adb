//! Rule: type names are unique within a crate, and public type names are unique in the whole
//! workspace.

use std::collections::BTreeMap;

use super::Complaint;
use super::items::{Items, TypeItem};

/// Checks the types in the `src` folder of every crate, including test modules.
pub(super) fn check(files: &BTreeMap<&str, Items>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut in_crate: BTreeMap<(&str, &str), Vec<Place>> = BTreeMap::new();
    let mut public: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for (path, items) in files {
        let Some(name) = crate_of(path) else {
            continue;
        };
        for item in &items.types {
            let place = Place { path, item };
            in_crate.entry((name, &item.name)).or_default().push(place);
            if item.public && name != "cli" && name != "xtask" {
                public.entry(&item.name).or_default().push(place);
            }
        }
    }
    for ((name, _), places) in &in_crate {
        report(
            places,
            &format!("more than once in {name}"),
            &mut complaints,
        );
    }
    for places in public.values() {
        let first = places.first().and_then(|p| crate_of(p.path));
        if places.iter().any(|p| crate_of(p.path) != first) {
            report(
                places,
                "as a public type by more than one crate",
                &mut complaints,
            );
        }
    }
    complaints
}

/// Location of a type declaration.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    item: &'a TypeItem,
}

/// Reports every declaration of a name that is declared several times. Declarations are accepted if
/// all of them are in the same module, because they must then be for different platforms; the
/// compiler rejects anything else.
fn report(places: &[Place<'_>], when: &str, complaints: &mut Vec<Complaint>) {
    let module = |p: &Place<'_>| (p.path.to_string(), p.item.module.clone());
    let Some(first) = places.first() else {
        return;
    };
    if places.iter().all(|p| module(p) == module(first)) {
        return;
    }
    for place in places {
        let others: Vec<&str> = places
            .iter()
            .map(|p| p.path)
            .filter(|p| *p != place.path)
            .collect();
        let others = if others.is_empty() {
            "this file".to_string()
        } else {
            others.join(", ")
        };
        let name = &place.item.name;
        let text = format!(
            "type {name} is declared {when}: see {others} (use a more specific \
            name)"
        );
        complaints.push(Complaint::new(place.path, place.item.line, text));
    }
}

/// Returns the crate whose `src` folder contains a file.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    if path.starts_with("xtask/src/") {
        return Some("xtask");
    }
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::{items, printed};
    use super::*;
    use crate::tree::Tree;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        printed(&check(&items::read_all(&Tree::of(files))))
    }

    #[test]
    fn a_name_used_twice_in_a_crate_is_reported_at_each_declaration() {
        let seen = complaints(&[
            ("crates/load/src/a.rs", "struct State;"),
            ("crates/load/src/b.rs", "\nenum State {}"),
        ]);
        assert_eq!(seen.len(), 2);
        assert!(
            seen[1].starts_with("crates/load/src/b.rs:2: type State is declared more than once")
        );
    }

    #[test]
    fn two_crates_may_share_private_names_but_no_public_ones() {
        let private = [
            ("crates/load/src/a.rs", "pub struct State;"),
            ("crates/stats/src/b.rs", "pub(crate) struct State;"),
        ];
        assert!(complaints(&private).is_empty());
        let public = [
            ("crates/load/src/a.rs", "pub struct State;"),
            ("crates/stats/src/b.rs", "pub struct State;"),
        ];
        assert_eq!(complaints(&public).len(), 2);
    }

    #[test]
    fn alternatives_in_one_module_and_separate_test_modules_are_fine() {
        let text = "#[cfg(unix)]\nstruct A;\n#[cfg(not(unix))]\nstruct A;";
        assert!(complaints(&[("crates/load/src/a.rs", text)]).is_empty());
        let files = [
            ("crates/load/src/a.rs", "struct A;"),
            ("crates/load/tests/a.rs", "struct A;"),
        ];
        assert!(complaints(&files).is_empty());
        let modules = "struct A;\nmod inner { struct A; }";
        assert_eq!(complaints(&[("crates/load/src/a.rs", modules)]).len(), 2);
    }
}
