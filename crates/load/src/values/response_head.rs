//! Reads the response heads that a [`ResponseView`](crate::request::script::ResponseView) contains.

/// Returns the header fields as pairs of name and value, without the status line and without
/// whitespace around values.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// Returns the header fields whose values are UTF-8.
pub fn texts(head: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    fields(head).filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}

/// Returns the values of the field `name` that are UTF-8.
pub(crate) fn values<'a>(head: &'a [u8], name: &'static str) -> impl Iterator<Item = &'a str> {
    let named = texts(head).filter(move |(field, _)| field.trim().eq_ignore_ascii_case(name));
    named.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_and_values() {
        let head =
            b"HTTP/1.1 200 OK: fine\r\nA: b\r\nC:d:e \r\nno field\r\nX: \xff\r\nEmpty:\r\n\r\n";
        let all: Vec<_> = fields(head).collect();
        let [a, c, x, empty] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(*a, (&b"A"[..], &b"b"[..]));
        assert_eq!(*c, (&b"C"[..], &b"d:e"[..]));
        assert_eq!(*x, (&b"X"[..], &b"\xff"[..]));
        assert_eq!(*empty, (&b"Empty"[..], &b""[..]));
        let texts: Vec<_> = texts(head).collect();
        assert_eq!(texts, [("A", "b"), ("C", "d:e"), ("Empty", "")]);
        assert_eq!(fields(b"").count(), 0);
    }
}
