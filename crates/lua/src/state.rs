//! Manages a Lua state that contains wrk's table and the script.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, LuaString, Table, VmState};
use prony_load::input_file::{self, TEXT_BYTES_MAX};
use prony_load::{Notation, Sha256};

use crate::address::Address;
use crate::fault::{OWN_CHUNK, ScriptFault, StopCause, StoppedScript};
use crate::{bits, shell};

/// The text of a script, and its name in error messages.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    name: String,
    text: Vec<u8>,
}

impl ScriptSource {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or is too long.
    pub fn read(file: &Path) -> Result<ScriptSource, ScriptFault> {
        let name = file.display().to_string();
        match input_file::read_file(file, TEXT_BYTES_MAX) {
            Ok(text) => Ok(ScriptSource { name, text }),
            Err(error) => Err(ScriptFault::new(format!("{name}: cannot be read: {error}"))),
        }
    }

    /// Returns the hash of the file.
    pub(crate) fn sha256(&self) -> Sha256 {
        Sha256::of(&self.text)
    }

    /// Checks the syntax without running anything.
    ///
    /// # Errors
    ///
    /// Returns the first syntax error.
    pub fn check(&self) -> Result<(), ScriptFault> {
        let lua = Lua::new();
        let compiled = self.chunk(&lua).into_function();
        compiled.map(drop).map_err(|error| ScriptFault::of(&error))
    }

    /// Returns true if the file is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn chunk(&self, lua: &Lua) -> mlua::chunk::Chunk<'static> {
        let text = input_file::without_byte_order_mark(&self.text);
        let text = without_first_comment(text).to_vec();
        lua.load(text).set_name(format!("@{}", self.name))
    }
}

/// The URL in a script's `wrk` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptUrl {
    /// Scheme of the URL, `http` or `https`, as typed.
    pub scheme: String,
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
    /// Path and query, beginning with a slash.
    pub path: String,
}

/// The initial content of each of a load's Lua states.
pub struct ScriptSeed<'a> {
    /// The script.
    pub source: &'a ScriptSource,
    /// The URL of the load.
    pub url: &'a ScriptUrl,
    /// The header fields that each request has by default.
    pub headers: &'a [(String, String)],
    /// Interrupt that stops the script on request.
    pub interrupt: &'a Arc<ScriptInterrupt>,
    /// Method of the requests.
    pub method: &'a str,
    /// Body of the requests.
    pub body: &'a [u8],
    /// Notation of errors about addresses that the load is not allowed to use.
    pub notation: Notation,
    /// Limits of each state.
    pub limits: ScriptLimits,
    /// True if the script must print to standard error, because standard output carries other data.
    pub prints_to_stderr: bool,
}

/// Limits of a Lua state. By default there are none.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptLimits {
    /// Maximum duration of one call.
    pub call_time: Option<Duration>,
    /// Maximum memory in bytes.
    pub memory_bytes: Option<usize>,
}

/// Interrupt that stops scripts that would not end by themselves.
pub struct ScriptInterrupt {
    is_asked: Box<dyn Fn() -> bool + Send + Sync>,
    is_heeded: AtomicBool,
}

impl ScriptInterrupt {
    /// Creates an interrupt that stops scripts when `is_asked` returns true.
    pub fn new(is_asked: impl Fn() -> bool + Send + Sync + 'static) -> Arc<ScriptInterrupt> {
        Arc::new(ScriptInterrupt {
            is_asked: Box::new(is_asked),
            is_heeded: AtomicBool::new(true),
        })
    }

