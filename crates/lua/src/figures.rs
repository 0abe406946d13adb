//! Provides statistics to the function `done` of a script.

use mlua::{MetaMethod, UserData, UserDataFields, UserDataMethods};

use crate::statistics::Statistics;

/// Latencies in microseconds, or requests per second.
pub(crate) struct FiguresObject(pub(crate) Statistics);

impl UserData for FiguresObject {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, figures| Ok(figures.0.min()));
        fields.add_field_method_get("max", |_, figures| Ok(figures.0.max()));
        fields.add_field_method_get("mean", |_, figures| Ok(figures.0.mean()));
        fields.add_field_method_get("stdev", |_, figures| Ok(figures.0.stdev()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, figures, percent: f64| {
            Ok(figures.0.percentile(percent))
        });
        methods.add_meta_method(MetaMethod::Len, |_, figures, ()| Ok(figures.0.distinct()));
        // Indexes start at 1. For an index beyond the end, the result is (0, 0).
        methods.add_meta_method(MetaMethod::Call, |_, figures, index: usize| {
            let found = index.checked_sub(1).and_then(|index| figures.0.at(index));
            Ok(found.unwrap_or((0, 0)))
        });
    }
}
