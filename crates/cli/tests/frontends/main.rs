//! hey, wrk, ab and siege beside `prony hey`, `prony wrk`, `prony ab` and `prony siege`: the same
//! arguments, the same server, and scripts written for the originals over both outputs.

mod ab;
mod beside;
mod dialect;
mod hey;
mod recorder;
mod siege;
mod site;
mod streams;
mod wrk;
mod wrk_scripts;
