//! Finds a field in JSON that arrives in pieces, without keeping the JSON.

use std::fmt;
use std::sync::Arc;

/// Maximum number of keys in a path, and of nested arrays and objects in JSON.
const DEPTH_MAX: u32 = 64;

/// Path of a field in JSON: keys of objects and indices of arrays, separated by dots, such as
/// `choices.0.delta.content`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(Arc<[PathSegment]>);

#[derive(Debug, PartialEq, Eq)]
struct PathSegment {
    key: Box<[u8]>,
    /// The segment as an index, if it is a number.
    index: Option<u64>,
}

/// Reason why a text isn't the path of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPathError {
    /// The path, or one of its keys, is empty.
    EmptyKey,
    /// The path has more than 64 keys.
    TooLong,
}

impl fmt::Display for FieldPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPathError::EmptyKey => f.write_str("has an empty key"),
            FieldPathError::TooLong => write!(f, "has more than {DEPTH_MAX} keys"),
        }
    }
}

impl std::error::Error for FieldPathError {}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// A key is empty, or there are too many.
    pub fn parse(text: &str) -> Result<FieldPath, FieldPathError> {
        let segments: Vec<PathSegment> = text
            .split('.')
            .map(|key| PathSegment {
                key: key.as_bytes().into(),
                index: key.parse().ok(),
            })
            .collect();
        if segments.iter().any(|segment| segment.key.is_empty()) {
            return Err(FieldPathError::EmptyKey);
        }
        if segments.len() > DEPTH_MAX as usize {
            return Err(FieldPathError::TooLong);
        }
        Ok(FieldPath(segments.into()))
    }
}

/// A field that was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FoundField {
    /// Number of Unicode characters, if the field is a string.
    pub(super) chars: u64,
}

/// Reads one JSON value, and finds out if it has a field whose value is neither `null` nor an empty
/// string.
#[derive(Debug)]
pub(super) struct FieldReader {
    path: FieldPath,
    at: JsonPosition,
    /// Number of open arrays and objects.
    depth: u32,
    /// A bit for each open container, the outermost first: 1 for an array.
    arrays: u64,
    /// Number of open containers, from the outermost on, that are on the path.
    on_path: u32,
    /// Index of the current element, if the innermost container is an array on the path.
    index: u64,
    /// True if the next value is the one that the path leads to next.
    is_next_on_path: bool,
    /// True once a container or value on the path has ended, so the field can't follow.
    is_past: bool,
    found: Option<FoundField>,
}

/// Position in the JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonPosition {
    /// Before a value. An array may also end if it is empty.
    Value {
        may_end: bool,
    },
    /// Before a key. An object may also end if it is empty.
    Key {
        may_end: bool,
    },
    /// Within a string.
    String(StringRole, StringPosition),
    Colon,
    /// Within a number or literal.
    Scalar {
        is_field: bool,
        literal: Literal,
    },
    /// After a value.
    After,
    /// The text isn't JSON, or nested too deeply.
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringRole {
    /// A key of which this number of bytes equals the path's next key; `None` if they differ.
    Key(Option<u32>),
    /// The value of the field.
    Field,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringPosition {
    Plain,
    Escape,
    /// Within the digits after `\u`.
    Unicode {
        digits: u8,
        value: u16,
    },
}

/// The literal that a scalar has been equal to so far, with the number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    Null(u8),
    True(u8),
    False(u8),
    Number,
}

impl Literal {
    fn beginning(byte: u8) -> Option<Literal> {
        Some(match byte {
            b'n' => Literal::Null(1),
            b't' => Literal::True(1),
            b'f' => Literal::False(1),
            b'-' | b'0'..=b'9' => Literal::Number,
            _ => return None,
        })
    }

    fn next(self, byte: u8) -> Option<Literal> {
        let is = |text: &[u8], at: u8| text.get(usize::from(at)) == Some(&byte);
        match self {
            Literal::Null(at) => is(b"null", at).then_some(Literal::Null(at + 1)),
            Literal::True(at) => is(b"true", at).then_some(Literal::True(at + 1)),
            Literal::False(at) => is(b"false", at).then_some(Literal::False(at + 1)),
            Literal::Number => {
                let is_part =
                    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
                is_part.then_some(self)
            }
        }
    }

