//! Implements LuaJIT's `bit` library on 32 bits.

use mlua::{Lua, Table, Variadic};

/// A function on 32-bit numbers.
type Operation = fn(&[u32]) -> u32;

const OPERATIONS: &[(&str, Operation)] = &[
    ("tobit", |of| number_at(of, 0)),
    ("bnot", |of| !number_at(of, 0)),
    ("bswap", |of| number_at(of, 0).swap_bytes()),
    ("band", |of| of.iter().fold(!0, |all, one| all & one)),
    ("bor", |of| of.iter().fold(0, |all, one| all | one)),
    ("bxor", |of| of.iter().fold(0, |all, one| all ^ one)),
    ("lshift", |of| number_at(of, 0) << places(of)),
    ("rshift", |of| number_at(of, 0) >> places(of)),
    ("arshift", |of| {
        ((number_at(of, 0) as i32) >> places(of)) as u32
    }),
    ("rol", |of| number_at(of, 0).rotate_left(places(of))),
    ("ror", |of| number_at(of, 0).rotate_right(places(of))),
];

pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for &(name, operation) in OPERATIONS {
        let function = lua.create_function(move |_, of: Variadic<f64>| {
            let of: Vec<u32> = of.iter().map(|number| bits(*number)).collect();
            // Results are signed, as in LuaJIT.
            Ok(operation(&of) as i32)
        });
        library.set(name, function?)?;
    }
    let tohex = |_: &Lua, (of, digits): (f64, Option<i32>)| Ok(tohex(bits(of), digits));
    library.set("tohex", lua.create_function(tohex)?)?;
    Ok(library)
}

fn bits(number: f64) -> u32 {
    number.round_ties_even().rem_euclid(4_294_967_296.0) as u32
}

fn number_at(of: &[u32], index: usize) -> u32 {
    of.get(index).copied().unwrap_or(0)
}

fn places(of: &[u32]) -> u32 {
    number_at(of, 1) & 31
}

/// Formats a number with `digits` hexadecimal digits (8 by default), in upper case if `digits` is
/// negative.
fn tohex(bits: u32, digits: Option<i32>) -> String {
    let wanted = digits.unwrap_or(8);
    let all = if wanted < 0 {
        format!("{bits:08X}")
    } else {
        format!("{bits:08x}")
    };
    let count = wanted.unsigned_abs().min(8) as usize;
    all[8 - count..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_agree_with_luajits_documentation() {
        let lua = Lua::new();
        lua.globals().set("bit", library(&lua).unwrap()).unwrap();
        for (text, result) in [
            ("bit.tobit(0xffffffff)", "-1"),
            ("bit.tobit(2^40 + 1234)", "1234"),
            ("bit.bnot(0)", "-1"),
            ("bit.band(0x12345678, 0xff)", "120"),
            ("bit.bor(1, 2, 4, 8)", "15"),
            ("bit.bxor(0xa5a5f0f0, 0xaa55ff00)", "267390960"),
            ("bit.lshift(1, 10)", "1024"),
            ("bit.rshift(-256, 8)", "16777215"),
            ("bit.arshift(-256, 8)", "-1"),
            ("bit.tohex(bit.rol(0x12345678, 12))", "45678123"),
            ("bit.tohex(bit.ror(0x12345678, 12))", "67812345"),
            ("bit.tohex(bit.bswap(0x12345678))", "78563412"),
            ("bit.tohex(-1, 4)", "ffff"),
            ("bit.tohex(255, -2)", "FF"),
        ] {
            let code = format!("return tostring({text})");
            assert_eq!(lua.load(code).eval::<String>().unwrap(), result, "{text}");
        }
    }
}
