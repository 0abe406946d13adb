//! Order in which the requests of a spec are sent.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::settings::RequestOrder;
use crate::spec::{LoadSpec, LoopModel};
use crate::values::shard::Shard;

/// One worker's position in the list of requests.
///
/// In sequential order, all workers together go through the list as a single client would. In an
/// open loop, arrival *k* requests entry *k* mod the length of the list. In a closed loop each
/// worker takes a contiguous range of the `--requests`, or, without a limit, starts where its shard
/// of the list begins.
///
/// In the order `per-user`, each virtual user has its own position, which begins at the first entry.
pub(crate) struct Sequence {
    count: u32,
    next: u32,
    stride: u32,
    draw: Option<Draw>,
    /// Position of each virtual user, by slot, if each goes through the list by itself. Otherwise
    /// empty.
    users: Vec<u32>,
}

/// Returns true if each virtual user goes through the list by itself.
fn goes_through_list_by_user(spec: &LoadSpec) -> bool {
    spec.order == RequestOrder::PerUser && spec.distinct_requests() > 1
}

/// Draws requests of the list at random.
struct Draw {
    random: ChaCha8Rng,
    /// Cumulative weights of the entries; empty if all entries have the same probability.
    cumulative_weights: Arc<[f64]>,
}

impl Draw {
    fn next(&mut self, count: u32) -> u32 {
        let Some(total) = self.cumulative_weights.last() else {
            return self.random.random_range(0..count);
        };
        let drawn = self.random.random::<f64>() * total;
        let index = self.cumulative_weights.partition_point(|sum| *sum <= drawn);
        // Because of rounding, the product can be as large as the total.
        (index as u32).min(count - 1)
    }
}

impl Sequence {
    /// Creates the position of a worker with this number of slots.
    pub(crate) fn new(spec: &LoadSpec, shard: Shard, slots: usize) -> Sequence {
        let count = spec.distinct_requests() as u64;
        let (first, stride) = match (&spec.model, spec.span.requests) {
            (LoopModel::Open { .. }, _) => (shard.worker, shard.of),
            (LoopModel::Closed, Some(limit)) => (shard.items_before(limit), 1),
            (LoopModel::Recorded, _) => (0, 1),
            (LoopModel::Closed, None) => (count * shard.worker / shard.of, 1),
        };
        let is_random = matches!(spec.order, RequestOrder::Random | RequestOrder::Weighted);
        let is_per_user = goes_through_list_by_user(spec);
        let draw = (is_random && count > 1).then(|| Draw {
            random: ChaCha8Rng::seed_from_u64(spec.seed.wrapping_add(shard.worker)),
            cumulative_weights: match spec.order {
                RequestOrder::Weighted => spec.cumulative_weights.clone(),
                _ => Arc::default(),
            },
        });
        let mut sequence = Sequence {
            count: count as u32,
            next: (first % count) as u32,
            stride: (stride % count) as u32,
            draw,
            users: vec![0; if is_per_user { slots } else { 0 }],
        };
        if sequence.draw.is_some() {
            sequence.advance();
        }
        sequence
    }

    /// Index of the next request of no particular user.
    #[inline]
    pub(crate) fn peek(&self) -> u32 {
        self.next
    }

    /// Index of the next request of the user with this slot.
    #[inline]
    pub(crate) fn peek_for(&self, slot: u32) -> u32 {
        self.users.get(slot as usize).copied().unwrap_or(self.next)
    }

    /// Returns true if each user goes through the list by itself.
    #[inline]
    pub(crate) fn is_per_user(&self) -> bool {
        !self.users.is_empty()
    }

    /// Advances past the next request of the user with this slot.
    #[inline]
    pub(crate) fn advance_for(&mut self, slot: u32) {
        match self.users.get_mut(slot as usize) {
            Some(next) => {
                *next = if *next + 1 == self.count {
                    0
                } else {
                    *next + 1
                }
            }
            None => self.advance(),
        }
    }

    /// Advances past the next request of no particular user.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(draw) = &mut self.draw {
            self.next = draw.next(self.count);
            return;
        }
        let after = u64::from(self.next) + u64::from(self.stride);
        let count = u64::from(self.count);
        self.next = if after >= count { after - count } else { after } as u32;
    }
}

/// The numbers and the data rows of one worker's requests, both counted from 0. No two requests of
/// a load have the same number, even if different workers or agents send them.
///
/// In an open loop, a worker's requests have the numbers of its arrivals. In a closed loop that
/// ends after a number of requests, each worker has a contiguous range. Request *k* takes row *k*
/// mod the number of rows.
///
/// In any other closed loop, request numbers are assigned to the workers in turn. Each worker goes
/// through all rows, starting where its shard of the rows begins. If request *k* took row *k* here
/// as well, two workers would each use only half of the rows of a file with an even number of rows.
///
/// If each virtual user goes through the list by itself, a user takes a row at the beginning of the
/// list and keeps it until the end, because a session needs the same values in all of its requests.
/// The rows go to the workers in turn, so no row is taken twice before all workers have used up
/// theirs.
pub(crate) struct RequestNumbers {
    number: u64,
    number_stride: u64,
    row: u64,
    row_stride: u64,
    /// Number of rows, at least 1.
    rows: u64,
    /// True if the next rows are taken by users, not by requests.
    is_per_user: bool,
}

impl RequestNumbers {
    pub(crate) fn new(spec: &LoadSpec, shard: Shard, rows: usize) -> RequestNumbers {
        let rows = (rows as u64).max(1);
        // Requests of the warm-up don't count towards the limit.
        let limit = spec.span.requests.filter(|_| spec.span.warmup.0 == 0);
        let (number, number_stride) = match (&spec.model, limit) {
            (LoopModel::Closed, Some(limit)) => (shard.items_before(limit), 1),
            _ => (shard.worker, shard.of),
        };
        let is_per_user = spec.journey.is_some() || goes_through_list_by_user(spec);
        let (row, row_stride) = match (&spec.model, limit) {
            _ if is_per_user => (shard.worker, shard.of),
            (LoopModel::Closed, None) => (rows * shard.worker / shard.of, 1),
            _ => (number, number_stride),
        };
        RequestNumbers {
            number,
            number_stride,
            row: row % rows,
            row_stride: row_stride % rows,
            rows,
            is_per_user,
        }
    }

    /// Returns true if a virtual user keeps its row from the beginning of the list to the end.
    pub(crate) fn is_per_user(&self) -> bool {
        self.is_per_user
    }

    /// Returns the number of the next request.
    #[inline]
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.number;
        self.number = number.wrapping_add(self.number_stride);
        number
    }

    /// Returns the next row.
    #[inline]
    pub(crate) fn take_row(&mut self) -> usize {
        let row = self.row;
        let after = row + self.row_stride;
        self.row = if after >= self.rows {
            after - self.rows
        } else {
            after
        };
        row as usize
    }
}
