//! Fields of a multipart form (RFC 7578), written as for curl's `-F`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::values::error::SettingsError;
use crate::values::input_file::{self, DATA_BYTES_MAX};
use prony_record::random_at;

/// Media types of files by the extension of their names; those that curl knows.
const TYPES_BY_EXTENSION: &[(&str, &str)] = &[
    ("gif", "image/gif"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("pdf", "application/pdf"),
    ("xml", "application/xml"),
];
/// Media type of a file whose extension says nothing.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// A field of a form: `NAME=VALUE`, `NAME=@FILE` (an upload) or `NAME=<FILE` (a file's content as
/// value), optionally followed by `;type=TYPE` and `;filename=NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormField {
    name: String,
    content: FieldContent,
    media_type: Option<String>,
    filename: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldContent {
    Text(String),
    Upload(PathBuf),
    FileText(PathBuf),
}

/// A piece of a request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyPiece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_from_file: bool,
}

/// A form as a body, with the Content-Type header that describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedForm {
    pub(crate) boundary: String,
    pub(crate) pieces: Vec<BodyPiece>,
}

impl FormField {
    /// Creates a field whose value is `value`, in which no character has a special meaning.
    pub fn text(name: &str, value: &str) -> FormField {
        FormField {
            name: name.to_owned(),
            content: FieldContent::Text(value.to_owned()),
            media_type: None,
            filename: None,
        }
    }

    /// The file that the field reads.
    pub fn file(&self) -> Option<&PathBuf> {
        match &self.content {
            FieldContent::Text(_) => None,
            FieldContent::Upload(path) | FieldContent::FileText(path) => Some(path),
        }
    }

    /// Replaces the path of the field's file. The name under which it is uploaded doesn't change.
    pub fn set_file(&mut self, to: PathBuf) {
        if let FieldContent::Upload(path) = &self.content {
            self.filename = Some(self.filename.clone().unwrap_or_else(|| base_name(path)));
            let guessed = media_type(path);
            self.media_type.get_or_insert_with(|| guessed.to_owned());
        }
        match &mut self.content {
            FieldContent::Text(_) => {}
            FieldContent::Upload(path) | FieldContent::FileText(path) => *path = to,
        }
    }

    fn headers(&self) -> String {
        let mut headers = format!(
            "Content-Disposition: form-data; name=\"{}\"",
            escaped(&self.name)
        );
        let (filename, guessed) = match &self.content {
            FieldContent::Upload(path) => (Some(base_name(path)), Some(media_type(path))),
            FieldContent::Text(_) | FieldContent::FileText(_) => (None, None),
        };
        if let Some(filename) = self.filename.as_ref().or(filename.as_ref()) {
            headers += &format!("; filename=\"{}\"", escaped(filename));
        }
        if let Some(media_type) = self.media_type.as_deref().or(guessed) {
            headers += &format!("\r\nContent-Type: {media_type}");
        }
        headers
    }
}

impl FromStr for FormField {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<FormField, SettingsError> {
        let expected = || {
            SettingsError::from(format!("\"{text}\" is not a form field")).hint(
                "write NAME=VALUE, NAME=@FILE or NAME=<FILE, with ;type=TYPE or ;filename=NAME \
                 after it if needed",
            )
        };
        let wrong = |error: SettingsError| error.at(format!("\"{text}\""));
        let (name, rest) = text.split_once('=').ok_or_else(expected)?;
        if name.is_empty() {
            return Err(expected());
        }
        let (sign, rest) = match rest.chars().next() {
            Some(sign @ ('@' | '<')) => (Some(sign), &rest[1..]),
            _ => (None, rest),
        };
        let (value, mut rest) = word(rest);
        if sign.is_some() && value.is_empty() {
            return Err(wrong("the name of the file is missing".into()));
        }
        if sign.is_some() && value == "-" {
            let error = SettingsError::from("standard input can't be a form field");
            return Err(wrong(error.hint("save it to a file")));
        }
        let mut field = FormField {
            name: name.to_owned(),
            content: match sign {
                Some('@') => FieldContent::Upload(value.into()),
                Some(_) => FieldContent::FileText(value.into()),
                None => FieldContent::Text(value),
            },
            media_type: None,
            filename: None,
        };
        let mut is_after_type = false;
        while let Some(attribute) = rest.strip_prefix(';') {
            let (key, after) = attribute.split_once('=').unwrap_or((attribute, ""));
            let (value, after) = word(after);
            let key = key.trim();
            match (key.to_ascii_lowercase().as_str(), &mut field.media_type) {
                ("type", media_type) => *media_type = Some(value.trim().to_owned()),
                ("filename", _) => field.filename = Some(value),
                ("headers" | "encoder", _) => {
                    return Err(wrong(format!(";{key}= is not supported").into()));
                }
                // A parameter of the type, such as `charset=utf-8`.
                (_, Some(media_type)) if is_after_type && !value.is_empty() => {
                    *media_type += &format!(";{key}={}", value.trim());
                }
                _ => {
                    let error = SettingsError::from(format!("\";{key}\" is not known"));
                    return Err(wrong(error.hint(format!(
                        "if the semicolon belongs to the value, put double quotes around it: \
                         {name}=\"…;…\""
                    ))));
                }
            }
            is_after_type = key != "filename";
            rest = after;
        }
        let media_type = field.media_type.as_deref().unwrap_or("a/b");
        if !media_type.contains('/') || media_type.contains(char::is_control) {
            let error = format!("\"{media_type}\" is not a media type, such as image/png");
            return Err(wrong(error.into()));
        }
        Ok(field)
    }
}

