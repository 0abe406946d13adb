//! Runs wrk's scripts, with one Lua state per thread and one for `setup` and `done`.
//!
//! Scripts use the interface that wrk documents in its file SCRIPTING.

use mlua::{Function, Table, Value};
use prony_load::response_head::{fields, texts};
use prony_load::{Notation, SpecError};

use crate::address::Address;
use crate::fault::ScriptFault;
use crate::figures::FiguresObject;
use crate::results::WrkFigures;
use crate::state::{LuaState, ScriptSeed};
use crate::thread::ThreadHandle;

/// Lua states of a run: `main` for `setup` and `done`, and one per thread.
pub struct LuaScripts {
    main: LuaState,
    notation: Notation,
    threads: Vec<ScriptThread>,
}

/// A thread's Lua state, and the object that represents the thread in other states.
pub struct ScriptThread {
    pub(crate) state: LuaState,
    pub(crate) handle: ThreadHandle,
}

/// Server addresses among which a script's threads choose.
#[derive(Debug, Clone, Copy)]
pub enum ServerAddresses<'a> {
    /// All addresses of the URL's host that accept connections at this port, or at the default port
    /// of `http` or `https`.
    LookedUp {
        /// The port, or the scheme `http` or `https`.
        service: &'a str,
    },
    /// The address of the load; `None` if the load does not connect over TCP directly.
    Known(Option<Address>),
}

impl LuaScripts {
    /// Runs the script in the main state and once per thread, determines the server's addresses,
    /// and calls `setup` and `init`.
    ///
    /// # Errors
    ///
    /// Returns the first error that the script raised. `Ok(None)` means that the server has no
    /// address.
    pub fn load(
        seed: &ScriptSeed<'_>,
        addresses: ServerAddresses<'_>,
        threads: u64,
        arguments: &[String],
    ) -> Result<Option<LuaScripts>, ScriptFault> {
        let main = LuaState::new(seed)?;
        let wrk = main.wrk()?;
        match addresses {
            ServerAddresses::LookedUp { service } => {
                main.call::<()>(
                    "wrk.resolve",
                    wrk.get("resolve"),
                    (seed.url.host.as_str(), service),
                )?;
                let found: Table = main.checked(wrk.get("addrs"))?;
                if found.raw_len() == 0 {
                    return Ok(None);
                }
            }
            ServerAddresses::Known(address) => {
                let known = main.lua().create_sequence_from(address);
                main.checked(known.and_then(|known| wrk.set("addrs", known)))?;
            }
        }
        let mut all = Vec::new();
        for _ in 0..threads {
            let state = LuaState::new(seed)?;
            let handle = ThreadHandle::of(state.lua());
            let own = state.wrk()?;
            state.checked(own.set("thread", handle.clone()))?;
            main.call::<()>("setup", wrk.get("setup"), handle.clone())?;
            let words = state.checked(argument_table(&state, arguments))?;
            state.call::<()>("init", own.get("init"), words)?;
            all.push(ScriptThread { state, handle });
        }
        main.flush();
        Ok(Some(LuaScripts {
            main,
            notation: seed.notation,
            threads: all,
        }))
    }

    /// Returns all threads, in the order of their numbers.
    pub fn threads(&self) -> &[ScriptThread] {
        &self.threads
    }

    /// Formats an error in the notation of the script's load.
    pub(crate) fn message_of(&self, error: &SpecError) -> String {
        error.in_notation(self.notation)
    }

    /// Creates an error that names the script but no line.
    pub(crate) fn fault(&self, text: String) -> ScriptFault {
        self.main.fault(text)
    }

    /// Flushes the scripts' output, which the C library buffers.
    pub fn flush(&self) {
        self.main.flush();
    }

    /// Calls `done`, if it exists.
    ///
    /// # Errors
    ///
    /// Returns the error that `done` raised.
    pub fn done(&self, results: &WrkFigures) -> Result<(), ScriptFault> {
        let main = &self.main;
        if let Some(done) = main.hook("done") {
            let summary = main.checked(summary_table(main, results))?;
            let latency = FiguresObject(results.latency.clone());
            let rates = FiguresObject(results.rates.clone());
            main.call::<()>("done", Ok(done), (summary, latency, rates))?;
        }
        main.flush();
        Ok(())
    }
}

