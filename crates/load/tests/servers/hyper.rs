//! hyper, as the embedded origin uses it.

use crate::checks::check_all;
use crate::server::Server;

check_all!(Server::embedded());
