//! Compact form of a long list of requests.
//!
//! Most lines of a list differ only in their path, or in their path and body. Serialized one by
//! one, a million such lines would take more than a gigabyte. The lines of a long list therefore
//! share *forms*: drafts with marks in place of the path and the body. A line consists of the index
//! of its form and these two texts, and its request is rendered when it is sent, in the same way as
//! a request with placeholders.

/// Maximum number of lines of a list whose requests are all serialized before the load.
pub(crate) const SERIALIZED_LINES_MAX: usize = 4_096;

/// The lines of a long list.
#[derive(Debug, Default)]
pub(crate) struct LongList {
    /// Index of each line's form.
    forms: Vec<u32>,
    /// The paths and bodies of all lines, concatenated. They are parts of the list, so they have
    /// less than 4 GiB.
    texts: Vec<u8>,
    /// End of each line's path, and of its body, in `texts`.
    ends: Vec<[u32; 2]>,
}

/// The texts of a line that its form does not contain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineTexts<'a> {
    /// Path and query, with the slash at the beginning; empty if the form contains the path.
    pub(crate) path: &'a [u8],
    /// The body; empty if the form contains the body.
    pub(crate) body: &'a [u8],
}

impl LongList {
    /// Adds a line.
    pub(crate) fn push(&mut self, form: u32, path: &str, body: &str) {
        self.forms.push(form);
        let ends = [path, body].map(|text| {
            self.texts.extend_from_slice(text.as_bytes());
            self.texts.len() as u32
        });
        self.ends.push(ends);
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.forms.len()
    }

    /// Index of a line's form.
    ///
    /// # Panics
    ///
    /// There is no such line.
    #[inline]
    pub(crate) fn form_of(&self, line: u32) -> u32 {
        self.forms[line as usize]
    }

