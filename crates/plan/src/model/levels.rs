//! A selection of levels for some or all factors.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Pairs of a factor and its selected level, by name, in the plan's order of factors. Factors
/// without a selected level are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LevelSelection(pub(super) Vec<(String, String)>);

impl LevelSelection {
    /// Returns the selected level of a factor; `None` if none is selected.
    pub fn get(&self, factor: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == factor)
            .map(|(_, level)| level.as_str())
    }

    /// Iterates over the pairs of a factor and its level, in the plan's order of factors.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(factor, level)| (factor.as_str(), level.as_str()))
    }

    /// Returns the number of factors with a selected level.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no factor has a selected level.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for LevelSelection {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for LevelSelection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (factor, level) in &self.0 {
            map.serialize_entry(factor, level)?;
        }
        map.end()
    }
}
