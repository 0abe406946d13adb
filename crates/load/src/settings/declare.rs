//! The macro that declares the table of all settings.

/// Declares [`LoadSettings`] and its table: groups with their settings, and for each setting its
/// field, kind and meaning, and what else [`Setting`] has.
macro_rules! settings {
    ($($group:literal {
        $($key:ident: $type:ty = $kind:expr, $meaning:literal
            $(, $property:ident($($value:expr),*))*;)*
    })*) => {
        /// The settings of a load that were given.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct LoadSettings {
            $($(#[doc = $meaning] pub $key: $type,)*)*
        }

        impl LoadSettings {
            /// Declarations of all settings, in the order of the fields.
            pub const TABLE: &[Setting] = &[$($({
                Setting::new(stringify!($key), $group, $kind, $meaning)
                    $(.$property($($value),*))*
            },)*)*];

            /// The keys of all settings, in the order of the fields.
            pub const KEYS: &[&str] = &[$($(stringify!($key),)*)*];

            pub(super) fn fields(&self) -> [&dyn $crate::settings::field::Field; LoadSettings::KEYS.len()] {
                [$($(&self.$key,)*)*]
            }

            pub(super) fn field(&mut self, key: &str) -> Option<&mut dyn $crate::settings::field::Field> {
                match key {
                    $($(stringify!($key) => Some(&mut self.$key),)*)*
                    _ => None,
                }
            }
        }
    };
}

pub(super) use settings;