    /// Makes scripts ignore a request to stop that was made during the load, so that `done` can run
    /// after it.
    pub fn spare(&self) {
        let asked = (self.is_asked)();
        self.is_heeded.store(!asked, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        (self.is_asked)() && self.is_heeded.load(Ordering::Relaxed)
    }
}

/// Watches the calls into one Lua state, so that an interrupt or a time limit can stop them.
struct CallWatch {
    interrupt: Arc<ScriptInterrupt>,
    call_time_max: Option<Duration>,
    /// Number of calls so far.
    calls: Arc<AtomicU64>,
    /// The last call seen by a check, and the time of the first check that saw it.
    seen: Mutex<Option<(u64, Instant)>>,
}

impl CallWatch {
    /// Returns the reason to stop the current call, if there is one.
    fn stop_cause(&self) -> Option<StopCause> {
        if self.interrupt.is_due() {
            return Some(StopCause::Interrupt);
        }
        let limit = self.call_time_max?;
        let call = self.calls.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((last, since)) if last == call => {
                (since.elapsed() > limit).then_some(StopCause::TooLong(limit))
            }
            _ => {
                *seen = Some((call, Instant::now()));
                None
            }
        }
    }
}

/// Number of Lua instructions between two checks for a stop. The instructions take about a
/// millisecond.
const INSTRUCTIONS_BETWEEN_CHECKS: u32 = 100_000;
/// Maximum number of stack levels that are searched for the script's own line.
const STACK_LEVELS_MAX: usize = 1000;

/// The part of the initial state that is written in Lua. Error positions never refer to this chunk.
const DIALECT: &str = include_str!("dialect.lua");
const PRELUDE: &str = include_str!("prelude.lua");
const PRINT_TO_STDERR: &str = include_str!("stderr.lua");

/// A Lua state in which the script has run.
pub(crate) struct LuaState {
    lua: Lua,
    script: String,
    limits: ScriptLimits,
    calls: Arc<AtomicU64>,
}

impl LuaState {
    /// Creates the state and runs the script.
    pub(crate) fn new(seed: &ScriptSeed<'_>) -> Result<LuaState, ScriptFault> {
        // SAFETY: this opens the library `debug`, with which a script can crash its own state, and
        // allows C modules, which the dialect disables before the script runs.
        let lua = unsafe { Lua::unsafe_new() };
        let state = LuaState {
            lua,
            script: seed.source.name.clone(),
            limits: seed.limits,
            calls: Arc::default(),
        };
        state.checked(state.prepare(seed))?;
        state.checked(seed.source.chunk(&state.lua).exec())?;
        Ok(state)
    }

    fn prepare(&self, seed: &ScriptSeed<'_>) -> mlua::Result<()> {
        let lua = &self.lua;
        if let Some(limit) = self.limits.memory_bytes {
            lua.set_memory_limit(limit)?;
        }
        let watch = CallWatch {
            interrupt: seed.interrupt.clone(),
            call_time_max: self.limits.call_time,
            calls: self.calls.clone(),
            seen: Mutex::new(None),
        };
        let script = self.script.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_BETWEEN_CHECKS);
        lua.set_global_hook(triggers, move |lua, _| match watch.stop_cause() {
            Some(cause) => Err(stop(lua, &script, cause)),
            None => Ok(VmState::Continue),
        })?;
        let notation = seed.notation;
        let wrk = lua.create_table()?;
        wrk.set("scheme", seed.url.scheme.as_str())?;
        wrk.set("host", seed.url.host.as_str())?;
        wrk.set("port", seed.url.port.map(|port| port.to_string()))?;
        wrk.set("method", seed.method)?;
        if !seed.body.is_empty() {
            wrk.set("body", lua.create_string(seed.body)?)?;
        }
        wrk.set("path", seed.url.path.as_str())?;
        let headers = seed
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        wrk.set("headers", lua.create_table_from(headers)?)?;
        wrk.set(
            "lookup",
            lua.create_function(|_, to: (String, mlua::Value)| Address::lookup(to))?,
        )?;
        wrk.set(
            "connect",
            lua.create_function(move |_, to: mlua::UserDataRef<Address>| to.connects(notation))?,
        )?;
        lua.globals().set("wrk", &wrk)?;
        // For scripts that call `require("wrk")`.
        lua.register_module("wrk", &wrk)?;
        lua.register_module("bit", bits::library(lua)?)?;
        lua.globals().set("bit", bits::library(lua)?)?;
        let os: Table = lua.globals().get("os")?;
        let execute = lua.create_function(|_, command: Option<LuaString>| {
            let command = command.map(|text| text.as_bytes().to_vec());
            Ok(shell::execute(command.as_deref()))
        })?;
        os.set("execute", execute)?;
        lua.load(DIALECT).set_name(format!("={OWN_CHUNK}")).exec()?;
        lua.load(PRELUDE).set_name(format!("={OWN_CHUNK}")).exec()?;
        if seed.prints_to_stderr {
            lua.load(PRINT_TO_STDERR)
                .set_name(format!("={OWN_CHUNK}"))
                .exec()
        } else {
            Ok(())
        }
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Returns the table `wrk`, unless the script has replaced it with another kind of value.
    pub(crate) fn wrk(&self) -> Result<Table, ScriptFault> {
        self.checked(self.lua.globals().get("wrk"))
    }

