//! Groups the requests of a list into entries. Results are reported by entry.
//!
//! Lines with the same method and URL are one entry. If that gives more entries than can have
//! separate results, lines are grouped by method and path: the query is omitted, and numbers and
//! identifiers in the path become `{id}`. If that still gives too many, only the first entries in
//! the list have separate results.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use prony_record::{ENTRIES_MAX, EntryGrouping, EntryInfo, EntryList, OtherEntries, truncated};

use crate::request::long_list::LongList;

/// Maximum length of an entry's name, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Minimum number of hexadecimal digits for a word to count as an identifier.
const HEX_ID_DIGITS_MIN: usize = 16;
/// Index of the entry of requests without separate results.
const OTHER: u32 = u32::MAX;
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
    /// Groups requests. `forms` are the methods and URLs of all requests or, if there is a long
    /// list, of its forms.
    pub(crate) fn of(forms: &[(&str, &str)], list: Option<&LongList>) -> Entries {
        let count = list.map_or(forms.len(), LongList::len);
        let requests = (0..count as u32).map(|index| {
            let form = list.map_or(index, |list| list.form_of(index));
            let (method, url) = forms[form as usize];
            let (origin, path) = url.split_at(origin_of(url).len());
            (
                method,
                origin,
                list.and_then(|list| list.path_of(index)).unwrap_or(path),
            )
        });
        let by_url = Groups::of(requests.clone(), ENTRIES_MAX, |url, name| *name += url);
        if let Some(by_url) = by_url {
            return by_url.entries(EntryGrouping::Url);
        }
        let by_path = Groups::of(requests, usize::MAX, push_path_pattern);
        by_path.map_or_else(Entries::default, |groups| {
            groups.entries(EntryGrouping::Path)
        })
    }

    /// Makes each step of a journey an entry.
    pub(crate) fn of_steps(names: impl Iterator<Item = String>) -> Entries {
        let each: Vec<EntryInfo> = names.map(|name| EntryInfo { name, lines: 1 }).collect();
        Entries {
            of_requests: (0..each.len() as u32).collect(),
            list: Some(Box::new(EntryList {
                grouping: EntryGrouping::Step,
                each,
                other: None,
            })),
        }
    }

    /// Index of a request's entry. A request that is not in the list belongs to the last entry.
    #[inline]
    pub(crate) fn of_request(&self, request: u32) -> u32 {
        let entry = self.of_requests.get(request as usize);
        entry.copied().unwrap_or(OTHER)
    }

    /// Number of entries for which a recorder keeps separate results; 0 if there is only one entry.
    pub(crate) fn results(&self) -> usize {
        self.list.as_ref().map_or(0, |list| list.results())
    }
}

/// Distinct requests, in order of their first appearance in the list.
#[derive(Default)]
struct Groups {
    of_requests: Vec<u32>,
    /// Name, length of the name's part before the path, and number of lines of each of the first
    /// groups.
    named: Vec<(String, usize, u64)>,
    /// Hashes of the other groups' names, which may be as many as there are lines.
    others: HashSet<u64>,
    /// Number of lines of the other groups.
    other_lines: u64,
    /// True if all URLs have the same scheme, host and port.
    have_one_origin: bool,
}

impl Groups {
    /// Groups requests, each given by its method, its origin, and its path and query. `push_path`
    /// appends the text for a path to a name. Returns `None` if there are more than `max` groups.
    fn of<'a>(
        requests: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
        max: usize,
        push_path: impl Fn(&str, &mut String),
    ) -> Option<Groups> {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut groups = Groups::default();
        let (mut name, mut origins) = (String::new(), None);
        groups.have_one_origin = true;
        for (method, origin, path) in requests {
            groups.have_one_origin &= *origins.get_or_insert(origin) == origin;
            name.clear();
            name.extend([method, " ", origin]);
            let path_at = name.len();
            push_path(path, &mut name);
            let known = numbers.get(&name).copied();
            let number = match known {
                Some(number) => number,
                None if groups.named.len() == max => return None,
                None if groups.named.len() == ENTRIES_MAX => {
                    groups.others.insert(numbers.hasher().hash_one(&name));
                    groups.other_lines += 1;
                    OTHER
                }
                None => {
                    let new = groups.named.len() as u32;
                    numbers.insert(name.clone(), new);
                    groups.named.push((name.clone(), path_at - origin.len(), 0));
                    new
                }
            };
            if let Some((.., lines)) = groups.named.get_mut(number as usize) {
                *lines += 1;
            }
            groups.of_requests.push(number);
        }
        Some(groups)
    }

    fn entries(self, grouping: EntryGrouping) -> Entries {
        if self.named.len() <= 1 {
            return Entries::default();
        }
        let other = (!self.others.is_empty()).then_some(OtherEntries {
            entries: self.others.len() as u64,
            lines: self.other_lines,
        });
        let each = self.named.iter().map(|(name, origin_at, lines)| {
            let name = if self.have_one_origin {
                let (method, url) = name.split_at(*origin_at);
                method.to_owned() + &url[origin_of(url).len()..]
            } else {
                name.clone()
            };
            EntryInfo {
                name: truncated(&name, NAME_CHARS_MAX).into_owned(),
                lines: *lines,
            }
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
pub(crate) fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let path = url[host..].find('/').map_or(url.len(), |path| host + path);
    &url[..path]
}

/// Appends a path without its query, and with `{id}` in place of numbers and identifiers.
fn push_path_pattern(path: &str, pattern: &mut String) {
    let path = path.split('?').next().unwrap_or_default();
    for (position, segment) in path.split('/').enumerate() {
        if position > 0 {
            pattern.push('/');
        }
        // The extension of a file name is kept: `{id}.html`.
        let (stem, extension) = segment.split_at(segment.find('.').unwrap_or(segment.len()));
        if is_id(stem) {
            pattern.extend([ID, extension])
        } else {
            pattern.push_str(segment)
        }
    }
}

/// Returns true for a number, a UUID, or a long hexadecimal number.
fn is_id(word: &str) -> bool {
    let is_number = !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
    let is_hex = |word: &str| word.bytes().all(|c| c.is_ascii_hexdigit());
    let is_long_hex =
        word.len() >= HEX_ID_DIGITS_MIN && is_hex(word) && word.bytes().any(|c| c.is_ascii_digit());
    let lengths = word.split('-').map(str::len);
    let is_uuid = lengths.eq([8, 4, 4, 4, 12]) && word.split('-').all(is_hex);
    is_number || is_long_hex || is_uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(urls: &[(&str, String)]) -> Entries {
        let forms = urls.iter().map(|(method, url)| (*method, url.as_str()));
        Entries::of(&Vec::from_iter(forms), None)
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
        assert_eq!(
            (entries.of_request(99), entries.of_request(149)),
            (99, OTHER)
        );
    }

    #[test]
    fn numbers_and_identifiers_are_recognized_in_paths() {
        let pattern = |path: &str| {
            let mut pattern = String::new();
            push_path_pattern(path, &mut pattern);
            pattern
        };
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
            assert_eq!(pattern(path), expected);
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
