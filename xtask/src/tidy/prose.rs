//! Text that people read: comments and strings in Rust files, comments in scripts, and documents.

/// A passage of text in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) kind: Kind,
    /// Line in the file on which the text begins.
    pub(super) line: usize,
    /// Text of the passage. Consecutive comment lines form one passage, with line breaks.
    pub(super) text: String,
}

/// The kinds of passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `///`, `//!`, `/** */` and `/*! */`.
    Doc,
    Comment,
    /// A string literal that contains a space; one without is a name or a format.
    Literal,
    Document,
}

/// Returns the passages of a file; none for file types without prose.
pub(super) fn passages(path: &str, text: &str) -> Vec<Passage> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else {
        return Vec::new();
    };
    let in_tests = path.contains("/tests/");
    match extension {
        "rs" => Lexer::new(text).passages(),
        "md" if !in_tests => vec![document(text)],
        "toml" | "html" if !in_tests => vec![document(text)],
        "sh" | "py" | "yml" | "yaml" | "conf" => line_comments(text, "#"),
        "js" => line_comments(text, "//"),
        _ => Vec::new(),
    }
}

fn document(text: &str) -> Passage {
    Passage {
        kind: Kind::Document,
        line: 1,
        text: text.to_string(),
    }
}

/// Returns the comments that begin with `mark` and end at the end of the line.
fn line_comments(text: &str, mark: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut last = 0;
    for (index, line) in text.lines().enumerate() {
        let comment = match line.trim_start().strip_prefix(mark) {
            Some(comment) => comment,
            None => match line.split_once(&format!(" {mark} ")) {
                Some((_, comment)) => comment,
                None => continue,
            },
        };
        match found.last_mut() {
            Some(passage) if last == index => {
                passage.text.push('\n');
                passage.text.push_str(comment);
            }
            _ => found.push(Passage {
                kind: Kind::Comment,
                line: index + 1,
                text: comment.to_string(),
            }),
        }
        last = index + 1;
    }
    found
}

/// Finds comments and string literals in Rust text.
struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<Passage>,
    /// Line on which the last comment ended.
    last_line: usize,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            rest: text,
            line: 1,
            found: Vec::new(),
            last_line: 0,
        }
    }

    fn passages(mut self) -> Vec<Passage> {
        let mut previous = ' ';
        while let Some(c) = self.rest.chars().next() {
            let in_word = previous.is_alphanumeric() || previous == '_';
            if self.rest.starts_with("//") {
                self.line_comment();
            } else if self.rest.starts_with("/*") {
                self.block_comment();
            } else if c == '"' {
                self.take(1);
                self.literal();
            } else if let Some(hashes) = raw_string(self.rest).filter(|_| !in_word) {
                self.raw_literal(hashes);
            } else if c == '\'' {
                self.character();
            } else {
                self.take(c.len_utf8());
            }
            previous = c;
        }
        self.found
    }

    /// Consumes the next `bytes` bytes and returns them.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let text = self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        let (kind, text) = if text.starts_with("////") {
            (Kind::Comment, text.trim_start_matches('/'))
        } else if let Some(text) = text
            .strip_prefix("///")
            .or_else(|| text.strip_prefix("//!"))
        {
            (Kind::Doc, text)
        } else {
            (Kind::Comment, &text[2..])
        };
        match self.found.last_mut() {
            Some(last) if last.kind == kind && self.last_line + 1 == line => {
                last.text.push('\n');
                last.text.push_str(text);
            }
            _ => self.found.push(Passage {
                kind,
                line,
                text: text.to_string(),
            }),
        }
        self.last_line = line;
    }

    fn block_comment(&mut self) {
        let line = self.line;
        let is_doc = self.rest.starts_with("/**") || self.rest.starts_with("/*!");
        let start = self.rest;
        let mut depth = 0;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else if let Some(c) = self.rest.chars().next() {
                self.take(c.len_utf8());
            } else {
                break;
            }
            if depth == 0 {
                break;
            }
        }
        let text = &start[..start.len() - self.rest.len()];
        let kind = if is_doc { Kind::Doc } else { Kind::Comment };
        self.push(kind, line, text.trim_matches(['/', '*', '!']).to_string());
    }

    fn literal(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next() {
            self.take(c.len_utf8());
            match c {
                '"' => break,
                '\\' => {
                    let escaped = self.rest.chars().next().map_or(0, char::len_utf8);
                    let escaped = self.take(escaped);
                    text.push(if escaped == "\n" { '\n' } else { ' ' });
                }
                c => text.push(c),
            }
        }
        self.push_literal(line, text);
    }

    fn raw_literal(&mut self, hashes: usize) {
        let open = self.rest.find('"').map_or(0, |at| at + 1);
        self.take(open);
        let line = self.line;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = self.rest.find(&close);
        let text = self.take(end.unwrap_or(self.rest.len())).to_string();
        self.take(close.len().min(self.rest.len()));
        self.push_literal(line, text);
    }

    fn push_literal(&mut self, line: usize, text: String) {
        if text.trim().contains([' ', '\n']) {
            self.push(Kind::Literal, line, text);
        }
    }

    fn push(&mut self, kind: Kind, line: usize, text: String) {
        self.found.push(Passage { kind, line, text });
        self.last_line = 0;
    }

    /// Skips a character literal or the quote of a lifetime.
    fn character(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(escaped)) => {
                let end = self.rest[2 + escaped.len_utf8()..].find('\'');
                self.take(end.map_or(1, |at| at + 3 + escaped.len_utf8()));
            }
            (Some(c), Some('\'')) => {
                self.take(2 + c.len_utf8());
            }
            _ => {
                self.take(1);
            }
        }
    }
}

