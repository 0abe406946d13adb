//! The static table (RFC 9204 Appendix A).

use std::sync::LazyLock;

use crate::compression::{Field, Name, find_text};

/// Number of entries in the static table. The first entry has index 0.
pub(super) const ENTRIES: usize = 99;

/// Names and values of the entries. The value is empty if the entry has only a name.
#[rustfmt::skip]
pub(super) const TEXTS: [(&str, &str); ENTRIES] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Meanings of the entries, computed once for all connections.
static FIELDS: LazyLock<[Field; ENTRIES]> = LazyLock::new(|| {
    TEXTS.map(|(name, value)| Field::read(Name::read(name.as_bytes()), value.as_bytes()))
});

/// Returns the entries of the static table. The first entry has index 0.
pub(super) fn entries() -> &'static [Field; ENTRIES] {
    &FIELDS
}

/// Returns the index of an entry with this name, and whether its value matches too.
pub(super) fn find_index(name: &str, value: &str) -> Option<(usize, bool)> {
    find_text(&TEXTS, name, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Meaning;

    #[test]
    fn entries_match_the_rfc() {
        let statuses = [
            (24, 103),
            (25, 200),
            (26, 304),
            (27, 404),
            (28, 503),
            (63, 100),
            (64, 204),
            (71, 500),
        ];
        for (at, status) in statuses {
            assert_eq!(entries()[at].meaning, Meaning::Status(status));
        }
        assert_eq!(entries()[4].meaning, Meaning::Length(0));
        assert_eq!(entries()[98].bytes, 15 + 10 + 32);
        let faulty = |field: &&Field| matches!(field.meaning, Meaning::Fault(_));
        // The entries for pseudo-header fields of requests are faulty in responses.
        assert_eq!(entries().iter().filter(faulty).count(), 11);
    }

    #[test]
    fn entries_are_found_by_name_and_value() {
        assert_eq!(find_index(":method", "GET"), Some((17, true)));
        assert_eq!(find_index(":method", "PATCH"), Some((15, false)));
        assert_eq!(find_index(":authority", "x"), Some((0, false)));
        assert_eq!(find_index("user-agent", ""), Some((95, true)));
        assert_eq!(find_index("x-own", ""), None);
    }
}
