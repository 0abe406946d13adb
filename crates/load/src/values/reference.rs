//! References to URLs, as in redirects and pages (RFC 3986 §4 and §5.2).

/// Returns the scheme of a reference, if it has one (§4.1), such as `mailto` for `mailto:a@b`.
pub fn scheme(reference: &str) -> Option<&str> {
    let (scheme, _) = reference.split_once(':')?;
    let mut bytes = scheme.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (begins && goes_on).then_some(scheme)
}

/// Resolves a reference without scheme and host against the path and query of a page (§5.2.2 to
/// §5.2.4), and removes the fragment.
pub fn resolve_path(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let path = base.split('?').next().unwrap_or_default();
    let merged = match reference.as_bytes().first() {
        None => base.to_owned(),
        Some(b'/') => reference.to_owned(),
        Some(b'?') => format!("{path}{reference}"),
        Some(_) => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{reference}")
        }
    };
    without_dots(&merged)
}

/// Removes the segments `.` and `..` from a path (§5.2.4), also in their percent-encoded forms, and
/// keeps its query.
pub(crate) fn without_dots(path_and_query: &str) -> String {
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    };
    if path.starts_with('/') && !path.contains("/.") && !path.contains("/%2") {
        return path_and_query.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "." => {}
            ".." => drop(kept.pop()),
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    let mut whole = format!("/{}", kept.join("/"));
    if let Some(query) = query {
        whole.push('?');
        whole.push_str(query);
    }
    whole
}