/// Number of `#` of the raw string that begins here; `None` if none begins here.
fn raw_string(text: &str) -> Option<usize> {
    let text = text
        .strip_prefix(['b', 'c'])
        .unwrap_or(text)
        .strip_prefix('r')?;
    let hashes = text.bytes().take_while(|b| *b == b'#').count();
    text[hashes..].starts_with('"').then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, usize, String)> {
        let passages = passages("a.rs", text).into_iter();
        passages
            .map(|p| (p.kind, p.line, p.text.trim().to_string()))
            .collect()
    }

    #[test]
    fn comment_lines_that_follow_each_other_are_one_passage() {
        let text = "//! a\n//! b\n\n/// c\n/// d\n// e\nfn f() {} // g\n/* h /* i */ */\n";
        let expected = [
            (Kind::Doc, 1, "a\n b"),
            (Kind::Doc, 4, "c\n d"),
            (Kind::Comment, 6, "e\n g"),
            (Kind::Comment, 8, "h /* i */"),
        ];
        assert_eq!(found(text), expected.map(|(k, l, t)| (k, l, t.to_string())));
    }

    #[test]
    fn strings_with_spaces_are_passages() {
        let text = "let a = \"one\"; let b = \"two // words\";\nlet c = r#\"a \"b\" c\"#; let d = \"x \\\n y\";";
        let expected = [
            (Kind::Literal, 1, "two // words"),
            (Kind::Literal, 2, "a \"b\" c"),
            (Kind::Literal, 2, "x \n y"),
        ];
        assert_eq!(found(text), expected.map(|(k, l, t)| (k, l, t.to_string())));
    }

    #[test]
    fn quotes_and_lifetimes_open_no_string() {
        let text =
            "fn f<'a>(x: &'a str) { let q = '\"'; let e = '\\''; let u = '\\u{1F600}'; /* c d */ }";
        assert_eq!(found(text), [(Kind::Comment, 1, "c d".to_string())]);
    }

    #[test]
    fn scripts_are_read_for_their_comments() {
        let seen = passages("a.sh", "#!/bin/sh\nrun # one\n# two\n");
        let texts: Vec<_> = seen.iter().map(|p| (p.line, p.text.as_str())).collect();
        assert_eq!(texts, [(1, "!/bin/sh\none\n two")]);
        assert!(passages("a.png", "x y").is_empty());
    }
}
