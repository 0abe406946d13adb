//! Call trees of a variant's services, from the sampling profiles of its trials.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prony_record::sampling::SampledFunction;

use crate::experiment::{Experiment, TrialProfile};

/// A function with the functions that it calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallTree {
    /// CPU time per request in microseconds, with the functions that it calls, by side: of one
    /// variant, or of a variant and its baseline.
    pub(crate) us: [f64; 2],
    pub(crate) calls: BTreeMap<SampledFunction, CallTree>,
}

impl CallTree {
    /// Returns the mean call tree of a service over the trials of a variant; `None` without a
    /// profile.
    pub(crate) fn of_variant(
        experiment: &Experiment,
        service: &str,
        variant: usize,
    ) -> Option<Self> {
        let trials = experiment.trials_of(variant);
        let profiles = trials
            .iter()
            .filter_map(|trial| trial.profiles.get(service));
        let profiles: Vec<&TrialProfile> = profiles.collect();
        let mut tree = CallTree::default();
        for trial in &profiles {
            let profile = &trial.profile;
            let weight: u64 = profile.stacks.iter().map(|(_, weight)| weight).sum();
            let us = trial.us_per_request / profiles.len() as f64 / weight.max(1) as f64;
            for (chain, weight) in &profile.stacks {
                let functions = chain.iter().map(|it| profile.functions.get(*it as usize));
                tree.add(functions.flatten(), us * *weight as f64);
            }
        }
        (!profiles.is_empty()).then_some(tree)
    }

    /// Returns the call tree that compares this one with its baseline.
    pub(crate) fn against(&self, baseline: &CallTree) -> CallTree {
        let mut merged = CallTree {
            us: [self.us[0], baseline.us[0]],
            ..CallTree::default()
        };
        let empty = CallTree::default();
        for function in self.calls.keys().chain(baseline.calls.keys()) {
            if !merged.calls.contains_key(function) {
                let [own, other] =
                    [self, baseline].map(|tree| tree.calls.get(function).unwrap_or(&empty));
                merged.calls.insert(function.clone(), own.against(other));
            }
        }
        merged
    }

    fn add<'a>(&mut self, functions: impl Iterator<Item = &'a SampledFunction>, us: f64) {
        self.us[0] += us;
        let mut tree = self;
        for function in functions {
            if !tree.calls.contains_key(function) {
                tree.calls.insert(function.clone(), CallTree::default());
            }
            let Some(next) = tree.calls.get_mut(function) else {
                return;
            };
            next.us[0] += us;
            tree = next;
        }
    }

    /// Formats the tree as collapsed stacks, which flame graph viewers read: in each line the
    /// functions from the outermost to the innermost, separated by semicolons, and a whole number,
    /// the CPU time in picoseconds per request.
    pub(crate) fn collapsed(&self) -> String {
        let mut out = String::new();
        self.write_collapsed("", &mut out);
        out
    }

    fn write_collapsed(&self, outer: &str, out: &mut String) {
        let called: f64 = self.calls.values().map(|tree| tree.us[0]).sum();
        let own = ((self.us[0] - called) * 1e6).round();
        if own >= 1.0 && !outer.is_empty() {
            // Writing to a string can't fail.
            let _ = writeln!(out, "{outer} {own:.0}");
        }
        for (function, tree) in &self.calls {
            let name = format!("{} ({})", function.name, function.module);
            let name = name.replace([';', '\n', '\r'], "_");
            let stack = match outer {
                "" => name,
                outer => format!("{outer};{name}"),
            };
            tree.write_collapsed(&stack, out);
        }
    }
}

/// Returns the names of all services with a profile.
pub(crate) fn services(experiment: &Experiment) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in experiment
        .trials
        .iter()
        .flat_map(|trial| trial.profiles.keys())
    {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> SampledFunction {
        SampledFunction::new(name, "web")
    }

    fn tree(stacks: &[(&[&str], f64)]) -> CallTree {
        let mut tree = CallTree::default();
        for (chain, us) in stacks {
            let chain: Vec<SampledFunction> = chain.iter().map(|name| function(name)).collect();
            tree.add(chain.iter(), *us);
        }
        tree
    }

    #[test]
    fn collapsed_stacks_have_one_line_per_call_chain() {
        let tree = tree(&[
            (&["main", "work;\nx"], 2.0),
            (&["main"], 1.5),
            (&["main"], 0.5),
        ]);
        assert_eq!(
            tree.collapsed(),
            "main (web) 2000000\nmain (web);work__x (web) 2000000\n"
        );
        assert_eq!(tree.us[0], 4.0);
    }

    #[test]
    fn functions_of_either_side_are_compared() {
        let new = tree(&[(&["main", "work"], 3.0), (&["main", "added"], 1.0)]);
        let old = tree(&[(&["main", "work"], 2.0), (&["removed"], 5.0)]);
        let merged = new.against(&old);
        assert_eq!(merged.us, [4.0, 7.0]);
        let main = &merged.calls[&function("main")];
        assert_eq!(main.us, [4.0, 2.0]);
        assert_eq!(main.calls[&function("added")].us, [1.0, 0.0]);
        assert_eq!(merged.calls[&function("removed")].us, [0.0, 5.0]);
    }
}
