//! Names of services on a host that runs the services of several variants.

/// Name of a service on a host that runs services of several variants, such as `web@2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopedName(pub(super) String);

impl ScopedName {
    /// Builds the name of a variant's service. `variant` is the variant's index in the plan.
    pub(super) fn new(service: &str, variant: usize) -> ScopedName {
        ScopedName(format!("{service}@{variant}"))
    }

    /// Returns the service's name in the plan and the index of the variant; `None` if the name has
    /// no variant.
    pub(super) fn parse(name: &str) -> Option<(&str, usize)> {
        let (service, variant) = name.rsplit_once('@')?;
        Some((service, variant.parse().ok()?))
    }
}
