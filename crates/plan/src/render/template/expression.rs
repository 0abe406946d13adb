//! Detection of templates in strings.

/// Returns true if a string contains a template.
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns the expression of a string that consists of one `{{ … }}`.
pub(super) fn whole_expression(text: &str) -> Option<&str> {
    let expression = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let has_trim_mark = expression.starts_with(['-', '+']);
    (!has_trim_mark && has_balanced_brackets(expression)).then_some(expression)
}

/// Returns true if the brackets outside quotes are balanced. In `a }}-{{ b`, they are not.
///
/// The check is necessary because the template engine panics on text after the end of an
/// expression.
fn has_balanced_brackets(expression: &str) -> bool {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for c in expression.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}
