//! SPDX license expressions, such as `(MIT OR Apache-2.0) AND ISC`.

/// Returns true if the allowed licenses satisfy `expression`. In the old form `MIT/Apache-2.0`, the
/// slash means `OR`. A license with an exception counts as a separate license.
pub(super) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ")
        .replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = LicenseParser {
        words: &words,
        allowed,
    };
    parser.any_of() == Some(true) && parser.words.is_empty()
}

/// Parser for `any = all { OR all }`, `all = one { AND one }`, `one = license | ( any )`.
struct LicenseParser<'a> {
    /// Words that haven't been parsed yet.
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl LicenseParser<'_> {
    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.words.first() == Some(&wanted);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut result = self.all_of()?;
        while self.takes("OR") {
            result |= self.all_of()?;
        }
        Some(result)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut result = self.one()?;
        while self.takes("AND") {
            result &= self.one()?;
        }
        Some(result)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let result = self.any_of()?;
            return self.takes(")").then_some(result);
        }
        let allowed = self.allowed;
        let license = self
            .next()
            .filter(|word| !matches!(*word, "OR" | "AND" | ")"))?;
        Some(allowed.contains(&license.replace("+WITH+", " WITH ").as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "Apache-2.0/MIT",
            "GPL-3.0 OR MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR GPL-3.0) AND GPL-3.0",
            "Apache-2.0",
            "MIT OR",
            "(MIT",
            "MIT ISC",
        ] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }
}