/// Writes the field so that it can be parsed again.
impl fmt::Display for FormField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, value) = match &self.content {
            FieldContent::Text(text) => ("", text.clone()),
            FieldContent::Upload(path) => ("@", path.to_string_lossy().into_owned()),
            FieldContent::FileText(path) => ("<", path.to_string_lossy().into_owned()),
        };
        write!(f, "{}={sign}{}", self.name, quoted(&value))?;
        if let Some(media_type) = &self.media_type {
            write!(f, ";type={media_type}")?;
        }
        match &self.filename {
            Some(filename) => write!(f, ";filename={}", quoted(filename)),
            None => Ok(()),
        }
    }
}

/// Encodes a form. The boundary depends on the seed and the content only, so equal loads send equal
/// bytes.
///
/// # Errors
///
/// A file can't be read.
pub(crate) fn encode(fields: &[FormField], seed: u64) -> Result<EncodedForm, SettingsError> {
    let mut contents = Vec::with_capacity(fields.len());
    for field in fields {
        contents.push(match &field.content {
            FieldContent::Text(text) => text.clone().into_bytes(),
            FieldContent::Upload(path) | FieldContent::FileText(path) => {
                input_file::read_file(path, DATA_BYTES_MAX).map_err(|error| {
                    SettingsError::of("form").text(format!(": {}: {error}", path.display()))
                })?
            }
        });
    }
    let is_contained = |boundary: &str| {
        let contains = |bytes: &Vec<u8>| {
            let mut windows = bytes.windows(boundary.len());
            windows.any(|window| window == boundary.as_bytes())
        };
        contents.iter().any(contains)
    };
    let boundary = (0..)
        .map(|attempt| format!("prony-form-{:016x}", random_at(seed, attempt)))
        .find(|boundary| !is_contained(boundary))
        .unwrap_or_default();
    let mut pieces = Vec::new();
    let mut before = format!("--{boundary}\r\n");
    for (field, content) in fields.iter().zip(contents) {
        before += &format!("{}\r\n\r\n", field.headers());
        let pushed = std::mem::replace(&mut before, format!("\r\n--{boundary}\r\n"));
        for (bytes, is_from_file) in [
            (pushed.into_bytes(), false),
            (content, field.file().is_some()),
        ] {
            pieces.push(BodyPiece {
                bytes,
                is_from_file,
            });
        }
    }
    pieces.push(BodyPiece {
        bytes: format!("\r\n--{boundary}--\r\n").into_bytes(),
        is_from_file: false,
    });
    Ok(EncodedForm { boundary, pieces })
}

/// Splits a value from the attributes after it. A value in double quotes may contain semicolons;
/// in it, `\"` and `\\` stand for one character.
fn word(text: &str) -> (String, &str) {
    let unquoted = || {
        let end = text.find(';').unwrap_or(text.len());
        (text[..end].to_owned(), &text[end..])
    };
    let Some(inner) = text.strip_prefix('"') else {
        return unquoted();
    };
    let mut value = String::new();
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let rest = &inner[at + 1..];
                return if rest.is_empty() || rest.starts_with(';') {
                    (value, rest)
                } else {
                    unquoted()
                };
            }
            '\\' if inner[at + 1..].starts_with(['"', '\\']) => {
                value.extend(characters.next().map(|(_, escaped)| escaped));
            }
            character => value.push(character),
        }
    }
    unquoted()
}

