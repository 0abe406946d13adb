//! Tests of hyper, which the embedded origin uses.

use crate::checks::check_all;
use crate::server::Server;

check_all!(Server::embedded());
