//! What a script is shown of an answer.

use crate::script::CaptureSpec;

/// The head and body of the answer under way, as far as they are seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    heads: bool,
    most_body_bytes: usize,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Seen {
    /// Keeps what is asked for; none where that is nothing.
    pub(crate) fn new(sees: CaptureSpec) -> Option<Seen> {
        (sees.heads || sees.body_bytes > 0).then(|| Seen {
            heads: sees.heads,
            most_body_bytes: sees.body_bytes,
            ..Seen::default()
        })
    }

    /// What was asked for.
    pub(crate) fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: false,
            heads: self.heads,
            body_bytes: self.most_body_bytes,
        }
    }

    /// Another answer begins, or after an interim one the next head.
    pub(crate) fn start(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// A piece of the head came.
    pub(crate) fn add_head(&mut self, piece: &[u8]) {
        if self.heads {
            self.head.extend_from_slice(piece);
        }
    }

    /// A piece of the body came.
    pub(crate) fn add_body(&mut self, piece: &[u8]) {
        let room = self.most_body_bytes - self.body.len();
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Its status line and fields, without the empty line that ends them.
    pub(crate) fn head(&self) -> &[u8] {
        let head = &self.head[..];
        match head.strip_suffix(b"\r\n").or(head.strip_suffix(b"\n")) {
            Some(lines) if lines.ends_with(b"\n") => lines,
            _ => head,
        }
    }

    /// Its body, up to the most that is kept.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_asked_for() {
        assert!(Seen::new(CaptureSpec::default()).is_none());
        let mut seen = Seen::new(CaptureSpec {
            body_bytes: 5,
            ..CaptureSpec::default()
        })
        .unwrap();
        for piece in [&b"abc"[..], b"def", b"g"] {
            seen.add_head(piece);
            seen.add_body(piece);
        }
        assert_eq!((seen.head(), seen.body()), (&b""[..], &b"abcde"[..]));
        seen.start();
        assert_eq!(seen.body(), b"");
    }

    #[test]
    fn the_empty_line_is_no_part_of_the_head() {
        for (raw, head) in [
            (
                &b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..],
                &b"HTTP/1.1 200 OK\r\nA: b\r\n"[..],
            ),
            (b"HTTP/2 200\r\na: b\r\n", b"HTTP/2 200\r\na: b\r\n"),
            (b"HTTP/1.1 200 OK\n\n", b"HTTP/1.1 200 OK\n"),
            (b"", b""),
        ] {
            let mut seen = Seen {
                heads: true,
                ..Seen::default()
            };
            seen.add_head(raw);
            assert_eq!(seen.head(), head);
        }
    }
}
