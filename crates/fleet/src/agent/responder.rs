//! Sends the reply to an order, immediately or later.

use std::sync::Arc;

use crate::link::{NatsLink, NatsMessage};
use crate::wire::Reply;

/// Function that sends the reply to one order.
pub(super) type Responder = Box<dyn FnOnce(Reply) + Send>;

/// Creates the responder for an order that arrived over this link.
pub(super) fn responder(link: &Arc<NatsLink>, order: &NatsMessage) -> Responder {
    let (link, to) = (link.clone(), order.reply.clone());
    Box::new(move |reply: Reply| {
        if let (Some(to), Ok(json)) = (to, serde_json::to_vec(&reply)) {
            // If the reply is lost, the coordinator repeats the order and gets the same reply.
            let _ = link.publish(&to, json);
        }
    })
}
