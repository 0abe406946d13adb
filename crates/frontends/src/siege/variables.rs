//! Expands variables (`$NAME`, `$(NAME)` and `${NAME}`) in siege's files.

use std::collections::HashMap;

/// Variables that a file defines. All others are taken from the environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    defined: HashMap<String, String>,
}

/// Text with expanded variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpandedText {
    /// The text after expansion. Undefined variables are replaced with an empty string.
    pub(super) text: String,
    /// Names of all variables in the text.
    pub(super) used: Vec<String>,
    /// Names of the undefined variables in the text.
    pub(super) undefined: Vec<String>,
}

impl Variables {
    /// Defines or redefines a variable.
    pub(super) fn define(&mut self, name: &str, value: &str) {
        self.defined.insert(name.to_owned(), value.to_owned());
    }

    /// Replaces variables with their values. The values themselves are not expanded, because values
    /// from the file were expanded when they were defined.
    pub(super) fn expand(&self, text: &str) -> ExpandedText {
        let mut expanded = ExpandedText {
            text: String::with_capacity(text.len()),
            used: Vec::new(),
            undefined: Vec::new(),
        };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.text.push_str(before);
            let Some((name, left)) = reference(after) else {
                expanded.text.push('$');
                rest = after;
                continue;
            };
            match self.value(name) {
                Some(value) => expanded.text.push_str(&value),
                None => expanded.undefined.push(name.to_owned()),
            }
            expanded.used.push(name.to_owned());
            rest = left;
        }
        expanded.text.push_str(rest);
        expanded
    }

    fn value(&self, name: &str) -> Option<String> {
        self.defined
            .get(name)
            .cloned()
            .or_else(|| std::env::var(name).ok())
    }
}

/// Returns true if `text` is a valid name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(in_name)
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Splits the text after a `$` into the variable's name and the rest.
fn reference(after: &str) -> Option<(&str, &str)> {
    let closing = match after.as_bytes().first()? {
        b'(' => Some(')'),
        b'{' => Some('}'),
        _ => None,
    };
    let (name, rest) = match closing {
        Some(closing) => after[1..].split_once(closing)?,
        None => {
            let end = after.bytes().take_while(|&byte| in_name(byte)).count();
            after.split_at(end)
        }
    };
    is_name(name.trim()).then_some((name.trim(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        let mut variables = Variables::default();
        variables.define("HOST", "a.test:80");
        variables.define("P_1", "/x");
        variables.expand(text).text
    }

    #[test]
    fn all_three_forms_of_a_variable_are_accepted() {
        for (text, is) in [
            ("http://$(HOST)/", "http://a.test:80/"),
            ("http://${HOST}$P_1/y", "http://a.test:80/x/y"),
            ("$HOST$(P_1)", "a.test:80/x"),
            ("no variable", "no variable"),
            ("5 $ and $", "5 $ and $"),
            ("$(HOST", "$(HOST"),
            ("$(not a name)", "$(not a name)"),
        ] {
            assert_eq!(expanded(text), is, "{text}");
        }
    }

    #[test]
    fn undefined_variables_are_empty_and_reported() {
        let expanded = Variables::default().expand("a$(PRONY_NO_SUCH_NAME)b");
        assert_eq!(expanded.text, "ab");
        assert_eq!(expanded.undefined, ["PRONY_NO_SUCH_NAME"]);
    }

    #[test]
    fn variables_take_precedence_over_the_environment() {
        let home = std::env::var("PATH").unwrap();
        let mut variables = Variables::default();
        assert_eq!(variables.expand("$PATH").text, home);
        variables.define("PATH", "mine");
        assert_eq!(variables.expand("$PATH").text, "mine");
    }
}
