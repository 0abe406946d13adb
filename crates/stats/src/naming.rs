//! Names of levels and variants in sentences and tables. A level that is clear on its own is shown
//! alone (`unix`), others with their factor (`keepalive = off`, `cores = 1`).

/// Words that are meaningless without their factor's name.
const BARE_WORDS: [&str; 22] = [
    "on", "off", "yes", "no", "true", "false", "enabled", "disabled", "with", "without", "none",
    "some", "all", "default", "auto", "small", "medium", "large", "low", "high", "few", "many",
];

/// Returns true if the levels of a factor are printed together with its name: if any level is a
/// number, a size or a word such as `off`, which could belong to any factor.
pub fn is_named_with_factor<'a>(levels: impl IntoIterator<Item = &'a str>) -> bool {
    levels.into_iter().any(|level| {
        let starts_as_word = level.starts_with(char::is_alphabetic);
        !starts_as_word || BARE_WORDS.contains(&level.to_lowercase().as_str())
    })
}

/// Returns the name of a level in sentences.
pub fn level_name(factor: &str, level: &str, with_factor: bool) -> String {
    if with_factor {
        format!("{factor} = {level}")
    } else {
        level.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_could_be_of_anything_are_named_with_their_factor() {
        for (levels, expected) in [
            (&["tcp", "unix"][..], false),
            (&["on", "off"], true),
            (&["1", "2"], true),
            (&["direct", "1"], true),
            (&["1K", "10K"], true),
            (&["h2", "http/1.1"], false),
        ] {
            assert_eq!(
                is_named_with_factor(levels.iter().copied()),
                expected,
                "{levels:?}"
            );
        }
        assert_eq!(level_name("cores", "1", true), "cores = 1");
    }
}
