//! Scripts for LuaJIT, which wrk uses. `prony wrk` runs them in Lua 5.1, and adds LuaJIT's library
//! functions that Lua 5.1 lacks.

use crate::programs::{CommandOutput, Origin};
use crate::wrk::both;

/// Runs wrk and `prony wrk` with this script for a second.
fn run(script: &str) -> [CommandOutput; 2] {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    both(script, &["-t1", "-c1", "-d1", "-s", "script.lua", &url])
}

/// wrk's example of a script with several addresses formats an address with `%s`.
#[test]
fn format_converts_any_value_to_a_string() {
    let script = "
        function setup(thread) thread.addr = wrk.lookup(wrk.host, wrk.port)[1] end
        function init()
           local text = 'goes to %s'
           print(text:format(wrk.thread.addr))
           print(string.format('%s %s %5s|%-3s|%d %q', true, nil, 'a', 'b', 7, 'c'))
        end
    ";
    for output in run(script).map(|output| output.expect(0)) {
        assert!(output.out.contains("goes to 127.0.0.1:"), "{output:?}");
        assert!(
            output.out.contains("true nil     a|b  |7 \"c\"\n"),
            "{output:?}"
        );
    }
}

#[test]
fn functions_accept_the_arguments_of_luajit() {
    let script = "
        assert(string.rep('a', 3, ',') == 'a,a,a' and string.rep('a', 0, ',') == '')
        assert(('ab'):rep(2) == 'abab' and string.rep('a', 1, ',') == 'a')
        assert(math.log(8, 2) == 3 and math.log(1) == 0)
        assert(load('return 1 + 1')() == 2 and load('no lua') == nil)
        assert(load('return x', 'name', 't', { x = 7 })() == 7)
        local parts = { 'return', ' 5' }
        assert(load(function() return table.remove(parts, 1) end)() == 5)
        assert(select(2, xpcall(function(a, b) return a + b end, print, 1, 2)) == 3)
        assert(table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ' ') == '1 1 2 3')
        assert(table.concat(table.move({ 1, 2, 3 }, 2, 3, 1), ' ') == '2 3 3')
        assert(table.concat(table.move({ 1, 2 }, 1, 2, 1, {}), ' ') == '1 2')
        local filled = require('table.new')(2, 0)
        filled[1] = 1
        require('table.clear')(filled)
        assert(next(filled) == nil)
        print('all of it')
    ";
    for output in run(script).map(|output| output.expect(0)) {
        assert_eq!(output.out.matches("all of it\n").count(), 2, "{output:?}");
        assert_eq!(output.err, "", "{output:?}");
    }
}

/// Errors name the line in the user's script, not a line in prony's code that emulates LuaJIT.
#[test]
fn errors_name_the_line_in_the_script() {
    let script = "function request()\n local text = string.format('%d', 'x')\n return text\nend";
    let expected_text = "script.lua:2: bad argument #2 to 'format' (number expected, got string)";
    for output in run(script) {
        assert_eq!(output.status, 1, "{output:?}");
        assert!(output.err.contains(expected_text), "{output:?}");
    }
}
