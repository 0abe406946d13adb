//! The parts of a response that are captured for scripts and redirects.

use crate::request::script::CaptureSpec;

/// Maximum size of a buffer that is kept for later responses, in bytes.
const KEPT_BYTES_MAX: usize = 1024;

/// The captured head and body of one response.
#[derive(Debug, Default)]
pub(crate) struct CapturedResponse {
    heads: bool,
    body_bytes_max: usize,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl CapturedResponse {
    /// Creates an empty capture. Returns `None` if `spec` captures nothing.
    pub(crate) fn new(spec: CaptureSpec) -> Option<CapturedResponse> {
        (spec.heads || spec.body_bytes > 0).then(|| CapturedResponse {
            heads: spec.heads,
            body_bytes_max: spec.body_bytes,
            ..CapturedResponse::default()
        })
    }

    /// Sets the maximum number of bytes of the next body that are captured.
    pub(crate) fn limit_body(&mut self, bytes: usize) {
        self.body_bytes_max = bytes;
    }

    /// Releases the memory of a large response.
    pub(crate) fn release(&mut self) {
        for part in [&mut self.head, &mut self.body] {
            if part.capacity() > KEPT_BYTES_MAX {
                *part = Vec::new();
            }
        }
    }

    /// Starts capturing the next response, or the next head after an interim response.
    pub(crate) fn start(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// Appends a piece of the head, if heads are captured.
    pub(crate) fn add_head(&mut self, piece: &[u8]) {
        if self.heads {
            self.head.extend_from_slice(piece);
        }
    }

    /// Appends a piece of the body, up to the capture limit.
    pub(crate) fn add_body(&mut self, piece: &[u8]) {
        let room = self.body_bytes_max.saturating_sub(self.body.len());
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Status line and header fields, without the empty line at the end.
    pub(crate) fn head(&self) -> &[u8] {
        let head = &self.head[..];
        match head.strip_suffix(b"\r\n").or(head.strip_suffix(b"\n")) {
            Some(lines) if lines.ends_with(b"\n") => lines,
            _ => head,
        }
    }

    /// The captured part of the body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_no_more_than_specified() {
        assert!(CapturedResponse::new(CaptureSpec::default()).is_none());
        let mut captured = CapturedResponse::new(CaptureSpec {
            body_bytes: 5,
            ..CaptureSpec::default()
        })
        .unwrap();
        for piece in [&b"abc"[..], b"def", b"g"] {
            captured.add_head(piece);
            captured.add_body(piece);
        }
        assert_eq!(
            (captured.head(), captured.body()),
            (&b""[..], &b"abcde"[..])
        );
        captured.start();
        assert_eq!(captured.body(), b"");
    }

    #[test]
    fn head_excludes_the_empty_line() {
        for (raw, head) in [
            (
                &b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..],
                &b"HTTP/1.1 200 OK\r\nA: b\r\n"[..],
            ),
            (b"HTTP/2 200\r\na: b\r\n", b"HTTP/2 200\r\na: b\r\n"),
            (b"HTTP/1.1 200 OK\n\n", b"HTTP/1.1 200 OK\n"),
            (b"", b""),
        ] {
            let mut captured = CapturedResponse {
                heads: true,
                ..CapturedResponse::default()
            };
            captured.add_head(raw);
            assert_eq!(captured.head(), head);
        }
    }
}
