//! Groups the requests of a list into entries. Results are reported by entry.
//!
//! Lines with the same method and URL are one entry. If that gives more entries than can have
//! separate results, lines are grouped by method and path: the query is omitted, and numbers and
//! identifiers in the path become `{id}`. If that still gives too many, only the first entries in
//! the list have separate results.

use std::collections::HashMap;

use prony_record::{ENTRIES_MAX, EntryGrouping, EntryInfo, EntryList, OtherEntries};

/// Maximum length of an entry's name, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Minimum number of hexadecimal digits for a word to count as an identifier.
const HEX_ID_DIGITS_MIN: usize = 16;
/// Text that replaces a number or an identifier in a path.
const ID: &str = "{id}";

/// The entries of a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    /// Index of each request's entry; empty if there is only one entry.
    of_requests: Vec<u32>,
    /// Names of the entries; `None` if there is only one.
    pub(crate) list: Option<Box<EntryList>>,
}

impl Entries {
    /// Groups requests, each given by its method and URL.
    pub(crate) fn of<'a>(requests: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Entries {
        let by_url = Groups::of(requests.clone().map(|(method, url)| {
            let url = url.to_owned();
            (method, url)
        }));
        match by_url.names.len() {
            0 | 1 => Entries::default(),
            2..=ENTRIES_MAX => by_url.entries(EntryGrouping::Url),
            _ => {
                let patterns = requests.map(|(method, url)| (method, path_pattern(url)));
                let by_path = Groups::of(patterns);
                match by_path.names.len() {
                    1 => Entries::default(),
                    _ => by_path.entries(EntryGrouping::Path),
                }
            }
        }
    }

    /// Index of a request's entry. A request that is not in the list belongs to the last entry.
    #[inline]
    pub(crate) fn of_request(&self, request: u32) -> u32 {
        let entry = self.of_requests.get(request as usize);
        entry.copied().unwrap_or(u32::MAX)
    }

    /// Number of entries for which a recorder keeps separate results; 0 if there is only one entry.
    pub(crate) fn results(&self) -> usize {
        self.list.as_ref().map_or(0, |list| list.results())
    }
}

/// Distinct requests, in order of their first appearance in the list.
struct Groups<'a> {
    of_requests: Vec<u32>,
    /// Method, URL (or URL pattern) and number of lines of each group.
    names: Vec<(&'a str, String, u64)>,
}

