//! CSV text (RFC 4180, but lines end with only a line feed).

pub(crate) fn write(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = ::csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        // Writing to memory can't fail.
        let _ = out.write_record(cells);
    };
    line(&mut headings.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    let bytes = out.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_if_they_need_it() {
        let text = write(&["a", "b"], [vec!["x,\"y\"".into(), "-1.5".into()]]);
        assert_eq!(text, "a,b\n\"x,\"\"y\"\"\",-1.5\n");
    }
}