    /// Returns the global function with this name.
    pub(crate) fn hook(&self, name: &str) -> Option<Function> {
        self.lua.globals().raw_get(name).ok()
    }

    /// Calls a function that the script may have defined.
    pub(crate) fn call<R: FromLuaMulti>(
        &self,
        name: &str,
        function: mlua::Result<Function>,
        arguments: impl IntoLuaMulti,
    ) -> Result<R, ScriptFault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let function =
            function.map_err(|_| self.fault(format!("{name} is no longer a function")))?;
        self.checked(function.call(arguments))
    }

    pub(crate) fn checked<T>(&self, result: mlua::Result<T>) -> Result<T, ScriptFault> {
        result.map_err(|error| match (&error, self.limits.memory_bytes) {
            (mlua::Error::MemoryError(_), Some(limit)) => self.fault(format!(
                "the script needs more memory than the {} MiB that each of its states may use",
                limit >> 20
            )),
            _ => ScriptFault::of(&error),
        })
    }

    /// Creates an error that names the script but no line.
    pub(crate) fn fault(&self, text: String) -> ScriptFault {
        ScriptFault::new(format!("{}: {text}", self.script))
    }

    /// Flushes C's output buffer, which all states share.
    pub(crate) fn flush(&self) {
        // If a script has closed its output or replaced the library, this fails, and there is
        // nothing to flush.
        let _ = self.lua.load("io.stdout:flush()").exec();
    }
}

/// Stops a script. Returns the error that the current instruction raises. Every later instruction
/// raises it again, so the script can't continue by catching it.
fn stop(lua: &Lua, script: &str, cause: StopCause) -> mlua::Error {
    let position = position(lua).unwrap_or_else(|| script.to_owned());
    let raise = {
        let position = position.clone();
        move |_: &Lua, _: &Debug<'_>| {
            let position = position.clone();
            Err(mlua::Error::external(StoppedScript { position, cause }))
        }
    };
    let triggers = HookTriggers::new().every_nth_instruction(1);
    // Without this hook, a script that catches the error could continue until the next check.
    let _ = lua.set_global_hook(triggers, raise);
    mlua::Error::external(StoppedScript { position, cause })
}

/// Returns the innermost line on the stack that belongs to the script.
fn position(lua: &Lua) -> Option<String> {
    let position_of = |place: &Debug<'_>| {
        let file = place.source().short_src?.into_owned();
        let line = place.current_line()?;
        (file != OWN_CHUNK).then(|| format!("{file}:{line}"))
    };
    let mut levels = (0..STACK_LEVELS_MAX).map_while(|level| lua.inspect_stack(level, position_of));
    levels.find_map(|position| position)
}

