//! Functions of the kernel, by addresses.

use std::fs::File;
use std::io::Read;

/// Maximum number of bytes read from `/proc/kallsyms`.
const BYTES_MAX: u64 = 64 << 20;

/// Name and module of the function at each address; `None` where it is unknown.
type KernelFunctions = Vec<Option<(String, String)>>;

/// Finds the functions at the given addresses. Returns `None` if the kernel hides them.
pub(super) fn functions(addresses: &[u64]) -> Option<KernelFunctions> {
    let mut text = Vec::new();
    let file = File::open("/proc/kallsyms").ok()?;
    file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    functions_in(&String::from_utf8_lossy(&text), addresses)
}

fn functions_in(text: &str, addresses: &[u64]) -> Option<KernelFunctions> {
    // address, type, name, and for a loadable module its name in brackets
    let parse = |line| {
        let mut words = str::split_ascii_whitespace(line);
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let is_code = matches!(kind, "t" | "T" | "w" | "W");
        (is_code && address != 0).then_some(())?;
        let name = words.next()?;
        // Of several names of a function, prefer public and short ones.
        Some((address, kind == "t", name.len(), name, words.next()))
    };
    let mut symbols: Vec<_> = text.lines().filter_map(parse).collect();
    if symbols.is_empty() {
        return None;
    }
    symbols.sort_unstable();
    symbols.dedup_by_key(|symbol| symbol.0);
    let find = |address: &u64| {
        let after = symbols.partition_point(|symbol| symbol.0 <= *address);
        let (.., name, module) = symbols.get(after.checked_sub(1)?)?;
        let module = module.unwrap_or(prony_record::sampling::KERNEL_MODULE);
        Some(((*name).to_owned(), module.to_owned()))
    };
    Some(addresses.iter().map(find).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let text = "\
ffffffff81000010 t __alias_of_first
ffffffff81000010 T first
ffffffff81000100 d data
ffffffff81000200 T second
ffffffffc0000000 t of_module\t[nf_tables]
rubbish
";
        let addresses = [0x10, 0xffff_ffff_8100_0150, 0xffff_ffff_c000_0004];
        let found = functions_in(text, &addresses).unwrap();
        let named = |name: &str, module: &str| Some((name.to_owned(), module.to_owned()));
        let expected = [
            None,
            named("first", "[kernel]"),
            named("of_module", "[nf_tables]"),
        ];
        assert_eq!(found, expected);
        assert_eq!(functions_in("0000000000000000 T first\n", &[1]), None);
    }
}
