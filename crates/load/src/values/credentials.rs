//! User and password for basic authentication (RFC 7617), from `--user` or a URL.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use prony_record::redact;

use crate::values::error::SettingsError;

/// Characters that must be percent-encoded in the user and password of a URL.
const INVALID_IN_USERINFO: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b':')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// User and password in the form `USER:PASSWORD`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(String);

impl Credentials {
    /// Returns the credentials as they were given, to be written to a plan.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps `USER:PASSWORD` without checking it. Either part may be missing.
    pub(crate) fn unchecked(text: String) -> Credentials {
        Credentials(text)
    }

    /// Decodes the credentials of a URL.
    ///
    /// # Errors
    ///
    /// The credentials are not UTF-8.
    pub(crate) fn from_userinfo(userinfo: &str) -> Result<Credentials, SettingsError> {
        decoded(userinfo).map(Credentials)
    }

    /// The credentials in percent-encoded form, as in a URL.
    pub(crate) fn to_userinfo(&self) -> String {
        utf8_percent_encode(&self.0, INVALID_IN_USERINFO).to_string()
    }

    /// Value of an `Authorization` header.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(&self.0))
    }
}

impl FromStr for Credentials {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Credentials, SettingsError> {
        match text.split_once(':') {
            Some((user, _)) if !user.is_empty() => Ok(Credentials(text.to_owned())),
            _ => Err("write USER:PASSWORD".into()),
        }
    }
}

/// Omits the user and password to keep them out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials([redacted])")
    }
}

/// Splits a URL into the URL without credentials, and the credentials if it has any. Also handles
/// URLs without a scheme.
///
/// # Errors
///
/// The credentials can't be decoded. The error text doesn't contain them.
pub fn split_url(text: &str) -> Result<(String, Option<Credentials>), SettingsError> {
    const HTTP: &str = "http://";
    let has_scheme = crate::values::url::has_scheme(text);
    let whole = if has_scheme {
        text.to_owned()
    } else {
        format!("{HTTP}{text}")
    };
    let Some(userinfo) = redact::userinfo(&whole) else {
        return Ok((text.to_owned(), None));
    };
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let credentials = format!("{}:{}", decoded(user)?, decoded(password)?);
    let without = redact::url(&whole);
    let without = if has_scheme {
        without
    } else {
        without[HTTP.len()..].to_owned()
    };
    Ok((without, Some(Credentials(credentials))))
}

/// Decodes percent-encoded text.
///
/// # Errors
///
/// Returns an error if the result isn't UTF-8.
fn decoded(text: &str) -> Result<String, SettingsError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| "its user name and password are not UTF-8 text".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_of_urls() {
        for (text, url, credentials) in [
            ("http://h/a@b", "http://h/a@b", None),
            ("http://u:p@h:1/", "http://h:1/", Some("u:p")),
            ("u:p@h/", "h/", Some("u:p")),
            ("https://u%40x:p%3a@h", "https://h", Some("u@x:p:")),
            ("http://token@[::1]/", "http://[::1]/", Some("token:")),
            ("/path@x", "/path@x", None),
            ("unix:/run/a@b.sock:/x", "unix:/run/a@b.sock:/x", None),
        ] {
            let (without, found) = split_url(text).unwrap();
            assert_eq!(
                (without.as_str(), found.as_ref().map(Credentials::as_str)),
                (url, credentials)
            );
        }
        let error = split_url("http://secret%ff:x@h/").unwrap_err().to_string();
        assert!(
            error.contains("UTF-8") && !error.contains("secret"),
            "{error}"
        );
    }

    #[test]
    fn a_user_needs_a_password_which_no_debug_text_shows() {
        let text: Credentials = "me:a:b".parse().unwrap();
        assert_eq!(text.basic(), "Basic bWU6YTpi");
        assert!(!format!("{text:?}").contains("a:b"));
        for wrong in ["me", ":x", ""] {
            assert!(wrong.parse::<Credentials>().is_err(), "{wrong}");
        }
    }
}
