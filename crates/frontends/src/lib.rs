//! The arguments and printed results of hey, wrk, ab and siege: room kept for it, nothing built yet.
//!
//! What will enter: such a tool's own arguments, turned into a load spec. What will leave: that
//! tool's own printed lines, made from a record. It will never drive a load by itself.
