//! Names of functions, as they are shown: demangled, stable over builds, bounded, and without
//! control characters.

use std::fmt::{self, Write};

/// Maximum length of a name in characters.
const NAME_LENGTH_MAX: usize = 200;

/// Maximum length of a mangled name in bytes.
const MANGLED_BYTES_MAX: usize = 4_096;

/// Suffixes that compilers add to parts or copies of a function, before a number.
const COPY_SUFFIXES: [&str; 6] = [
    ".isra.",
    ".constprop.",
    ".part.",
    ".lto_priv.",
    ".llvm.",
    ".clone.",
];

/// Returns the name of a symbol.
pub(super) fn symbol_name(symbol: &[u8]) -> String {
    let mangled = String::from_utf8_lossy(&symbol[..symbol.len().min(MANGLED_BYTES_MAX)]);
    // Parts of a function are attributed to the function, in every build.
    let mut plain = mangled.as_ref();
    for suffix in COPY_SUFFIXES {
        plain = plain.split_once(suffix).map_or(plain, |(name, _)| name);
    }
    plain = plain.strip_suffix(".cold").unwrap_or(plain);
    // The version of a library's interface is no part of the name.
    plain = plain.split_once('@').map_or(plain, |(name, _)| name);
    let mut out = BoundedText::default();
    if let Ok(name) = rustc_demangle::try_demangle(plain) {
        // Without the hash, which differs in every build.
        if write!(out, "{name:#}").is_ok() || !out.0.is_empty() {
            return clean(&out.0);
        }
    } else if plain.starts_with("_Z")
        && let Ok(name) = cpp_demangle::Symbol::new(plain)
    {
        let options = cpp_demangle::DemangleOptions::new()
            .no_params()
            .no_return_type();
        if name.structured_demangle(&mut out, &options).is_ok() || !out.0.is_empty() {
            return clean(&out.0);
        }
    }
    clean(plain)
}

/// Returns the name of a generated function. Paths are reduced to file names, since the folder may
/// be another one in each run, and marks of the compiler's tier are removed: `JS:*work
/// file:///srv/app.js:3:9` is `work app.js`.
pub(super) fn generated_name(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(MANGLED_BYTES_MAX)]);
    let kinds = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    let kind = kinds.into_iter().find(|kind| text.starts_with(kind));
    let plain = text.strip_prefix(kind.unwrap_or_default());
    let plain = plain
        .unwrap_or(&text)
        .trim_start_matches(['*', '~', '^', '+']);
    let Some(slash) = plain.find('/') else {
        return clean(plain);
    };
    let before = &plain[..slash];
    let function = before
        .trim_end_matches("file:")
        .trim_end_matches([' ', ':']);
    let file = plain.rsplit('/').next().unwrap_or_default();
    // The position is needed only to tell functions without name apart: another build has the
    // function in another line.
    match (function, kind) {
        ("", _) => clean(file),
        (function, Some(_)) => {
            let file = file.split(':').next().unwrap_or_default();
            clean(&format!("{function} {file}"))
        }
        (function, None) => clean(&format!("{function} {file}")),
    }
}

/// Returns a name without control characters, and not longer than the limit.
pub(super) fn clean(name: &str) -> String {
    let is_invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let plain = |c: char| if is_invisible(c) { '\u{fffd}' } else { c };
    let mut clean: String = name.chars().take(NAME_LENGTH_MAX).map(plain).collect();
    if name.chars().nth(NAME_LENGTH_MAX).is_some() {
        clean.pop();
        clean.push('…');
    }
    match clean.trim() {
        "" => prony_record::sampling::UNKNOWN_FUNCTION.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// Text that refuses to grow without limit. A short mangled name can stand for a name of gigabytes.
#[derive(Default)]
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MANGLED_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_demangled_and_equal_in_every_build() {
        let expected = [
            ("ngx_http_handler", "ngx_http_handler"),
            ("ngx_http_handler.isra.0.cold", "ngx_http_handler"),
            ("clock_nanosleep@@GLIBC_2.17", "clock_nanosleep"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_RNvC5crate4work", "crate::work"),
            ("_Znonsense", "_Znonsense"),
            ("", "[unknown]"),
        ];
        for (symbol, name) in expected {
            assert_eq!(symbol_name(symbol.as_bytes()), name);
        }
    }

    #[test]
    fn names_of_generated_functions_have_no_folder_and_no_tier() {
        let expected = [
            ("JS:*work file:///srv/app.js:3:9", "work app.js"),
            ("LazyCompile:~work /srv/app.js:3:9", "work app.js"),
            ("JS:~ file:///srv/app.js:3:9", "app.js:3:9"),
            ("py::work:/usr/lib/app.py", "py::work app.py"),
            ("Interpreter", "Interpreter"),
            ("Lcom/example/Work;::run", "Lcom Work;::run"),
        ];
        for (name, shown) in expected {
            assert_eq!(generated_name(name.as_bytes()), shown);
        }
    }

    #[test]
    fn hostile_names_are_bounded_and_visible() {
        let long = symbol_name("x".repeat(1 << 20).as_bytes());
        assert_eq!(long.chars().count(), NAME_LENGTH_MAX);
        assert!(long.ends_with('…'));
        assert_eq!(
            symbol_name(b"a\x1b[2Jb\nc\xff"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}"
        );
        assert_eq!(symbol_name("a\u{202e}b".as_bytes()), "a\u{fffd}b");
        assert_eq!(symbol_name(b"<script>"), "<script>");
        // A name that doubles with each of its 40 letters.
        let bomb = format!("_Z1fI{}E", "S_".repeat(2_000));
        assert!(symbol_name(bomb.as_bytes()).chars().count() <= NAME_LENGTH_MAX);
    }
}
