//! The commands. Each has a module, which only the entry point and other commands use.

pub(crate) mod agent;
pub(crate) mod bisect;
pub(crate) mod capacity;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod frontends;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod noise;
pub(crate) mod origin;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod steps;
pub(crate) mod study;
