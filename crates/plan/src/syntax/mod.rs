//! Parses a plan's text into a tree of typed values with line numbers.

mod node;
mod notation;
mod reader;

pub(crate) use node::{TomlEntry, TomlNode, TomlTable, TomlValue, parse, without_keys};
pub(crate) use notation::{SIGTERM, host_port, is_name, signal};
pub(crate) use reader::PlanReader;