/// Removes a first line that begins with `#`, as Lua does when it reads files.
fn without_first_comment(text: &[u8]) -> &[u8] {
    match text.first() {
        Some(b'#') => text
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(b"", |end| &text[end..]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script within limits.
    fn run(text: &str, limits: ScriptLimits) -> Result<LuaState, ScriptFault> {
        let source = ScriptSource {
            name: "s.lua".to_owned(),
            text: text.as_bytes().to_vec(),
        };
        LuaState::new(&ScriptSeed {
            source: &source,
            url: &ScriptUrl::default(),
            headers: &[],
            interrupt: &ScriptInterrupt::new(|| false),
            method: "GET",
            body: b"",
            notation: Notation::Flags,
            limits,
            prints_to_stderr: false,
        })
    }

    fn message(text: &str, limits: ScriptLimits) -> String {
        run(text, limits).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn an_endless_loop_is_stopped_at_its_line() {
        let limits = ScriptLimits {
            call_time: Some(Duration::from_millis(20)),
            ..ScriptLimits::default()
        };
        for (text, line) in [
            ("\nwhile true do end", 2),
            (
                "local function f()\n  for i = 1, math.huge do end\nend\nf()",
                2,
            ),
            // The loop calls functions of this crate.
            ("while true do\n  string.rep(\"x\", 2, \",\")\nend", 2),
            // The loop catches the error.
            (
                "while true do\n  pcall(function() while true do end end)\nend",
                2,
            ),
            (
                "local function f() while true do end end\nwhile true do xpcall(f, print) end",
                1,
            ),
        ] {
            let message = message(text, limits);
            let expected = format!("s.lua:{line}: the call did not return within 20 ms");
            assert!(message.starts_with(&expected), "{text}: {message}");
        }
        let state = run("function f() while true do end end", limits).unwrap();
        let called = state.call::<()>("f", Ok(state.hook("f").unwrap()), ());
        let fault = called.unwrap_err();
        assert!(fault.to_string().starts_with("s.lua:1: "), "{fault}");
        assert!(!fault.is_interrupt());
    }

    #[test]
    fn a_script_that_needs_too_much_memory_fails() {
        let limits = ScriptLimits {
            memory_bytes: Some(8 << 20),
            ..ScriptLimits::default()
        };
        let text = "local all = {}\nwhile true do all[#all + 1] = (\"x\"):rep(10000) .. #all end";
        let message = message(text, limits);
        let expected = "s.lua: the script needs more memory than the 8 MiB";
        assert!(message.starts_with(expected), "{message}");
        assert!(run("local all = (\"x\"):rep(10000)", limits).is_ok());
    }

    #[test]
    fn numbers_and_strings_replace_each_other_in_arguments() {
        for text in [
            "wrk.headers = { A = 1, [2] = 'x' }\n\
             local r = wrk.format('POST', '/', nil, 12.5)\n\
             assert(r:find('Content-Length: 4\\r\\n', 1, true) and r:find('\\r\\n\\r\\n12.5$'), r)\n\
             assert(r:find('A: 1\\r\\n', 1, true) and r:find('2: x\\r\\n', 1, true), r)",
            "wrk.body = 7\nassert(wrk.format():find('\\r\\n\\r\\n7$'))",
            "assert(wrk.format(1, 2):find('^1 2 HTTP/1.1'))",
            "wrk.host = 5\nwrk.init({})\nassert(wrk.headers.Host == '5')",
            "assert(string.rep('x', '3', 0) == 'x0x0x')",
            "assert(string.rep('x', '2') == 'xx' and string.format('%d %s', '5', 5) == '5 5')",
            "assert(math.log('8', '2') == 3)",
            "assert(table.move({ 1, 2, 3 }, '2', '3', '10', {})[11] == 3)",
            "assert(bit.band('15', 6) == 6 and bit.tohex('255', '2') == 'ff')",
        ] {
            let result = run(text, ScriptLimits::default());
            assert_eq!(result.err().map(|fault| fault.to_string()), None, "{text}");
        }
    }

    #[test]
    fn a_first_line_for_the_shell_is_skipped_and_counted() {
        let limits = ScriptLimits::default();
        assert!(run("#!/usr/bin/lua\nlocal x = 1", limits).is_ok());
        assert!(run("#!", limits).is_ok());
        let message = message("#!/usr/bin/lua\nerror(\"x\")", limits);
        assert_eq!(message, "s.lua:2: x");
    }
}
