//! Runs wrk's Lua scripts as scripts of the load engine.
//!
//! Input: a script, the URL and header fields of a load, and later its results. Output: a
//! [`Director`](prony_load::script::Director), which gives the engine each request, and the
//! script's own output. Scripts use the interface that wrk documents in its file SCRIPTING. There
//! is one Lua state per worker thread, and one for `setup` and `done`. This crate starts no load
//! and prints nothing by itself.

mod address;
mod bits;
mod carry;
mod fault;
mod figures;
mod hooks;
mod native;
pub mod request;
mod results;
mod scripts;
mod shell;
mod state;
mod statistics;
mod thread;

pub use address::Address;
pub use fault::ScriptFault;
pub use hooks::{DefinedHooks, HookSettings, LuaHooks, RequestForm};
pub use native::LuaLoader;
pub use results::{RateSampler, SAMPLING_INTERVAL, WrkErrors, WrkFigures};
pub use scripts::{LuaScripts, ScriptThread, ServerAddresses};
pub use state::{ScriptInterrupt, ScriptLimits, ScriptSeed, ScriptSource, ScriptUrl};
pub use statistics::Statistics;
