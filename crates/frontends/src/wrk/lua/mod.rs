//! wrk's scripts: a Lua state for each thread, and one before and after them all.
//!
//! Whatever a script is given or asked is wrk's documented interface (its file SCRIPTING).

mod address;
mod bits;
mod carry;
mod fault;
mod figures;
mod shell;
mod state;
mod thread;

pub(super) use address::Address;
pub(super) use fault::Fault;
pub(super) use state::{Interrupt, Seed, State};
pub(super) use thread::Handle;

use mlua::{Function, Table, Value};

use super::report::Results;
use crate::head::{fields, texts};
use figures::Figures;

/// The states of a run: `main`, in which `setup` and `done` are called, and one for each thread.
pub(super) struct Scripts {
    main: State,
    threads: Vec<Thread>,
}

/// A thread's state, and what the others have of it.
pub(super) struct Thread {
    pub(super) state: State,
    pub(super) handle: Handle,
}

impl Scripts {
    /// Runs the script for itself and once for each thread, finds the server's addresses, and calls
    /// `setup` and `init`.
    ///
    /// # Errors
    ///
    /// The first that the script raised; an address list that is empty is `Ok(None)`.
    pub(super) fn load(
        seed: &Seed<'_>,
        service: &str,
        threads: u64,
        arguments: &[String],
    ) -> Result<Option<Scripts>, Fault> {
        let main = State::new(seed)?;
        let wrk = main.wrk()?;
        main.call::<()>(
            "wrk.resolve",
            wrk.get("resolve"),
            (seed.url.host.as_str(), service),
        )?;
        let addresses: Table = main.checked(wrk.get("addrs"))?;
        if addresses.raw_len() == 0 {
            return Ok(None);
        }
        let mut all = Vec::new();
        for _ in 0..threads {
            let state = State::new(seed)?;
            let handle = Handle::of(state.lua());
            let own = state.wrk()?;
            state.checked(own.set("thread", handle.clone()))?;
            main.call::<()>("setup", wrk.get("setup"), handle.clone())?;
            let words = state.checked(words(&state, arguments))?;
            state.call::<()>("init", own.get("init"), words)?;
            all.push(Thread { state, handle });
        }
        main.flush();
        Ok(Some(Scripts { main, threads: all }))
    }

    /// In the order of their numbers.
    pub(super) fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Writes out what scripts have printed, as their output is kept apart from this program's.
    pub(super) fn flush(&self) {
        self.main.flush();
    }

    /// Calls `done`, if there is one.
    ///
    /// # Errors
    ///
    /// What it raised.
    pub(super) fn done(&self, results: &Results) -> Result<(), Fault> {
        let main = &self.main;
        if let Some(done) = main.hook("done") {
            let summary = main.checked(summary(main, results))?;
            let latency = Figures(results.latency.clone());
            let rates = Figures(results.rates.clone());
            main.call::<()>("done", Ok(done), (summary, latency, rates))?;
        }
        main.flush();
        Ok(())
    }
}

impl Thread {
    /// What `request` gives, or where there is none, the thread's only request.
    ///
    /// # Errors
    ///
    /// What it raised, or that it is no string.
    pub(super) fn request(&self) -> Result<mlua::LuaString, Fault> {
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
        text.ok_or_else(|| state.fault(format!("request() gave a {kind} in place of a string")))
    }

    /// What `delay` gives in milliseconds, where there is one; negative ones and none are 0.
    ///
    /// # Errors
    ///
    /// What it raised.
    pub(super) fn delay_ms(&self) -> Result<f64, Fault> {
        let Some(delay) = self.state.hook("delay") else {
            return Ok(0.0);
        };
        let value: Value = self.state.call("delay", Ok(delay), ())?;
        let number = self.state.checked(self.state.lua().coerce_number(value))?;
        // A NaN is not more than 0 either.
        Ok(number.filter(|ms| *ms > 0.0).unwrap_or(0.0))
    }

    /// Calls `response`, if there is still one.
    ///
    /// # Errors
    ///
    /// What it raised.
    pub(super) fn response(&self, status: u16, head: &[u8], body: &[u8]) -> Result<(), Fault> {
        let Some(response) = self.state.hook("response") else {
            return Ok(());
        };
        let arguments = self.state.checked(self.answer(head, body))?;
        self.state
            .call("response", Ok(response), (status, arguments.0, arguments.1))
    }

    fn answer(&self, head: &[u8], body: &[u8]) -> mlua::Result<(Table, mlua::LuaString)> {
        let lua = self.state.lua();
        // Texts are made into Lua's strings in one go, and nearly all heads are text.
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

/// A script's arguments: the URL is number 0.
fn words(state: &State, arguments: &[String]) -> mlua::Result<Table> {
    let words = state.lua().create_table()?;
    for (index, argument) in arguments.iter().enumerate() {
        words.raw_set(index, argument.as_str())?;
    }
    Ok(words)
}

fn summary(main: &State, results: &Results) -> mlua::Result<Table> {
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
