//! Order in which the spec's requests are sent.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::settings::RequestOrder;
use crate::shard::Shard;
use crate::spec::{LoadSpec, LoopModel};

/// One worker's position in the list of requests.
///
/// In sequential order, the whole load requests the list as one client would, whatever the number
/// of workers. With an open loop, arrival *k* requests entry *k* mod the list's length. In a closed
/// loop each worker takes a contiguous range of the `--requests`, or, without a limit, starts where
/// its shard of the list begins.
pub(crate) struct Sequence {
    count: u32,
    next: u32,
    stride: u32,
    random: Option<ChaCha8Rng>,
}

impl Sequence {
    pub(crate) fn new(spec: &LoadSpec, shard: Shard) -> Sequence {
        let count = spec.requests.len() as u64;
        let (first, stride) = match (spec.model, spec.span.requests) {
            (LoopModel::Open { .. }, _) => (shard.worker, shard.of),
            (LoopModel::Closed, Some(limit)) => (shard.items_before(limit), 1),
            (LoopModel::Closed, None) => (count * shard.worker / shard.of, 1),
        };
        let random = (spec.order == RequestOrder::Random && count > 1)
            .then(|| ChaCha8Rng::seed_from_u64(spec.seed.wrapping_add(shard.worker)));
        let mut sequence = Sequence {
            count: count as u32,
            next: (first % count) as u32,
            stride: (stride % count) as u32,
            random,
        };
        if sequence.random.is_some() {
            sequence.advance();
        }
        sequence
    }

    /// Index of the next request.
    #[inline]
    pub(crate) fn peek(&self) -> u32 {
        self.next
    }

    /// Advances to the next request.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(random) = &mut self.random {
            self.next = random.random_range(0..self.count);
            return;
        }
        let after = u64::from(self.next) + u64::from(self.stride);
        let count = u64::from(self.count);
        self.next = if after >= count { after - count } else { after } as u32;
    }
}