impl ScriptThread {
    /// Returns the server address that `setup` chose for the thread's connections.
    pub fn address(&self) -> Option<Address> {
        self.handle.address()
    }

    /// Creates an error about the result of the thread's `request`.
    pub fn request_fault(&self, text: &str) -> ScriptFault {
        self.state.fault(format!("request(): {text}"))
    }

    /// Returns the result of `request`, or the thread's constant request if there is no such hook.
    ///
    /// # Errors
    ///
    /// Returns the error that the hook raised, or an error if its result is not a string.
    pub fn request(&self) -> Result<Vec<u8>, ScriptFault> {
        let state = &self.state;
        let value: Value = match state.hook("request") {
            Some(request) => state.call("request", Ok(request), ())?,
            None => {
                let request: mlua::Result<Function> = state.wrk()?.get("request");
                state.call("wrk.request", request, ())?
            }
        };
        let kind = value.type_name();
        let text = state.checked(state.lua().coerce_string(value))?;
        let text = text.ok_or_else(|| {
            state.fault(format!("request() returned a {kind} instead of a string"))
        })?;
        Ok(text.as_bytes().to_vec())
    }

    /// Returns the result of `delay` in milliseconds; 0 without the hook or if the result is
    /// negative.
    ///
    /// # Errors
    ///
    /// Returns the error that the hook raised.
    pub(crate) fn delay_ms(&self) -> Result<f64, ScriptFault> {
        let Some(delay) = self.state.hook("delay") else {
            return Ok(0.0);
        };
        let value: Value = self.state.call("delay", Ok(delay), ())?;
        let number = self.state.checked(self.state.lua().coerce_number(value))?;
        // The filter also rejects NaN, which is not greater than 0.
        Ok(number.filter(|ms| *ms > 0.0).unwrap_or(0.0))
    }

    /// Calls `response`, if it still exists.
    ///
    /// # Errors
    ///
    /// Returns the error that the hook raised.
    pub(crate) fn response(
        &self,
        status: u16,
        head: &[u8],
        body: &[u8],
    ) -> Result<(), ScriptFault> {
        let Some(response) = self.state.hook("response") else {
            return Ok(());
        };
        let arguments = self.state.checked(self.response_arguments(head, body))?;
        self.state
            .call("response", Ok(response), (status, arguments.0, arguments.1))
    }

    fn response_arguments(
        &self,
        head: &[u8],
        body: &[u8],
    ) -> mlua::Result<(Table, mlua::LuaString)> {
        let lua = self.state.lua();
        // Nearly all heads are valid UTF-8, so they can be converted to Lua strings in one pass.
        let headers = match std::str::from_utf8(head) {
            Ok(_) => lua.create_table_from(texts(head))?,
            Err(_) => {
                let headers = lua.create_table()?;
                for (name, value) in fields(head) {
                    headers.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
                }
                headers
            }
        };
        Ok((headers, lua.create_string(body)?))
    }
}

/// Creates the table of a script's arguments. Argument 0 is the URL.
fn argument_table(state: &LuaState, arguments: &[String]) -> mlua::Result<Table> {
    let words = state.lua().create_table()?;
    for (index, argument) in arguments.iter().enumerate() {
        words.raw_set(index, argument.as_str())?;
    }
    Ok(words)
}

fn summary_table(main: &LuaState, results: &WrkFigures) -> mlua::Result<Table> {
    let errors = main.lua().create_table()?;
    let of = &results.errors;
    for (name, count) in [
        ("connect", of.connect),
        ("read", of.read),
        ("write", of.write),
        ("status", of.status),
        ("timeout", of.timeout),
    ] {
        errors.raw_set(name, count)?;
    }
    let summary = main.lua().create_table()?;
    summary.raw_set("duration", results.duration.as_micros() as u64)?;
    summary.raw_set("requests", results.requests)?;
    summary.raw_set("bytes", results.bytes)?;
    summary.raw_set("errors", errors)?;
    Ok(summary)
}
