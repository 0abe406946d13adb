//! Renders requests with placeholders or cookies into buffers of their slots when the requests
//! begin.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cookies::UserJar;
use super::journeys::JourneyNumbers;
use crate::engine::sequence::RequestNumbers;
use crate::request::Request;
use crate::request::long_list::LineTexts;
use crate::request::request_template::{RenderBuffers, RequestTemplates};
use crate::request::template::{ValueSource, VariableValues};
use crate::settings::DataOrder;
use crate::spec::LoadSpec;
use crate::values::shard::Shard;

/// Index of the random stream from which the values are drawn. The order of the list uses the first
/// stream of the same seed.
const RANDOM_STREAM: u64 = 1;

/// Renders the requests of one worker.
pub(super) struct Renderer<'run> {
    spec: &'run LoadSpec,
    templates: &'run RequestTemplates,
    numbers: RequestNumbers,
    random: ChaCha8Rng,
    data_order: DataOrder,
    /// Data row of each virtual user, by slot, if a user keeps its row. Grows with the slots used.
    user_rows: Vec<usize>,
    buffers: RenderBuffers,
    /// Finished requests, with the indices of their requests or forms in the spec. The memory of
    /// these requests is reused.
    ended: Vec<(u32, Arc<Request>)>,
    /// True if redirects are followed. Memory is then not reused, because redirected requests are
    /// identified by their address in memory.
    follows_redirects: bool,
}

impl<'run> Renderer<'run> {
    /// Creates the renderer of a worker; `None` if no request has a template.
    pub(super) fn new(spec: &'run LoadSpec, shard: Shard) -> Option<Renderer<'run>> {
        let templates = spec.templates.as_deref()?;
        let mut random = ChaCha8Rng::seed_from_u64(spec.seed.wrapping_add(shard.worker));
        random.set_stream(RANDOM_STREAM);
        Some(Renderer {
            spec,
            templates,
            numbers: RequestNumbers::new(spec, shard, templates.rows()),
            random,
            data_order: spec.data_order,
            user_rows: Vec::new(),
            buffers: RenderBuffers::default(),
            ended: Vec::new(),
            follows_redirects: spec.responses.follow > 0,
        })
    }

    /// Renders the load's next request, from entry `entry` of the list, for the virtual user with
    /// this slot. Returns `None` if the entry has no template; the request still uses up a number
    /// and a data row. `jar` has the cookies of the user, if there are any.
    pub(super) fn render(
        &mut self,
        entry: u32,
        slot: u32,
        jar: Option<UserJar<'_>>,
    ) -> Option<Arc<Request>> {
        let number = self.numbers.take_number();
        let row = self.row(entry, slot as usize);
        let numbers = JourneyNumbers { number, row };
        let line = self.spec.texts_of(entry);
        let form = self.spec.form_of(entry);
        self.render_with((form, line), (numbers, VariableValues::default()), jar)
    }

    /// Renders a request of a log, with this form.
    pub(super) fn render_logged(
        &mut self,
        form: u32,
        line: LineTexts<'_>,
        jar: Option<UserJar<'_>>,
    ) -> Option<Arc<Request>> {
        let number = self.numbers.take_number();
        let numbers = JourneyNumbers { number, row: 0 };
        self.render_with((form, line), (numbers, VariableValues::default()), jar)
    }

    /// Renders the request of a journey's step with these values.
    pub(super) fn render_step(
        &mut self,
        step: u32,
        values: (JourneyNumbers, VariableValues<'_>),
        jar: Option<UserJar<'_>>,
    ) -> Option<Arc<Request>> {
        let line = self.spec.texts_of(step);
        self.render_with((self.spec.form_of(step), line), values, jar)
    }

    fn render_with(
        &mut self,
        (form, line): (u32, LineTexts<'_>),
        (numbers, variables): (JourneyNumbers, VariableValues<'_>),
        jar: Option<UserJar<'_>>,
    ) -> Option<Arc<Request>> {
        let template = self.templates.get(form)?;
        let mut source = ValueSource {
            row: numbers.row,
            number: numbers.number,
            variables,
            random: &mut self.random,
            line,
        };
        let listed = &self.spec.requests[form as usize];
        let mut rendered = match self.ended.pop() {
            Some((own, request)) if own == form => request,
            Some((_, mut request)) => {
                if let Some(request) = Arc::get_mut(&mut request) {
                    request.adopt(listed);
                }
                request
            }
            None => Arc::new(listed.clone()),
        };
        if let Some(request) = Arc::get_mut(&mut rendered) {
            template.draw(&mut source, &mut self.buffers);
            let cookie = jar.and_then(|user| template.cookie(user.jar, user.time, &self.buffers));
            let further = cookie.as_deref().map(|value| ("cookie", value));
            template.render(further, &mut self.buffers, request);
        }
        Some(rendered)
    }

    /// Returns the data row of a request.
    fn row(&mut self, entry: u32, slot: usize) -> usize {
        if !self.numbers.is_per_user() {
            return self.next_row();
        }
        if slot >= self.user_rows.len() {
            self.user_rows.resize(slot + 1, 0);
        }
        if entry == 0 {
            self.user_rows[slot] = self.next_row();
        }
        self.user_rows[slot]
    }

    fn next_row(&mut self) -> usize {
        let next = self.numbers.take_row();
        match self.data_order {
            DataOrder::Sequence => next,
            DataOrder::Random => self.random.random_range(0..self.templates.rows()),
        }
    }

    /// Reclaims a request that has finished, to reuse its memory.
    pub(super) fn recycle(&mut self, entry: u32, mut request: Arc<Request>) {
        // A script may keep a reference to its request.
        if !self.follows_redirects && Arc::get_mut(&mut request).is_some() {
            self.ended.push((self.spec.form_of(entry), request));
        }
    }
}
