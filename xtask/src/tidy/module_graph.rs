//! The modules of a crate, and the dependencies between them.

use std::collections::{BTreeMap, BTreeSet};

use super::items::Items;

/// Path of a module from the crate root, as names.
pub(super) type Module = Vec<String>;

/// Files of each crate, with their items.
pub(super) fn by_crate<'t, 'i>(
    files: &'i BTreeMap<&'t str, Items>,
) -> BTreeMap<&'t str, Vec<(&'t str, &'i Items)>> {
    let mut crates: BTreeMap<&str, Vec<(&str, &Items)>> = BTreeMap::new();
    for (path, items) in files {
        if let Some(name) = crate_of(path) {
            crates.entry(name).or_default().push((path, items));
        }
    }
    crates
}

/// Formats a way through modules.
pub(super) fn way_text<'m>(modules: impl IntoIterator<Item = &'m Module>) -> String {
    let names = modules.into_iter().map(|module| match &module[..] {
        [] => "the crate's root".to_string(),
        names => names.join("::"),
    });
    names.collect::<Vec<_>>().join(" → ")
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
pub(super) struct Names {
    modules: BTreeSet<Module>,
    only_in_tests: BTreeSet<Module>,
    imports: BTreeMap<Module, Vec<(String, Vec<String>)>>,
}

impl Names {
    pub(super) fn of(files: &[(&str, &Items)]) -> Names {
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

    pub(super) fn is_only_in_tests(&self, module: &[String]) -> bool {
        (1..=module.len()).any(|n| self.only_in_tests.contains(&module[..n]))
    }

    /// Returns the module that declares the item that `path` names in module `from`; `None` for
    /// other crates, local variables and the prelude.
    pub(super) fn resolve(&self, from: &[String], path: &[String]) -> Option<Module> {
        self.resolve_within(from, path, 0)
    }

    fn resolve_within(&self, from: &[String], path: &[String], depth: usize) -> Option<Module> {
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
                // A name alone is a variable or an item; modules are named before others only.
                if self.modules.contains(&child) && !rest.is_empty() {
                    (child, rest)
                } else {
                    let target = self.import(from, name)?;
                    let full = joined(target, rest);
                    let inside = matches!(target.first()?.as_str(), "crate" | "self" | "super")
                        || self.modules.contains(&joined(from, &target[..1]));
                    return inside.then(|| self.resolve_within(from, &full, depth + 1))?;
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
                            self.resolve_within(&at, &full, depth + 1).or(Some(at))
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

/// A use of one module's item in another module.
pub(super) struct Dependency<'t> {
    pub(super) from: Module,
    pub(super) to: Module,
    pub(super) path: &'t str,
    pub(super) line: usize,
    /// True for `pub use`, which uses nothing by itself.
    pub(super) is_reexport: bool,
}

/// Returns all dependencies between different modules in code that isn't compiled only for tests.
pub(super) fn dependencies<'t>(files: &[(&'t str, &Items)], names: &Names) -> Vec<Dependency<'t>> {
    let mut dependencies = Vec::new();
    for (path, items) in files {
        let here = module_of(path);
        let imports = items
            .imports
            .iter()
            .filter(|i| !i.only_in_tests)
            .map(|i| (&i.module, &i.path, i.line, i.is_reexport));
        let references = items
            .references
            .iter()
            .filter(|r| !r.only_in_tests)
            .map(|r| (&r.module, &r.path, r.line, false));
        for (inner, named, line, is_reexport) in imports.chain(references) {
            let from = joined(&here, inner);
            if names.is_only_in_tests(&from) {
                continue;
            }
            if let Some(to) = names.resolve(&from, named)
                && to != from
            {
                dependencies.push(Dependency {
                    from,
                    to,
                    path,
                    line,
                    is_reexport,
                });
            }
        }
    }
    dependencies
}

/// Dependencies between modules, each with one of the locations (file and line) that cause it.
pub(super) type Edges = BTreeMap<(Module, Module), (String, usize)>;

/// Returns the number of leading names that two modules have in common.
pub(super) fn common_length(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the shortest path from one module to another along the edges, including both.
pub(super) fn shortest_path(edges: &Edges, from: &Module, to: &Module) -> Option<Vec<Module>> {
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
pub(super) fn module_of(path: &str) -> Module {
    let (_, inside) = path.split_once("src/").unwrap_or(("", path));
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Module = inside.split('/').map(str::to_string).collect();
    let is_root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

pub(super) fn joined(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().chain(b).cloned().collect()
}
