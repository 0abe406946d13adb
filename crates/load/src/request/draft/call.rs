//! Drafts of gRPC calls: of a load, a line of a list, or a step of a journey.

use super::{Braces, DraftSource, Drafter, ListReader, RequestDraft, StepReader, merged};
use crate::request::grpc::{changing_messages, checked_metadata, undescribed};
use crate::request::template::{DataTable, Marks, ValuePlace};
use crate::settings::{GrpcMethod, JourneyStep};
use crate::values::error::SettingsError;
use crate::values::url_list::ListedRequest;

impl Drafter<'_> {
    /// Creates the draft of a gRPC call. `source` has the URL of the server, or none if the server is
    /// that of the base, and the message as JSON in place of the body.
    pub(super) fn call(
        &self,
        method: &GrpcMethod,
        source: DraftSource<'_>,
    ) -> Result<RequestDraft, SettingsError> {
        let reader = self.calls.ok_or_else(undescribed)?;
        let method = reader.method(method)?;
        let json = match source.body.first() {
            Some(piece) => std::str::from_utf8(&piece.bytes).map_err(|_| {
                source.within("body", "a message is written as JSON".to_owned().into())
            })?,
            None => "{}",
        };
        let headers = merged(&method.headers(), source.headers.clone());
        let plain = DraftSource {
            url: &method.url(source.url)?,
            method: "POST",
            headers: checked_metadata(headers)?,
            body: &[],
            place: source.place.clone(),
            ..source
        };
        let in_body = |error: SettingsError| source.within("body", error);
        let template = source.body.first().and_then(|piece| self.template(piece));
        let Some(template) = template.filter(|_| self.braces == Braces::Placeholders) else {
            let messages = method.encoder.encode(json);
            let body = messages.map_err(|error| in_body(error.into()))?;
            return Ok(RequestDraft {
                body,
                call: Some(method.kind()),
                ..self.draft(plain)?
            });
        };
        // The messages are inserted as a single value.
        let mut marks = Marks::new(source.texts());
        let value = self.marked(template, ValuePlace::Body, &mut marks);
        let value = value.and_then(|marked| {
            let rows = self.names.data.map_or(1, DataTable::row_count);
            changing_messages(&method.encoder, &marked, &marks, rows)
        });
        let value = value.map_err(in_body)?;
        let marks = Marks::new(source.texts());
        let mut draft = self.draft(plain)?;
        let marks = draft.marks.get_or_insert(marks);
        draft.body = marks.mark_listed(value).into_bytes();
        draft.body_varies = true;
        draft.call = Some(method.kind());
        Ok(draft)
    }
}

impl ListReader<'_> {
    /// Creates the draft of a line that calls a gRPC method.
    pub(super) fn call(
        &self,
        name: &str,
        line: &ListedRequest<'_>,
        source: DraftSource<'_>,
    ) -> Result<RequestDraft, SettingsError> {
        let at_line = |error: SettingsError| self.list.at_line(line.number, error);
        let method = name.parse().map_err(at_line)?;
        if line.method.is_some() {
            let error = SettingsError::from("\"grpc\" can't be combined with \"method\"");
            return Err(at_line(error.hint("remove one of them")));
        }
        self.drafter.call(&method, source)
    }
}

impl StepReader<'_> {
    /// Creates the draft of a step that calls a gRPC method.
    pub(super) fn call(
        &self,
        method: &GrpcMethod,
        step: &JourneyStep,
        (drafter, source): (&Drafter<'_>, DraftSource<'_>),
    ) -> Result<RequestDraft, SettingsError> {
        let others = [
            ("method", step.method.is_some()),
            ("form", !step.form.0.is_empty()),
            ("multipart", !step.multipart.is_empty()),
            ("page", step.page),
            ("stream", step.stream),
        ];
        if let Some((key, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            let error = SettingsError::from(format!("grpc can't be combined with {key}"));
            return Err(error.hint("remove one of them"));
        }
        drafter
            .call(method, source)
            .map_err(|error| match drafter.calls {
                Some(_) => error.without_names(),
                None => error,
            })
    }
}
