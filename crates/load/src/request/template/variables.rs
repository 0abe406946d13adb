//! Variables of a journey: values that a step captures and later steps insert.

use super::data::{ValuePlace, append_encoded};
use super::parse::Filter;

/// A use of a variable in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VariableUse {
    /// Index of the variable.
    pub(crate) index: usize,
    pub(super) filter: Filter,
    pub(super) place: ValuePlace,
}

impl VariableUse {
    pub(super) fn new(index: usize, filter: Option<Filter>, place: ValuePlace) -> VariableUse {
        VariableUse {
            index,
            filter: filter.unwrap_or(place.default_filter()),
            place,
        }
    }

    /// Appends a value as this use encodes it.
    #[inline]
    pub(super) fn write(self, value: &[u8], out: &mut Vec<u8>) {
        match (self.filter, std::str::from_utf8(value)) {
            (Filter::Raw, _) | (_, Err(_)) => out.extend_from_slice(value),
            (filter, Ok(text)) => append_encoded(text, filter, out),
        }
    }
}

/// A variable: the parts of requests in which it is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variable {
    uses: Vec<VariableUse>,
}

impl Variable {
    pub(crate) fn note_use(&mut self, used: VariableUse) {
        if !self.uses.contains(&used) {
            self.uses.push(used);
        }
    }

    /// Checks that a value can be used wherever the variable is.
    ///
    /// # Errors
    ///
    /// The rest of a sentence that begins with the value.
    pub(crate) fn check(&self, value: &[u8]) -> Result<(), &'static str> {
        for used in &self.uses {
            // A body takes any bytes.
            if used.place == ValuePlace::Body {
                continue;
            }
            let mut encoded = Vec::new();
            used.write(value, &mut encoded);
            used.place.check(&encoded)?;
        }
        Ok(())
    }
}

/// Values of a user's variables, by index.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VariableValues<'a>(pub(crate) &'a [VariableValue]);

/// Value of a variable; `None` if no step has captured it.
pub(crate) type VariableValue = Option<Box<[u8]>>;

impl<'a> VariableValues<'a> {
    /// The value of a variable; empty if it has none.
    #[inline]
    pub(crate) fn get(self, index: usize) -> &'a [u8] {
        self.0
            .get(index)
            .and_then(Option::as_deref)
            .unwrap_or_default()
    }

    /// Returns true if the variable has a value, which may be empty.
    #[inline]
    pub(crate) fn has(self, index: usize) -> bool {
        self.0.get(index).is_some_and(Option::is_some)
    }
}
