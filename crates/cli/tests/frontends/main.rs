//! Compares `prony hey`, `prony wrk`, `prony ab` and `prony siege` with the original tools. Both
//! get the same arguments and load the same server, and scripts written for the originals must work
//! on both outputs.

mod ab;
mod ab_requests;
mod dialect;
mod hey;
mod hey_requests;
mod programs;
mod recorder;
mod siege;
mod site;
mod streams;
mod wrk;
mod wrk_lua;
mod wrk_scripts;
