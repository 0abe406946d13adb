//! The static table (RFC 7541 Appendix A).

use std::sync::LazyLock;

use crate::compression::{Field, Name, find_text};

/// Number of entries in the static table. The first entry has index 1.
pub(super) const ENTRIES: usize = 61;

/// Names and values of the entries. The value is empty if the entry has only a name.
pub(super) const TEXTS: [(&str, &str); ENTRIES] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Meanings of the entries, computed once for all connections.
static FIELDS: LazyLock<[Field; ENTRIES]> = LazyLock::new(|| {
    TEXTS.map(|(name, value)| Field::read(Name::read(name.as_bytes()), value.as_bytes()))
});

/// Returns the entries of the static table. The first entry has index 1.
pub(super) fn entries() -> &'static [Field; ENTRIES] {
    &FIELDS
}

/// Returns the index of an entry with this name, and whether its value matches too.
pub(super) fn find_index(name: &str, value: &str) -> Option<(usize, bool)> {
    find_text(&TEXTS, name, value).map(|(at, is_same)| (at + 1, is_same))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Meaning;

    #[test]
    fn entries_match_the_rfc() {
        let statuses = [200, 204, 206, 304, 400, 404, 500];
        for (at, status) in statuses.into_iter().enumerate() {
            assert_eq!(entries()[7 + at].meaning, Meaning::Status(status));
        }
        assert_eq!(entries()[37].meaning, Meaning::Regular);
        assert_eq!(entries()[15].bytes, 15 + 13 + 32);
    }

    #[test]
    fn what_is_there_is_found() {
        assert_eq!(find_index(":method", "GET"), Some((2, true)));
        assert_eq!(find_index(":method", "PUT"), Some((2, false)));
        assert_eq!(find_index("user-agent", "x"), Some((58, false)));
        assert_eq!(find_index("www-authenticate", ""), Some((61, true)));
        assert_eq!(find_index("x-own", ""), None);
    }
}
