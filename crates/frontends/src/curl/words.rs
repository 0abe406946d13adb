//! Splits a pasted command into words according to the quoting rules of bash.

use std::iter::Peekable;
use std::str::Chars;

use prony_load::SettingsError;

/// Splits a command into words. Words are byte strings, because a word such as `$'\xff'` is not
/// valid UTF-8.
///
/// # Errors
///
/// Returns a message if a quote is not closed, or if the text contains shell syntax other than
/// words.
pub(super) fn split(text: &str) -> Result<Vec<Vec<u8>>, SettingsError> {
    let mut splitter = WordSplitter {
        rest: text.chars().peekable(),
        words: Vec::new(),
        word: None,
    };
    splitter.run()?;
    Ok(splitter.words)
}

/// Progress of splitting a command into words.
struct WordSplitter<'a> {
    rest: Peekable<Chars<'a>>,
    words: Vec<Vec<u8>>,
    /// The current word; `None` between words.
    word: Option<Vec<u8>>,
}

impl WordSplitter<'_> {
    fn run(&mut self) -> Result<(), SettingsError> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escaped(),
                '\'' => self.single_quoted()?,
                '"' => self.double_quoted()?,
                '$' if self.rest.next_if_eq(&'\'').is_some() => self.ansi_quoted()?,
                '$' if self.rest.next_if_eq(&'"').is_some() => self.double_quoted()?,
                '$' if self.is_expansion() => return Err(no_expansion('$')),
                '`' => return Err(no_expansion('`')),
                '^' if matches!(self.rest.peek(), Some('"' | '\n' | '\r')) => {
                    let error = SettingsError::from("this is the form for Windows cmd");
                    return Err(error.hint("copy the command as cURL (bash)"));
                }
                '|' | '&' | ';' | '<' | '>' | '(' | ')' => {
                    return if self.is_only_space_left() && matches!(c, ';' | '&') {
                        self.end_word();
                        Ok(())
                    } else {
                        Err(SettingsError::from(format!(
                            "an unquoted {c} begins shell syntax that is not supported"
                        ))
                        .hint("paste only one curl command")
                        .hint(format!("quote the {c}")))
                    };
                }
                c if c.is_whitespace() => self.end_word(),
                c => self.add(c),
            }
        }
        self.end_word();
        Ok(())
    }

    fn is_only_space_left(&self) -> bool {
        self.rest.clone().all(char::is_whitespace)
    }

    /// Returns true if a `$` outside single quotes begins an expansion.
    fn is_expansion(&mut self) -> bool {
        let next = self.rest.peek();
        next.is_some_and(|&c| c.is_ascii_alphanumeric() || "_{(@*#?-$!".contains(c))
    }

    fn word(&mut self) -> &mut Vec<u8> {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn add(&mut self, c: char) {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        self.word().extend_from_slice(bytes);
    }

    /// Handles an unquoted backslash. At the end of a line, it is a line continuation; elsewhere,
    /// it quotes the next character.
    fn escaped(&mut self) {
        if self.skip_line_end() {
            return;
        }
        match self.rest.next() {
            Some(c) => self.add(c),
            None => self.add('\\'),
        }
    }

    fn skip_line_end(&mut self) -> bool {
        let mut after = self.rest.clone();
        let line_end = match (after.next(), after.next()) {
            (Some('\n'), _) => 1,
            (Some('\r'), Some('\n')) => 2,
            _ => return false,
        };
        for _ in 0..line_end {
            self.rest.next();
        }
        true
    }

    fn single_quoted(&mut self) -> Result<(), SettingsError> {
        self.word();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(c) => self.add(c),
                None => return Err(unclosed('\'')),
            }
        }
    }

    fn double_quoted(&mut self) -> Result<(), SettingsError> {
        self.word();
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('\\') if self.skip_line_end() => {}
                Some('\\') => match self.rest.next_if(|c| "\"\\$`".contains(*c)) {
                    Some(c) => self.add(c),
                    None => self.add('\\'),
                },
                Some('$') if self.is_expansion() => return Err(no_expansion('$')),
                Some('`') => return Err(no_expansion('`')),
                Some(c) => self.add(c),
                None => return Err(unclosed('"')),
            }
        }
    }

    /// Reads the rest of `$'…'`, which may contain escape sequences as in C.
    fn ansi_quoted(&mut self) -> Result<(), SettingsError> {
        self.word();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some('\\') => self.ansi_escape()?,
                Some(c) => self.add(c),
                None => return Err(unclosed('\'')),
            }
        }
    }

    fn ansi_escape(&mut self) -> Result<(), SettingsError> {
        let Some(c) = self.rest.next() else {
            return Err(unclosed('\''));
        };
        let byte = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => c as u8,
            'x' => match self.number(0, 16, 2) {
                Some(code) => code as u8,
                None => return self.add_literally(c),
            },
            '0'..='7' => {
                let first = c.to_digit(8).unwrap_or(0);
                // Like in bash, only the low eight bits are used.
                self.number(first, 8, 2).unwrap_or(first) as u8
            }
            'c' => match self.rest.next() {
                Some(control) => (control as u32 & 0x1f) as u8,
                None => return Err(unclosed('\'')),
            },
            'u' => return self.unicode(c, 4),
            'U' => return self.unicode(c, 8),
            _ => return self.add_literally(c),
        };
        self.word().push(byte);
        Ok(())
    }

    /// Adds an unknown escape sequence unchanged, including its backslash.
    fn add_literally(&mut self, c: char) -> Result<(), SettingsError> {
        self.add('\\');
        self.add(c);
        Ok(())
    }

    /// Reads up to `digits` more digits of a number that begins with the digit `first`. Returns
    /// `None` if there are none.
    fn number(&mut self, first: u32, radix: u32, digits: usize) -> Option<u32> {
        let mut number = None;
        for _ in 0..digits {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            self.rest.next();
            number = Some(number.unwrap_or(first).wrapping_mul(radix) + digit);
        }
        number
    }

    /// Adds the character of a `\u` or `\U` escape. Two UTF-16 surrogates form one character.
    fn unicode(&mut self, letter: char, digits: usize) -> Result<(), SettingsError> {
        let Some(mut code) = self.number(0, 16, digits) else {
            return self.add_literally(letter);
        };
        if (0xd800..0xdc00).contains(&code) {
            let mut after = self.rest.clone();
            if (after.next(), after.next()) == (Some('\\'), Some('u')) {
                self.rest.next();
                self.rest.next();
                let low = self.number(0, 16, 4).unwrap_or(0);
                code = 0x10000 + ((code - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
            }
        }
        match char::from_u32(code) {
            Some(c) => {
                self.add(c);
                Ok(())
            }
            None => Err(format!("\\{letter}{code:x} is not a character").into()),
        }
    }
}

fn unclosed(quote: char) -> SettingsError {
    SettingsError::from(format!("a quote ({quote}) is not closed")).hint("paste the whole command")
}

fn no_expansion(c: char) -> SettingsError {
    SettingsError::from(format!(
        "{c} begins a shell expansion, which prony does not perform"
    ))
    .hint("write the value")
    .hint("put the text in single quotes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let words = split(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let text = words
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap());
        text.collect()
    }

    #[test]
    fn words_are_split_as_by_bash() {
        for (text, expected) in [
            ("curl  a\tb\n", &["curl", "a", "b"][..]),
            (
                "curl \\\n  -H 'a: b' \\\r\n  x",
                &["curl", "-H", "a: b", "x"],
            ),
            (
                "'it'\\''s' \"a \\\"b\\\" \\c $\"",
                &["it's", "a \"b\" \\c $"],
            ),
            (r"$'a\n\r\t\\\'\x41\u0021\101\q'", &["a\n\r\t\\'A!A\\q"]),
            (
                r"$'\u00e9\ud83d\ude00\U0001F600' x'y'z",
                &["\u{e9}\u{1f600}\u{1f600}", "xyz"],
            ),
            ("'' \"\" $''", &["", "", ""]),
            ("http://h/?a=1\\&b=2 ;\n", &["http://h/?a=1&b=2"]),
            ("a$ b", &["a$", "b"]),
            ("\"a\\\nb\"", &["ab"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        assert_eq!(split(r"$'\xff\377'").unwrap(), [[0xff, 0xff]]);
    }

    #[test]
    fn shell_syntax_other_than_words_is_refused() {
        for (text, reason) in [
            ("curl 'a", "not closed"),
            ("curl \"a", "not closed"),
            ("curl $'a", "not closed"),
            ("curl $'a\\", "not closed"),
            ("curl a | jq .", "unquoted |"),
            ("curl http://h/?a=1&b=2", "unquoted &"),
            ("curl a; curl b", "unquoted ;"),
            ("curl $URL", "expansion"),
            ("curl \"a ${b}\"", "expansion"),
            ("curl `a`", "expansion"),
            ("curl ^\"http://h^\"", "bash"),
            (r"$'\ud800x'", "not a character"),
        ] {
            let error = split(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn no_text_causes_a_panic() {
        let pieces = [
            "$'", "'", "\"", "\\", "\\u", "\\x", "d8", "00", "\n", " ", "$", "é", ";", "7",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text += pieces[(state >> 33) as usize % pieces.len()];
            }
            let _ = split(&text);
        }
    }
}
