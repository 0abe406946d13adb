//! Templates that can be rendered without a rehearsal.
//!
//! The template engine limits neither the size of a value nor the depth of most expressions: a few
//! lines that double a string use all memory, and 20,000 minus signs overflow the stack. Both end
//! the process. So the machine renders every template that isn't plain in a child process first.

use super::expression::is_template;

/// Maximum length of a template that can be rendered without a rehearsal.
const PLAIN_LENGTH_MAX: usize = 1024;

/// Maximum number of names in a tag of a template that needs no rehearsal (`{{ a.b.c }}`).
const PLAIN_NAMES_MAX: usize = 8;

/// Returns true if a template only inserts values by their names, so that its result can't be much
/// larger than the template and the values.
pub(super) fn is_plain(text: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_plain_tag = |tag: &str| {
        tag.split_once("}}").is_some_and(|(path, rest)| {
            path.trim().split('.').all(is_name)
                && path.split('.').count() <= PLAIN_NAMES_MAX
                && !is_template(rest)
        })
    };
    let mut parts = text.split("{{");
    let before = parts.next().unwrap_or_default();
    text.len() <= PLAIN_LENGTH_MAX && !is_template(before) && parts.all(is_plain_tag)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_templates_that_insert_values_are_plain() {
        for plain in [
            "{{ web.address }}",
            "--bind={{web.host}}:{{ web.port }}",
            "a",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        let long = format!("{{{{ {} }}}}", "a".repeat(2000));
        let deep = format!("{{{{ a{} }}}}", ".b".repeat(100));
        for other in [
            &long,
            &deep,
            "{{ a ~ a }}",
            "{{ a|upper }}",
            "{{ a }}{% set a = 1 %}",
            "{# x #}{{ a }}",
            "{{ f() }}",
        ] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
