//! The rendered variants of a plan, for sentences about them.

use prony_plan::{Plan, ResolvedVariant};

/// The rendered variants of a plan, with their names.
#[derive(Clone, Copy)]
pub(super) struct NamedVariants<'a> {
    pub(super) plan: &'a Plan,
    pub(super) variants: &'a [ResolvedVariant],
}

impl<'a> NamedVariants<'a> {
    /// Names a variant by its levels, in quotes.
    pub(super) fn name(self, index: usize) -> String {
        let levels = self.plan.variants[index].levels.iter();
        let levels: Vec<&str> = levels.map(|(_, level)| level).collect();
        format!("variant \"{}\"", levels.join(" "))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = (usize, &'a ResolvedVariant)> {
        self.variants.iter().enumerate()
    }

    /// Returns the subject of a sentence about the loads for which `holds` is true: "the load" if
    /// it is true for all of them, and otherwise the load of the first such variant. Returns `None`
    /// if there is none.
    pub(super) fn loads(self, holds: impl Fn(&ResolvedVariant) -> bool) -> Option<String> {
        let (first, _) = self.iter().find(|(_, variant)| holds(variant))?;
        Some(if self.variants.iter().all(holds) {
            "the load".to_owned()
        } else {
            format!("the load of {}", self.name(first))
        })
    }
}