    fn is_complete(self) -> bool {
        matches!(
            self,
            Literal::Null(4) | Literal::True(4) | Literal::False(5) | Literal::Number
        )
    }
}

impl FieldReader {
    pub(super) fn new(path: FieldPath) -> FieldReader {
        FieldReader {
            path,
            at: JsonPosition::Value { may_end: false },
            depth: 0,
            arrays: 0,
            on_path: 0,
            index: 0,
            is_next_on_path: true,
            is_past: false,
            found: None,
        }
    }

    /// Ends the text. Returns the field if the text was one JSON value that has it. The reader then
    /// begins another text.
    pub(super) fn finish(&mut self) -> Option<FoundField> {
        // A number at the top has no end of its own.
        self.byte(b' ');
        let is_whole = self.at == JsonPosition::After && self.depth == 0;
        let found = self.found.filter(|_| is_whole);
        *self = FieldReader::new(self.path.clone());
        found
    }

    /// Adds a part of the text.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.at == JsonPosition::Invalid {
                return;
            }
            self.byte(byte);
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.at = match self.at {
            JsonPosition::String(role, position) => self.in_string(role, position, byte),
            JsonPosition::Scalar { is_field, literal } => match literal.next(byte) {
                Some(literal) => JsonPosition::Scalar { is_field, literal },
                None if literal.is_complete() => {
                    if is_field && literal != Literal::Null(4) {
                        self.found = Some(FoundField::default());
                    }
                    self.end_value();
                    self.at = JsonPosition::After;
                    self.between(byte)
                }
                None => JsonPosition::Invalid,
            },
            _ => self.between(byte),
        };
    }

    /// Handles a byte outside of strings and scalars.
    fn between(&mut self, byte: u8) -> JsonPosition {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return self.at;
        }
        match (self.at, byte) {
            (JsonPosition::Value { .. }, b'"') => {
                let role = if self.is_field() {
                    self.found = None;
                    StringRole::Field
                } else {
                    StringRole::Other
                };
                JsonPosition::String(role, StringPosition::Plain)
            }
            (JsonPosition::Value { .. }, b'{') => self.open(false),
            (JsonPosition::Value { .. }, b'[') => self.open(true),
            (JsonPosition::Value { may_end: true }, b']') => self.close(true),
            (JsonPosition::Value { .. }, _) => match Literal::beginning(byte) {
                Some(literal) => JsonPosition::Scalar {
                    is_field: self.is_field(),
                    literal,
                },
                None => JsonPosition::Invalid,
            },
            (JsonPosition::Key { .. }, b'"') => {
                let is_candidate = self.is_within_path() && !self.is_past;
                let role = StringRole::Key(is_candidate.then_some(0));
                JsonPosition::String(role, StringPosition::Plain)
            }
            (JsonPosition::Key { may_end: true }, b'}') => self.close(false),
            (JsonPosition::Colon, b':') => JsonPosition::Value { may_end: false },
            (JsonPosition::After, b',') if self.depth > 0 => self.next_element(),
            (JsonPosition::After, b']') => self.close(true),
            (JsonPosition::After, b'}') => self.close(false),
            _ => JsonPosition::Invalid,
        }
    }

    fn in_string(&mut self, role: StringRole, position: StringPosition, byte: u8) -> JsonPosition {
        let role = match role {
            StringRole::Key(equal) if byte != b'"' || position != StringPosition::Plain => {
                // A key with an escape never equals the path's.
                let expected = self.next_segment();
                let expected = expected.map_or(&[][..], |segment| &segment.key);
                let is_equal =
                    |at: &u32| expected.get(*at as usize) == Some(&byte) && byte != b'\\';
                StringRole::Key(equal.filter(is_equal).map(|at| at + 1))
            }
            role => role,
        };
        let position = match (position, byte) {
            (StringPosition::Plain, b'"') => return self.end_string(role),
            (StringPosition::Plain, b'\\') => StringPosition::Escape,
            (StringPosition::Plain, ..0x20) => return JsonPosition::Invalid,
            (StringPosition::Plain, _) => {
                // The bytes after the first one of a character are 10xxxxxx in UTF-8.
                self.add_char(role, byte & 0xc0 != 0x80);
                position
            }
            (StringPosition::Escape, b'u') => StringPosition::Unicode {
                digits: 0,
                value: 0,
            },
            (StringPosition::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.add_char(role, true);
                StringPosition::Plain
            }
            (StringPosition::Escape, _) => return JsonPosition::Invalid,
            (StringPosition::Unicode { digits, value }, _) => {
                let Some(digit) = char::from(byte).to_digit(16) else {
                    return JsonPosition::Invalid;
                };
                let value = value << 4 | digit as u16;
                if digits < 3 {
                    let digits = digits + 1;
                    StringPosition::Unicode { digits, value }
                } else {
                    // The second half of a surrogate pair belongs to the character of the first.
                    self.add_char(role, !(0xdc00..0xe000).contains(&value));
                    StringPosition::Plain
                }
            }
        };
        JsonPosition::String(role, position)
    }

    #[inline]
    fn add_char(&mut self, role: StringRole, is_char: bool) {
        if role == StringRole::Field && is_char {
            self.found.get_or_insert_default().chars += 1;
        }
    }

    fn end_string(&mut self, role: StringRole) -> JsonPosition {
        if let StringRole::Key(equal) = role {
            let expected = self.next_segment();
            let length = expected.map(|segment| segment.key.len() as u32);
            self.is_next_on_path = equal.is_some() && equal == length;
            return JsonPosition::Colon;
        }
        self.end_value();
        JsonPosition::After
    }

    /// Returns the segment that leads on from the innermost container on the path.
    fn next_segment(&self) -> Option<&PathSegment> {
        self.path.0.get((self.on_path as usize).checked_sub(1)?)
    }

    /// Returns true if the innermost container is on the path.
    fn is_within_path(&self) -> bool {
        self.on_path == self.depth
    }

    /// Returns true if the next value is the field.
    fn is_field(&self) -> bool {
        self.is_next_on_path
            && !self.is_past
            && self.is_within_path()
            && self.depth as usize == self.path.0.len()
    }

    fn open(&mut self, is_array: bool) -> JsonPosition {
        if self.depth == DEPTH_MAX {
            return JsonPosition::Invalid;
        }
        if self.is_field() {
            self.found = Some(FoundField::default());
            self.is_past = true;
        }
        let is_on_path = self.is_next_on_path && !self.is_past && self.is_within_path();
        self.arrays = self.arrays << 1 | u64::from(is_array);
        self.depth += 1;
        if is_on_path {
            self.on_path = self.depth;
        }
        if is_array {
            self.index = 0;
            self.choose_element(is_on_path);
            JsonPosition::Value { may_end: true }
        } else {
            self.is_next_on_path = false;
            JsonPosition::Key { may_end: true }
        }
    }

    fn choose_element(&mut self, is_on_path: bool) {
        let wanted = self.next_segment().and_then(|segment| segment.index);
        self.is_next_on_path = is_on_path && wanted == Some(self.index);
    }

    fn close(&mut self, is_array: bool) -> JsonPosition {
        if self.depth == 0 || (self.arrays & 1 == 1) != is_array {
            return JsonPosition::Invalid;
        }
        if self.is_within_path() {
            self.on_path -= 1;
            self.is_past = true;
        }
        self.depth -= 1;
        self.arrays >>= 1;
        JsonPosition::After
    }

    fn next_element(&mut self) -> JsonPosition {
        if self.arrays & 1 == 0 {
            self.is_next_on_path = false;
            return JsonPosition::Key { may_end: false };
        }
        let is_on_path = self.is_within_path() && !self.is_past;
        if is_on_path {
            self.index += 1;
        }
        self.choose_element(is_on_path);
        JsonPosition::Value { may_end: false }
    }

    /// Ends a string or scalar. The field can't follow the value that the path leads to.
    fn end_value(&mut self) {
        self.is_past |= self.is_next_on_path && self.is_within_path();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the text in pieces of each size, which must not change the result.
    fn found(path: &str, text: &str) -> Option<u64> {
        let read = |piece: usize| {
            let mut reader = FieldReader::new(FieldPath::parse(path).unwrap());
            // The reader must be as new after another text.
            for _ in 0..2 {
                reader.read(b"{\"a\":[");
                reader.finish();
            }
            text.as_bytes().chunks(piece).for_each(|it| reader.read(it));
            reader.finish().map(|found| found.chars)
        };
        let whole = read(text.len().max(1));
        for piece in [1, 2, 3, 7] {
            assert_eq!(read(piece), whole, "{text} in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn a_field_is_found_where_the_path_leads() {
        let path = "choices.0.delta.content";
        for (text, chars) in [
            (r#"{"choices":[{"delta":{"content":"Hi"}}]}"#, Some(2)),
            (
                r#" { "id" : 1 , "choices" : [ { "index":0, "delta" : { "role":"a", "content" : "Hi there" } } ] } "#,
                Some(8),
            ),
            (r#"{"choices":[{"delta":{"content":""}}]}"#, None),
            (r#"{"choices":[{"delta":{"content":null}}]}"#, None),
            (r#"{"choices":[{"delta":{"content":0}}]}"#, Some(0)),
            (
                r#"{"choices":[{"delta":{"content":{"content":"x"}}}]}"#,
                Some(0),
            ),
            (r#"{"choices":[{"delta":{"content":[]}}]}"#, Some(0)),
            (
                r#"{"choices":[{"delta":{}},{"delta":{"content":"no"}}]}"#,
                None,
            ),
            (r#"{"choices":[],"content":"no"}"#, None),
            (r#"{"choices":[[{"delta":{"content":"no"}}]]}"#, None),
            (r#"{"x":{"choices":[{"delta":{"content":"no"}}]}}"#, None),
            (
                r#"{"choice":1,"choicess":2,"choices":[{"delta":{"content":"abc"}}]}"#,
                Some(3),
            ),
            (
                r#"{"choices":[{"x":[1,{"delta":2}],"delta":{"y":{},"content":"abcd"}}]}"#,
                Some(4),
            ),
            (
                r#"{"choices":{"0":{"delta":{"content":"object"}}}}"#,
                Some(6),
            ),
            (
                r#"{"choices":[{"delta":{"content":"é\n\"\u00e9\ud83d\ude00😀"}}]}"#,
                Some(6),
            ),
        ] {
            assert_eq!(found(path, text), chars, "{text}");
        }
        assert_eq!(found("1", "[1,2]"), Some(0));
        assert_eq!(found("1", "[1]"), None);
        assert_eq!(found("a", r#"{"a":true}"#), Some(0));
        assert_eq!(found("a", r#"{"a":false,"b":-1.5e+3}"#), Some(0));
    }

    #[test]
    fn a_text_that_is_not_json_has_no_field() {
        for text in [
            "",
            "x",
            "[DONE]",
            "{",
            r#"{"a":"x""#,
            r#"{"a":"x"}}"#,
            r#"{"a":"x"} y"#,
            r#"{"a":"x",}"#,
            r#"{"a":"x"]"#,
            r#"{"a" "x"}"#,
            r#"{a:"x"}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":nul}"#,
            r#"{"a":"x","b":tru }"#,
            "{\"a\":\"\n\"}",
            r#"{"a":"x","b":}"#,
            r#"{,"a":"x"}"#,
        ] {
            assert_eq!(found("a", text), None, "{text}");
        }
        let deep = format!(r#"{{"a":"x","b":{}{}}}"#, "[".repeat(64), "]".repeat(64));
        assert_eq!(found("a", &deep), None, "nested too deeply");
        let deep = format!(r#"{{"a":"x","b":{}{}}}"#, "[".repeat(63), "]".repeat(63));
        assert_eq!(found("a", &deep), Some(1));
    }

    #[test]
    fn paths_without_meaning_are_rejected() {
        for text in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(
                FieldPath::parse(text),
                Err(FieldPathError::EmptyKey),
                "{text}"
            );
        }
        let long = vec!["a"; 65].join(".");
        assert_eq!(FieldPath::parse(&long), Err(FieldPathError::TooLong));
    }
}