/// Quotes a value if [`word`] would otherwise read it differently, or read it as a file.
fn quoted(value: &str) -> String {
    if value.contains(';') || value.starts_with(['"', '@', '<']) {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        value.to_owned()
    }
}

/// Escapes a name as browsers do (WHATWG HTML, multipart/form-data).
fn escaped(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn base_name(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn media_type(path: &std::path::Path) -> &'static str {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let mut known = TYPES_BY_EXTENSION.iter();
    known
        .find(|(name, _)| extension == *name)
        .map_or(UNKNOWN_TYPE, |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(fields: &[&str]) -> String {
        let fields: Vec<FormField> = fields.iter().map(|it| it.parse().unwrap()).collect();
        let form = encode(&fields, 0).unwrap();
        let bytes: Vec<u8> = form.pieces.iter().flat_map(|it| it.bytes.clone()).collect();
        String::from_utf8(bytes)
            .unwrap()
            .replace(&form.boundary, "B")
    }

    #[test]
    fn fields_are_encoded_as_by_curl() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a;b.png");
        std::fs::write(&file, "PNG").unwrap();
        let quoted = format!("\"{}\"", file.display());
        for (field, part) in [
            ("a=1", "name=\"a\"\r\n\r\n1".to_owned()),
            ("a=", "name=\"a\"\r\n\r\n".to_owned()),
            ("a\"b=x=y", "name=\"a%22b\"\r\n\r\nx=y".to_owned()),
            (
                "a={\"k\":1};type=application/json",
                "name=\"a\"\r\nContent-Type: application/json\r\n\r\n{\"k\":1}".to_owned(),
            ),
            (
                "a=x;type=text/plain;charset=utf-8;filename=f",
                "name=\"a\"; filename=\"f\"\r\nContent-Type: text/plain;charset=utf-8\r\n\r\nx"
                    .to_owned(),
            ),
            ("a=\"1;\\\"2\\\\\"", "name=\"a\"\r\n\r\n1;\"2\\".to_owned()),
            ("a=\"b\"c", "name=\"a\"\r\n\r\n\"b\"c".to_owned()),
            (
                &format!("a=@{quoted}"),
                "name=\"a\"; filename=\"a;b.png\"\r\nContent-Type: image/png\r\n\r\nPNG".to_owned(),
            ),
            (
                &format!("a=@{quoted};type=x/y;filename=\"c;d\""),
                "name=\"a\"; filename=\"c;d\"\r\nContent-Type: x/y\r\n\r\nPNG".to_owned(),
            ),
            (&format!("a=<{quoted}"), "name=\"a\"\r\n\r\nPNG".to_owned()),
        ] {
            let expected = format!("--B\r\nContent-Disposition: form-data; {part}\r\n--B--\r\n");
            assert_eq!(encoded(&[field]), expected, "{field}");
            let parsed: FormField = field.parse().unwrap();
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{field}");
        }
        let two = encoded(&["a=1", "b=2"]);
        assert_eq!(two.matches("--B\r\n").count(), 2, "{two}");
    }

    #[test]
    fn a_moved_file_keeps_its_name_and_type() {
        let mut field: FormField = "a=@dir/x.pdf".parse().unwrap();
        field.set_file("sent/form-0".into());
        assert_eq!(
            field.to_string(),
            "a=@sent/form-0;type=application/pdf;filename=x.pdf"
        );
    }

    #[test]
    fn no_content_contains_the_boundary() {
        let form = |text: &str| encode(&[FormField::text("a", text)], 7).unwrap();
        let first = form("x");
        assert_eq!(form("y").boundary, first.boundary);
        let second = form(&first.boundary);
        assert_ne!(second.boundary, first.boundary);
        assert_eq!(FormField::text("a", "@x;y").to_string(), "a=\"@x;y\"");
    }

    #[test]
    fn invalid_fields_are_refused_with_a_hint() {
        for (text, reason) in [
            ("a", "NAME=VALUE"),
            ("=a", "NAME=VALUE"),
            ("a=@", "file is missing"),
            ("a=@-", "standard input"),
            ("a=b;c", "double quotes"),
            ("a=b;c=d", "double quotes"),
            ("a=b;headers=x", ";headers= is not supported"),
            ("a=b;type=png", "media type"),
            ("a=b;type=a/b\r\nX: y", "media type"),
        ] {
            let error = text.parse::<FormField>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let missing = "a=@/nowhere/x".parse().unwrap();
        let error = encode(&[missing], 0).unwrap_err().to_string();
        assert!(error.starts_with("--form: /nowhere/x"), "{error}");
    }
}
