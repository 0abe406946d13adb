//! One Lua state, with wrk's table and the script in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, LuaString, Table, VmState};
use prony_load::input_file::{self, TEXT_BYTES_MAX};

use super::super::url::Url;
use super::{Address, Fault, bits, shell};
use crate::session::Stop;

/// What each state of a run begins with.
pub(in crate::wrk) struct Seed<'a> {
    pub(in crate::wrk) script: &'a Path,
    pub(in crate::wrk) url: &'a Url,
    pub(in crate::wrk) headers: &'a [(String, String)],
    pub(in crate::wrk) interrupt: &'a Arc<Interrupt>,
}

/// Ends a script that doesn't end by itself.
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

    /// The load is over: a stop that ended it is not meant for `done`.
    pub(in crate::wrk) fn spare(&self) {
        let asked = self.stop.is_asked();
        self.is_heeded.store(!asked, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        self.stop.is_asked() && self.is_heeded.load(Ordering::Relaxed)
    }
}

/// Instructions of Lua between two looks at whether the run was stopped: some milliseconds.
const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 1_000_000;

/// What each state begins with, beside what is written in Rust. Errors are never said to be these
/// chunks'.
const DIALECT: &str = include_str!("dialect.lua");
const PRELUDE: &str = include_str!("prelude.lua");

/// A state in which the script has been run.
pub(in crate::wrk) struct State {
    lua: Lua,
    script: String,
}

impl State {
    /// Makes one.
    pub(super) fn new(seed: &Seed<'_>) -> Result<State, Fault> {
        // SAFETY: this adds the library `debug`, which a script may crash its own state with, and the
        // loading of C modules, which the dialect closes before the script runs.
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
        // For those who require what is there anyhow.
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

    /// The table `wrk`, unless the script has made something else of it.
    pub(super) fn wrk(&self) -> Result<Table, Fault> {
        self.checked(self.lua.globals().get("wrk"))
    }

    /// The global function of that name.
    pub(in crate::wrk) fn hook(&self, name: &str) -> Option<Function> {
        self.lua.globals().raw_get(name).ok()
    }

    /// Calls a function, which the script may have put there.
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

    /// A fault that Lua knows no place of.
    pub(in crate::wrk) fn fault(&self, text: String) -> Fault {
        Fault(format!("{}: {text}", self.script))
    }

    /// Lua writes through C's buffers, which are one for all states.
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

/// Lua's own reader of files skips a first line that is for a shell.
fn without_first_comment(text: &[u8]) -> &[u8] {
    match text.first() {
        Some(b'#') => text
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(b"", |end| &text[end..]),
        _ => text,
    }
}
