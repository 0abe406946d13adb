//! Reports through the public interface. One binary, because each one has to be linked.

mod browser;
mod consistent_values;
mod golden;
mod hostile;
mod openmetrics;
mod pdf;
mod runs;
mod sample_data;
mod schema;
mod svg;
