//! Manages a Lua state that contains wrk's table and the script.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, LuaString, Table, VmState};
use prony_load::SpecError;
use prony_load::input_file::{self, TEXT_BYTES_MAX};

use crate::address::Address;
use crate::fault::ScriptFault;
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
    /// The file can't be read, or is too long.
    pub fn read(file: &Path) -> Result<ScriptSource, ScriptFault> {
        let name = file.display().to_string();
        match input_file::read(file, TEXT_BYTES_MAX) {
            Ok(text) => Ok(ScriptSource { name, text }),
            Err(error) => Err(ScriptFault(format!("{name}: cannot be read: {error}"))),
        }
    }
}

/// The URL in a script's `wrk` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptUrl {
    /// `http` or `https`, as typed.
    pub scheme: String,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
    /// Path and query, beginning with a slash.
    pub path: String,
}

/// The initial content of each Lua state of a load.
pub struct ScriptSeed<'a> {
    /// The script.
    pub source: &'a ScriptSource,
    /// The URL of the load.
    pub url: &'a ScriptUrl,
    /// The header fields that each request has by default.
    pub headers: &'a [(String, String)],
    /// Stops the script.
    pub interrupt: &'a Arc<ScriptInterrupt>,
    /// Describes an address that the load may not use.
    pub message_of: fn(&SpecError) -> String,
}

/// Stops scripts that don't end by themselves.
pub struct ScriptInterrupt {
    is_asked: Box<dyn Fn() -> bool + Send + Sync>,
    is_heeded: AtomicBool,
}

impl ScriptInterrupt {
    /// Stops scripts when `is_asked` returns true.
    pub fn new(is_asked: impl Fn() -> bool + Send + Sync + 'static) -> Arc<ScriptInterrupt> {
        Arc::new(ScriptInterrupt {
            is_asked: Box::new(is_asked),
            is_heeded: AtomicBool::new(true),
        })
    }

    /// Clears the request to stop after the load, so that `done` can run.
    pub fn spare(&self) {
        let asked = (self.is_asked)();
        self.is_heeded.store(!asked, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        (self.is_asked)() && self.is_heeded.load(Ordering::Relaxed)
    }
}

/// Lua instructions between checks for a stop: a few milliseconds.
const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 1_000_000;

/// The Lua part of the initial state. Error positions never refer to this chunk.
const DIALECT: &str = include_str!("dialect.lua");
const PRELUDE: &str = include_str!("prelude.lua");

/// A state in which the script has run.
pub(crate) struct LuaState {
    lua: Lua,
    script: String,
}

impl LuaState {
    /// Creates the state and runs the script.
    pub(crate) fn new(seed: &ScriptSeed<'_>) -> Result<LuaState, ScriptFault> {
        // SAFETY: this opens the library `debug`, with which a script may crash its own state, and
        // allows C modules, which the dialect disables before the script runs.
        let lua = unsafe { Lua::unsafe_new() };
        let state = LuaState {
            lua,
            script: seed.source.name.clone(),
        };
        state.checked(state.prepare(seed))?;
        let text = without_first_comment(&seed.source.text);
        let chunk = state.lua.load(text).set_name(format!("@{}", state.script));
        state.checked(chunk.exec())?;
        Ok(state)
    }

    fn prepare(&self, seed: &ScriptSeed<'_>) -> mlua::Result<()> {
        let lua = &self.lua;
        let interrupt = seed.interrupt.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_BETWEEN_LOOKS);
        lua.set_global_hook(triggers, move |_, place| match interrupt.is_due() {
            true => Err(interrupted(place)),
            false => Ok(VmState::Continue),
        })?;
        let message_of = seed.message_of;
        let wrk = lua.create_table()?;
        wrk.set("scheme", seed.url.scheme.as_str())?;
        wrk.set("host", seed.url.host.as_str())?;
        wrk.set("port", seed.url.port.map(|port| port.to_string()))?;
        wrk.set("method", "GET")?;
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
            lua.create_function(move |_, to: mlua::UserDataRef<Address>| to.connects(message_of))?,
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
        lua.load(DIALECT).set_name("=wrk").exec()?;
        lua.load(PRELUDE).set_name("=wrk").exec()
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// The table `wrk`, unless the script replaced it with something else.
    pub(crate) fn wrk(&self) -> Result<Table, ScriptFault> {
        self.checked(self.lua.globals().get("wrk"))
    }

    /// The global function with this name.
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
        let function =
            function.map_err(|_| self.fault(format!("{name} is not a function any more")))?;
        self.checked(function.call(arguments))
    }

    pub(crate) fn checked<T>(&self, result: mlua::Result<T>) -> Result<T, ScriptFault> {
        result.map_err(|error| ScriptFault::of(&error))
    }

    /// An error at a position that Lua does not report.
    pub(crate) fn fault(&self, text: String) -> ScriptFault {
        ScriptFault(format!("{}: {text}", self.script))
    }

    /// Flushes C's output buffer, which all states share.
    pub(crate) fn flush(&self) {
        // A script may have closed its output or replaced the library; then there is nothing to do.
        let _ = self.lua.load("io.stdout:flush()").exec();
    }
}

fn interrupted(place: &Debug<'_>) -> mlua::Error {
    let file = place.source().short_src.unwrap_or_default().into_owned();
    let line = place.current_line().unwrap_or_default();
    mlua::Error::runtime(format!("{file}:{line}: interrupted"))
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