    /// The texts of a line that its form does not contain.
    ///
    /// # Panics
    ///
    /// There is no such line.
    #[inline]
    pub(crate) fn texts_of(&self, line: u32) -> LineTexts<'_> {
        let line = line as usize;
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before][1]) as usize;
        let [path, body] = self.ends[line].map(|end| end as usize);
        LineTexts {
            path: &self.texts[start..path],
            body: &self.texts[path..body],
        }
    }

    /// Path and query of a line; `None` if its form contains them.
    pub(crate) fn path_of(&self, line: u32) -> Option<&str> {
        let path = std::str::from_utf8(self.texts_of(line).path).ok()?;
        (!path.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::request::encodings::Encodings;
    use crate::settings::LoadSettings;
    use crate::spec::LoadSpec;

    /// Lines of every kind.
    const LINES: &str = "/a\n/b?x=1&y=%41\n/c/../d/./e\n/#fragment\n\
        http://127.0.0.1:8/f\nhttp://127.0.0.1:8\nhttp://127.0.0.1:8?q\nhttps://[::1]/g\n\
        /h POST one\n/i POST two\n/j POST\n/k PUT <body\n/l PUT <body\n/m DELETE\n\
        /n/{{ seq }}\n/o POST {{ seq }}\n/pronyvalue0-\n\
        {\"url\": \"/q\", \"headers\": {\"X-A\": \"1\"}, \"body\": \"x\", \"expect_status\": 404}\n\
        {\"url\": \"/r\", \"headers\": {\"Content-Length\": \"2\"}, \"method\": \"POST\", \
        \"body\": \"ab\"}\n{\"url\": \"/s\", \"method\": \"POST\", \"body\": \"\"}\n";

    fn resolved(folder: &Path, lines: &str, words: &str) -> LoadSpec {
        let list = folder.join("list");
        std::fs::write(&list, lines).unwrap();
        std::fs::write(folder.join("body"), "{{ seq }}\n").unwrap();
        let words = format!("{words} --urls {}", list.display());
        let settings = LoadSettings::from_flags(&words);
        settings.resolve(Some("http://127.0.0.1:9/")).unwrap()
    }

    fn long(folder: &Path, words: &str) -> (LoadSpec, usize) {
        let repeats = SERIALIZED_LINES_MAX / LINES.lines().count() + 1;
        (resolved(folder, &LINES.repeat(repeats), words), repeats)
    }

    #[test]
    fn long_lists_send_the_same_requests_as_short_ones() {
        let folder = tempfile::tempdir().unwrap();
        for words in [
            "",
            "--path-as-is",
            "-X PATCH --body all",
            "--header X-B:{{seq}} --no-keepalive",
            "--user me:secret --follow 1",
        ] {
            let short = resolved(folder.path(), LINES, words);
            let (long, repeats) = long(folder.path(), words);
            let count = short.distinct_requests();
            assert_eq!(long.distinct_requests(), count * repeats);
            assert!(long.requests.len() <= 16 + 2 * repeats, "{words}");
            for index in 0..count {
                let one = short.request(index).unwrap();
                let other = long.request(index).unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                assert_eq!(text(other.http1()), text(one.http1()), "{words}");
                assert_eq!((&other.url, &other.name), (&one.url, &one.name), "{words}");
                assert_eq!(other.closes, one.closes);
                let target = |spec: &LoadSpec, target: u32| {
                    let target = &spec.targets[target as usize];
                    (target.peer.clone(), target.tls.clone())
                };
                assert_eq!(target(&long, other.target), target(&short, one.target));
                let statuses = |spec: &LoadSpec| spec.expected_statuses(index);
                assert_eq!(statuses(&long), statuses(&short));
                assert_eq!(long.request_name(index), short.request_name(index));
            }
            let lines = |spec: &LoadSpec| {
                let list = spec.entries.list.as_ref().unwrap();
                let each = list.each.iter();
                Vec::from_iter(each.map(|it| (it.name.clone(), it.lines)))
            };
            let expected = lines(&short)
                .into_iter()
                .map(|(name, n)| (name, n * repeats as u64));
            assert_eq!(lines(&long), Vec::from_iter(expected));
            let safe = short.safe_requests().len();
            assert_eq!(long.safe_requests().len(), safe * repeats);
        }
    }

    #[test]
    fn lines_of_long_lists_differ_in_their_path_over_all_versions() {
        let folder = tempfile::tempdir().unwrap();
        let line = |n| format!("https://127.0.0.1:9/item/{n} POST body {n}\n");
        let list: String = (0..=SERIALIZED_LINES_MAX).map(line).collect();
        for words in ["--http 1.1", "--http 2", "--http 3"] {
            let spec = resolved(folder.path(), &list, words);
            assert_eq!(spec.requests.len(), 1);
            let last = spec.request(SERIALIZED_LINES_MAX).unwrap();
            assert_eq!(
                last.url,
                format!("https://127.0.0.1:9/item/{SERIALIZED_LINES_MAX}")
            );
            let body = format!("body {SERIALIZED_LINES_MAX}");
            match &last.encodings {
                Encodings::Http1(http1) | Encodings::Http1Or2 { http1, .. } => {
                    assert!(http1.ends_with(body.as_bytes()));
                }
                Encodings::Http2(http2) => assert_eq!(http2.body(), body.as_bytes()),
                Encodings::Http3(http3) => assert_eq!(http3.body(), body.as_bytes()),
                Encodings::Message { .. } => unreachable!("a request"),
            }
        }
    }

    #[test]
    fn invalid_lines_of_long_lists_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        for (line, reason) in [
            ("/a<b", "< must be percent-encoded"),
            ("ftp://h/", "http, https"),
            ("/a PO(ST", "is not a method"),
            ("http://127.0.0.1:0/", "port 0"),
            ("/ POST <missing", "missing"),
        ] {
            let lines = "/a\n".repeat(SERIALIZED_LINES_MAX) + line;
            std::fs::write(&list, lines).unwrap();
            let settings = LoadSettings::from_flags(&format!("--urls {}", list.display()));
            let error = settings.resolve(Some("http://127.0.0.1:9/")).err().unwrap();
            let error = error.to_string();
            let place = format!("list:{}: ", SERIALIZED_LINES_MAX + 1);
            assert!(error.contains(&place) && error.contains(reason), "{error}");
        }
    }
}
