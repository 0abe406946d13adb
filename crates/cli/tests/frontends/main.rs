//! Compares `prony hey`, `prony wrk`, `prony ab` and `prony siege` with hey, wrk, ab and siege: the
//! same arguments, the same server, and scripts for the originals applied to both outputs.

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
