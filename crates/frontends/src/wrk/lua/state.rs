//! Manages a Lua state that contains wrk's table and the script.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, LuaString, Table, VmState};
use prony_load::input_file::{self, TEXT_BYTES_MAX};

use super::super::address::Address;
use super::super::url::WrkUrl;
use super::{Fault, bits, shell};
use crate::session::Stop;

/// The initial content of each state of a run.
pub(in crate::wrk) struct Seed<'a> {
    pub(in crate::wrk) script: &'a Path,
    pub(in crate::wrk) url: &'a WrkUrl,
    pub(in crate::wrk) headers: &'a [(String, String)],
    pub(in crate::wrk) interrupt: &'a Arc<Interrupt>,
}

/// Stops scripts that don't end by themselves.
pub(in crate::wrk) struct Interrupt {
    stop: Arc<Stop>,
    is_heeded: AtomicBool,
}

impl Interrupt {
    pub(in crate::wrk) fn new(stop: Arc<Stop>) -> Arc<Interrupt> {
        Arc::new(Interrupt {
            stop,
            is_heeded: AtomicBool::new(true),
        })
    }

    /// Clears the request to stop after the load, so that `done` can run.
    pub(in crate::wrk) fn spare(&self) {
        let asked = self.stop.is_asked();
        self.is_heeded.store(!asked, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        self.stop.is_asked() && self.is_heeded.load(Ordering::Relaxed)
    }
}

/// Lua instructions between checks for a stop: a few milliseconds.
const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 1_000_000;

/// The Lua part of the initial state. Error positions never refer to this chunk.
const DIALECT: &str = include_str!("dialect.lua");
const PRELUDE: &str = include_str!("prelude.lua");

/// A state in which the script has run.
pub(in crate::wrk) struct State {
    lua: Lua,
    script: String,
}

impl State {
    /// Creates the state and runs the script.
    pub(super) fn new(seed: &Seed<'_>) -> Result<State, Fault> {
        // SAFETY: this opens the library `debug`, with which a script may crash its own state, and
        // allows C modules, which the dialect disables before the script runs.
        let lua = unsafe { Lua::unsafe_new() };
        let state = State {
            lua,
            script: seed.script.display().to_string(),
        };
        state.checked(state.prepare(seed))?;
        let text = input_file::read(seed.script, TEXT_BYTES_MAX)
            .map_err(|error| Fault(format!("{}: cannot be read: {error}", state.script)))?;
        let text = without_first_comment(&text);
        let chunk = state.lua.load(text).set_name(format!("@{}", state.script));
        state.checked(chunk.exec())?;
        Ok(state)
    }

    fn prepare(&self, seed: &Seed<'_>) -> mlua::Result<()> {
        let lua = &self.lua;
        let interrupt = seed.interrupt.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_BETWEEN_LOOKS);
        lua.set_global_hook(triggers, move |_, place| match interrupt.is_due() {
            true => Err(interrupted(place)),
            false => Ok(VmState::Continue),
        })?;
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
            lua.create_function(|_, to: mlua::UserDataRef<Address>| to.connects())?,
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

    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// The table `wrk`, unless the script replaced it with something else.
    pub(super) fn wrk(&self) -> Result<Table, Fault> {
        self.checked(self.lua.globals().get("wrk"))
    }

    /// The global function with this name.
    pub(in crate::wrk) fn hook(&self, name: &str) -> Option<Function> {
        self.lua.globals().raw_get(name).ok()
    }

    /// Calls a function that the script may have defined.
    pub(super) fn call<R: FromLuaMulti>(
        &self,
        name: &str,
        function: mlua::Result<Function>,
        arguments: impl IntoLuaMulti,
    ) -> Result<R, Fault> {
        let function =
            function.map_err(|_| self.fault(format!("{name} is not a function any more")))?;
        self.checked(function.call(arguments))
    }

    pub(super) fn checked<T>(&self, result: mlua::Result<T>) -> Result<T, Fault> {
        result.map_err(|error| Fault::of(&error))
    }

    /// An error at a position that Lua does not report.
    pub(in crate::wrk) fn fault(&self, text: String) -> Fault {
        Fault(format!("{}: {text}", self.script))
    }

    /// Flushes C's output buffer, which all states share.
    pub(super) fn flush(&self) {
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
