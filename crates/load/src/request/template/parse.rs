//! Parser for text with placeholders.
//!
//! ```text
//! placeholder = "{{" ( name | call | quoted ) [ "|" filter ] "}}"
//! call        = "random" "(" integer "," integer ")"
//! quoted      = "'" text "'" | '"' text '"'
//! filter      = "raw" | "url" | "json"
//! ```

use crate::values::placeholder::{is_quote, placeholder_length};
use std::borrow::Cow;
use std::fmt;

use prony_record::truncated;

/// Hint for text that contains literal braces.
const LITERAL_HINT: &str = "write {{ \"{{\" }} for two braces";

/// One piece of text that may contain placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPiece {
    /// Text that is sent unchanged.
    Literal(String),
    /// A placeholder, which is replaced by a value.
    Placeholder(Placeholder),
}

/// A parsed placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// The text between the braces, without leading and trailing whitespace.
    pub(crate) source: String,
    /// The expression before the filter.
    pub(crate) function: Function,
    /// The encoding of the value, if the placeholder has a filter.
    pub(crate) filter: Option<Filter>,
}

/// The expression of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Function {
    /// A column, or a function without arguments.
    Name(String),
    /// A random integer from `first` to `last`.
    Random { first: i64, last: i64 },
}

/// Encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Filter {
    /// The value is inserted unchanged.
    Raw,
    /// The value is percent-encoded.
    Url,
    /// The value is escaped for a JSON string.
    Json,
}

impl Filter {
    const ALL: [(&str, Filter); 3] = [
        ("raw", Filter::Raw),
        ("url", Filter::Url),
        ("json", Filter::Json),
    ];
}

/// Names of the filters.
pub fn request_filters() -> impl Iterator<Item = &'static str> {
    Filter::ALL.iter().map(|(name, _)| *name)
}

/// Returns the placeholder of an expression, which the load replaces with a value for each request.
pub fn placeholder(expression: &str) -> String {
    format!("{{{{ {expression} }}}}")
}

/// Returns a text as a template that stands for itself.
pub fn literal(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// Adds a filter to a text that is one placeholder without a filter. Returns `None` for any other
/// text.
pub fn with_filter(text: &str, filter: &str) -> Option<String> {
    match &parse_pieces(text).ok()?[..] {
        [TextPiece::Placeholder(only)] if only.filter.is_none() => {
            Some(placeholder(&format!("{} | {filter}", only.source)))
        }
        _ => None,
    }
}

/// Reason why text with placeholders is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateError(pub(crate) String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits `text` into its pieces. Quoted text belongs to the literal pieces, so text without
/// placeholders is a single piece, or no piece if it is empty.
///
/// # Errors
///
/// An error that names the placeholder that is not closed or not valid, with a hint.
pub(crate) fn parse_pieces(text: &str) -> Result<Vec<TextPiece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        literal += &rest[..at];
        let opened = &rest[at..];
        let Some(length) = placeholder_length(opened) else {
            return Err(TemplateError(format!(
                "\"{}\" is not closed; end it with }}}}, or {LITERAL_HINT}",
                shortened(opened)
            )));
        };
        let source = opened[2..length - 2].trim();
        match expression(source)? {
            Expression::Quoted(quoted) => literal += quoted,
            Expression::Value(function, filter) => {
                if !literal.is_empty() {
                    pieces.push(TextPiece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(TextPiece::Placeholder(Placeholder {
                    source: source.to_owned(),
                    function,
                    filter,
                }));
            }
        }
        rest = &opened[length..];
    }
    literal += rest;
    if !literal.is_empty() {
        pieces.push(TextPiece::Literal(literal));
    }
    Ok(pieces)
}

enum Expression<'a> {
    Quoted(&'a str),
    Value(Function, Option<Filter>),
}

fn expression(source: &str) -> Result<Expression<'_>, TemplateError> {
    if let Some(quote) = source.chars().next().filter(|&c| is_quote(c)) {
        let quoted = source[1..]
            .strip_suffix(quote)
            .filter(|it| !it.contains(quote));
        return quoted
            .map(Expression::Quoted)
            .ok_or_else(|| error(source, "quoted text can't have a filter"));
    }
    let (value, filter) = match source.split_once('|') {
        Some((value, filter)) => (value.trim(), Some(named_filter(source, filter.trim())?)),
        None => (source, None),
    };
    if value.is_empty() {
        return Err(error(
            source,
            &format!("name a value between the braces, or {LITERAL_HINT}"),
        ));
    }
    if let Some((name, arguments)) = value.split_once('(') {
        return call(source, name.trim(), arguments).map(|call| Expression::Value(call, filter));
    }
    if value.contains(['{', '}', ')', '"']) {
        let hint = format!("write a column's name, seq, uuid or random(a, b), or {LITERAL_HINT}");
        return Err(error(source, &hint));
    }
    Ok(Expression::Value(Function::Name(value.to_owned()), filter))
}

fn named_filter(source: &str, name: &str) -> Result<Filter, TemplateError> {
    let found = Filter::ALL.iter().find(|(own, _)| *own == name);
    let hint = || error(source, "valid filters are raw, url and json");
    found.map(|(_, filter)| *filter).ok_or_else(hint)
}

fn call(source: &str, name: &str, arguments: &str) -> Result<Function, TemplateError> {
    if name != "random" {
        return Err(error(
            source,
            "the only function with arguments is random(a, b)",
        ));
    }
    let numbers = || {
        let (first, last) = arguments.trim_end().strip_suffix(')')?.split_once(',')?;
        let first: i64 = first.trim().parse().ok()?;
        let last: i64 = last.trim().parse().ok()?;
        (first <= last).then_some(Function::Random { first, last })
    };
    numbers().ok_or_else(|| {
        error(
            source,
            "write two integers, the lower one first: random(1, 1000)",
        )
    })
}

fn error(source: &str, hint: &str) -> TemplateError {
    TemplateError(format!("{{{{ {} }}}}: {hint}", shortened(source)))
}

/// Maximum number of characters of the invalid text that an error shows.
const SHOWN_CHARS_MAX: usize = 41;

fn shortened(text: &str) -> Cow<'_, str> {
    truncated(text.lines().next().unwrap_or_default(), SHOWN_CHARS_MAX)
}
