//! Tests of reports through the public interface. They share one binary, because linking several
//! takes longer.

mod browser;
mod consistent_values;
mod golden;
mod hostile;
mod openmetrics;
mod otlp;
mod runs;
mod sample_data;
mod schema;
mod svg;
