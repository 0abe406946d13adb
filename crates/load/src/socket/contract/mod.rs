//! Tests of the contracts in [`super::Sockets`], [`super::ByteSockets`] and
//! [`super::StreamSockets`], applied to every backend.
//!
//! Each rule is a function over any backend. The macro at the end of the file turns the rules into
//! tests for each backend and each kind of socket.

mod apparatus;
mod closing;
mod connecting;
mod link;
mod streams;
mod transfer;
mod waiting;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use socket2::{Domain, SockAddr, Socket, Type};

use super::local::{Binding, Source, local_ports};
use super::{
    ByteSockets, Close, Operation, Outgoing, Peer, PollSockets, Route, Sending, WaitBatch,
};
use apparatus::{
    COMPLETION_TIMEOUT, Listener, Observed, Via, connected, finish_connect, join, key, loopback,
    pattern, poll_once, reap, receive_all, rest, send_shared, to, unused_address,
};
use link::other_source;

/// Calls a macro with the rules that every backend must obey.
macro_rules! shared_rules {
    ($macro:ident! { $($before:tt)* }) => {
        $macro! { $($before)*
            connecting::indices_are_reused_with_new_generations,
            connecting::a_connect_completes_once,
            connecting::connections_use_the_requested_source,
            connecting::an_open_connection_has_an_address,
            transfer::receiving_begins_with_the_connection,
            transfer::a_send_of_any_size_completes_once,
            transfer::both_directions_work_at_the_same_time,
            transfer::bytes_arrive_in_order_before_the_end,
            transfer::large_responses_arrive_whole_on_all_connections,
            transfer::small_buffers_carry_large_responses,
            transfer::a_send_works_after_the_peers_end,
            transfer::bytes_before_a_failed_send_are_received,
            transfer::a_reset_fails_the_receive,
            closing::a_closed_key_gets_no_more_completions,
            waiting::a_coalesced_wait_ends,
            closing::a_close_reaches_the_peer_in_the_requested_way,
            closing::sent_bytes_arrive_before_an_orderly_end,
            closing::dropping_a_backend_closes_all_connections,
            closing::dropping_an_idle_backend_closes_all_connections,
            waiting::time_advances_and_waits_end,
        }
    };
}

macro_rules! contract {
    ($backend:ident, $make:expr) => {
        mod $backend {
            use super::*;

            shared_rules!(contract! { @each $make;
                closing::an_unreaped_connection_can_be_aborted,
            });

            #[test]
            fn invalid_paths_are_failures() {
                connecting::invalid_paths_are_failures($make);
            }

            #[test]
            fn a_connect_in_flight_can_be_canceled() {
                connecting::a_connect_in_flight_can_be_canceled($make);
            }

            #[test]
            fn a_full_backlog_is_reported() {
                connecting::a_full_backlog_is_reported($make);
            }
        }
    };
    (@each $make:expr; $($subject:ident::$promise:ident,)*) => {
        $(mod $promise {
            use super::*;

            #[test]
            fn v4() {
                $subject::$promise($make, Via::V4);
            }

            #[test]
            fn v6() {
                $subject::$promise($make, Via::V6);
            }

            #[test]
            fn unix() {
                $subject::$promise($make, Via::Unix);
            }
        })*
    };
}

/// Turns rules into tests over IPv4 and IPv6, for the backend that bypasses the kernel. In this
/// backend, a handshake proceeds only while completions are being reaped, so no connection is
/// established before that.
macro_rules! contract_over_link {
    ($($subject:ident::$promise:ident,)*) => {
        mod xdp {
            use super::*;

            $(mod $promise {
                use super::*;

                #[test]
                fn v4() {
                    link::over_link(|sockets| $subject::$promise(sockets, Via::V4));
                }

                #[test]
                fn v6() {
                    link::over_link(|sockets| $subject::$promise(sockets, Via::V6));
                }
            })*

            #[test]
            fn invalid_paths_are_failures() {
                link::over_link(|sockets| connecting::invalid_paths_are_failures(sockets));
            }
        }
    };
}

shared_rules!(contract_over_link! {});

contract!(poll, PollSockets::new(8).unwrap());
contract!(uring, crate::socket::UringSockets::new(8).unwrap());
contract!(
    uring_before_6_12,
    crate::socket::UringSockets::as_before_6_12(8).unwrap()
);