impl<'a> Groups<'a> {
    fn of(requests: impl Iterator<Item = (&'a str, String)>) -> Groups<'a> {
        let mut numbers: HashMap<(&str, String), u32> = HashMap::new();
        let mut groups = Groups {
            of_requests: Vec::new(),
            names: Vec::new(),
        };
        for (method, url) in requests {
            let new = groups.names.len() as u32;
            let number = *numbers.entry((method, url)).or_insert_with_key(|key| {
                groups.names.push((method, key.1.clone(), 0));
                new
            });
            groups.names[number as usize].2 += 1;
            groups.of_requests.push(number);
        }
        groups
    }

    fn entries(mut self, grouping: EntryGrouping) -> Entries {
        let rest = self.names.split_off(self.names.len().min(ENTRIES_MAX));
        let other = (!rest.is_empty()).then(|| OtherEntries {
            entries: rest.len() as u64,
            lines: rest.iter().map(|(.., lines)| lines).sum(),
        });
        let mut urls = self.names.iter().chain(&rest).map(|(_, url, _)| url);
        let first = urls.next().map_or("", |url| origin_of(url));
        let have_one_origin = urls.all(|url| origin_of(url) == first);
        let omitted = if have_one_origin { first.len() } else { 0 };
        let each = self.names.iter().map(|(method, url, lines)| EntryInfo {
            name: shortened(&format!("{method} {}", &url[omitted..])),
            lines: *lines,
        });
        Entries {
            list: Some(Box::new(EntryList {
                grouping,
                each: each.collect(),
                other,
            })),
            of_requests: self.of_requests,
        }
    }
}

/// Returns the part of a URL that contains its scheme, host and port.
fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let path = url[host..].find('/').map_or(url.len(), |path| host + path);
    &url[..path]
}

/// Returns a URL without its query, and with `{id}` in place of numbers and identifiers in its
/// path.
fn path_pattern(url: &str) -> String {
    let (origin, rest) = url.split_at(origin_of(url).len());
    let path = rest.split('?').next().unwrap_or_default();
    let segments = path.split('/').map(|segment| {
        // The extension of a file name is kept: `{id}.html`.
        let (stem, extension) = segment.split_at(segment.find('.').unwrap_or(segment.len()));
        match is_id(stem) {
            true => format!("{ID}{extension}"),
            false => segment.to_owned(),
        }
    });
    let segments: Vec<String> = segments.collect();
    origin.to_owned() + &segments.join("/")
}

/// Returns true for a number, a UUID, or a long hexadecimal number.
fn is_id(word: &str) -> bool {
    let is_number = !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
    let is_hex = |word: &str| word.bytes().all(|c| c.is_ascii_hexdigit());
    let is_long_hex =
        word.len() >= HEX_ID_DIGITS_MIN && is_hex(word) && word.bytes().any(|c| c.is_ascii_digit());
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    let is_uuid = lengths == [8, 4, 4, 4, 12] && word.split('-').all(is_hex);
    is_number || is_long_hex || is_uuid
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        None => name.to_owned(),
        Some(_) => name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(urls: &[(&str, String)]) -> Entries {
        Entries::of(urls.iter().map(|(method, url)| (*method, url.as_str())))
    }

    fn gets(paths: impl IntoIterator<Item = String>) -> Vec<(&'static str, String)> {
        let url = |path| ("GET", format!("http://h:8080{path}"));
        paths.into_iter().map(url).collect()
    }

    fn names(entries: &Entries) -> Vec<(&str, u64)> {
        let list = entries.list.as_ref().unwrap();
        let each = list.each.iter();
        each.map(|it| (it.name.as_str(), it.lines)).collect()
    }

    #[test]
    fn lines_with_the_same_method_and_url_are_one_entry() {
        let mut lines = gets(["/a", "/b?x=1", "/a", "/b?x=2", "/1"].map(str::to_owned));
        lines.push(("POST", "http://h:8080/a".to_owned()));
        let entries = entries(&lines);
        assert_eq!(entries.of_requests, [0, 1, 0, 2, 3, 4]);
        let expected = [
            ("GET /a", 2),
            ("GET /b?x=1", 1),
            ("GET /b?x=2", 1),
            ("GET /1", 1),
            ("POST /a", 1),
        ];
        assert_eq!(names(&entries), expected);
        let list = entries.list.as_ref().unwrap();
        assert_eq!((list.grouping, list.other), (EntryGrouping::Url, None));
        assert_eq!(entries.results(), 6);
        assert_eq!(entries.of_request(4), 3);
        assert_eq!(entries.of_request(u32::MAX), u32::MAX);
    }

    #[test]
    fn servers_are_named_if_there_are_several() {
        let lines = ["http://a/x", "https://a/x"].map(|url| ("GET", url.to_owned()));
        let expected = [("GET http://a/x", 1), ("GET https://a/x", 1)];
        assert_eq!(names(&entries(&lines)), expected);
    }

    #[test]
    fn a_single_request_has_no_entries() {
        for lines in [
            vec![],
            gets(["/".to_owned()]),
            gets(["/".to_owned(), "/".to_owned()]),
            gets((0..10_000).map(|n| format!("/item/{n}"))),
        ] {
            let entries = entries(&lines);
            assert_eq!((entries.list.is_none(), entries.results()), (true, 0));
            assert_eq!(entries.of_request(0), u32::MAX);
        }
    }

    #[test]
    fn long_lists_are_grouped_by_path() {
        let items = (0..5_000).map(|n| format!("/item/{n}?page={}", n % 7));
        let users = (0..3_000).map(|n| format!("/users/{n}/posts.html"));
        let entries = entries(&gets(items.chain(users).chain(["/".to_owned()])));
        let expected = [
            ("GET /item/{id}", 5_000),
            ("GET /users/{id}/posts.html", 3_000),
            ("GET /", 1),
        ];
        assert_eq!(names(&entries), expected);
        assert_eq!(entries.list.unwrap().grouping, EntryGrouping::Path);
        assert_eq!(entries.of_requests[7_999..], [1, 2]);
    }

    #[test]
    fn entries_beyond_the_maximum_are_combined() {
        let words = |n: u32| format!("/{}", char::from_u32(0x4e00 + n).unwrap());
        let mut lines = gets((0..150).map(words));
        lines.extend(gets([words(149)]));
        let entries = entries(&lines);
        let list = entries.list.as_ref().unwrap();
        let other = OtherEntries {
            entries: 50,
            lines: 51,
        };
        assert_eq!((list.each.len(), list.other), (ENTRIES_MAX, Some(other)));
        assert_eq!(entries.results(), ENTRIES_MAX + 1);
        assert_eq!(entries.of_request(149), 149, "beyond the last result");
    }

    #[test]
    fn numbers_and_identifiers_are_recognized_in_paths() {
        let pattern = |path: &str| path_pattern(&format!("http://h{path}"));
        for (path, expected) in [
            ("/a/12/b", "/a/{id}/b"),
            ("/12.html?q=1", "/{id}.html"),
            ("/v2/a", "/v2/a"),
            ("/0b6d2c4e-6f5a-4c6b-8a2e-3f2a1b0c9d8e/x", "/{id}/x"),
            ("/5f0c4a9b3e1d2c7b8a6f0e1d", "/{id}"),
            ("/deadbeef", "/deadbeef"),
            ("/feedfeedfeedfeedfeed", "/feedfeedfeedfeedfeed"),
            ("/users/{{ id }}", "/users/{{ id }}"),
            ("", ""),
            ("/", "/"),
        ] {
            assert_eq!(pattern(path), format!("http://h{expected}"), "{path}");
        }
    }

    #[test]
    fn long_names_are_truncated() {
        let lines = gets(["a", "b"].map(|end| format!("/{}{end}", "é".repeat(500))));
        for (name, _) in names(&entries(&lines)) {
            assert_eq!(name.chars().count(), NAME_CHARS_MAX);
            assert!(name.ends_with('…'));
        }
    }
}
