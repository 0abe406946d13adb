//! From the text of a plan to a tree of typed values, each with its line.

mod node;
mod notation;
mod reader;

pub(crate) use node::{TomlEntry, TomlNode, TomlTable, TomlValue, parse};
pub(crate) use notation::{host_port, is_name, signal};
pub(crate) use reader::PlanReader;
