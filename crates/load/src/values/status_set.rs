//! Sets of statuses, such as `200-399,404`.

use std::fmt;
use std::str::FromStr;

use prony_record::quantity;

use crate::values::error::SettingsError;

/// A set of statuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// The set of all statuses.
    pub fn all() -> StatusSet {
        StatusSet(vec![(0, u16::MAX)])
    }

    /// Successes and redirects: 200 to 399.
    pub fn success() -> StatusSet {
        StatusSet(vec![(200, 399)])
    }

    /// Successes, redirects and errors of clients: 200 to 499.
    pub(crate) fn below_500() -> StatusSet {
        StatusSet(vec![(200, 499)])
    }

    /// Returns true if `status` belongs to the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|&(first, last)| (first..=last).contains(&status))
    }
}

impl fmt::Display for StatusSet {
    /// Formats the set as it was typed: `200-399,404`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(first, last)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?
            } else {
                write!(f, "{comma}{first}-{last}")?
            }
        }
        Ok(())
    }
}

impl FromStr for StatusSet {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<StatusSet, SettingsError> {
        statuses(text)
    }
}

/// Parses a list of statuses such as `200`, `200,304` or `200-399,404`.
fn statuses(text: &str) -> Result<StatusSet, SettingsError> {
    let expected = || {
        SettingsError::from(format!("\"{text}\" is not a list of statuses"))
            .hint("write it like 200-399,404")
    };
    let ranges = quantity::ranges(text).ok_or_else(expected)?;
    if ranges
        .iter()
        .any(|&(first, last)| first < 100 || last > 999)
    {
        return Err(expected());
    }
    Ok(StatusSet(
        ranges.iter().map(|&(a, b)| (a as u16, b as u16)).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_statuses() {
        let set = statuses("200-299,404").unwrap();
        assert!(set.contains(204) && set.contains(404) && !set.contains(304));
        for bad in ["", "20", "2000", "200-"] {
            assert!(statuses(bad).is_err(), "{bad}");
        }
    }
}
