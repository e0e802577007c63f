//! From messages to what a person says.

use std::sync::Arc;

use paceline_core::controls::{New, OverLimit, USUAL_LENGTH, What, Whom};
use paceline_core::forget::Forget;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_proto::{convert, v1};
use tonic::Status;

use super::How;
use crate::grpc::{Problems, check_name};

/// A field, and what is wrong with it.
pub(super) type Wrong = (&'static str, String);

pub(super) fn mode(number: i32) -> Result<What, Wrong> {
    let mode = match v1::Mode::try_from(number) {
        Ok(v1::Mode::Off) => Mode::Off,
        Ok(v1::Mode::Shadow) => Mode::Shadow,
        Ok(v1::Mode::Enforce) => Mode::Enforce,
        Ok(v1::Mode::Unspecified) | Err(_) => return Err(("mode", "must be OFF, SHADOW or ENFORCE".to_owned())),
    };
    Ok(What::Mode(mode))
}

pub(super) fn limit(limit: Option<&v1::Limit>) -> Result<What, Wrong> {
    let Some(limit) = limit else { return Err(("limit", "must be there".to_owned())) };
    if limit.bucket.trim().is_empty() || limit.bucket.len() > 200 {
        return Err(("limit.bucket", "must be a bucket's label, such as requests or account/tokens".to_owned()));
    }
    let per = convert::optional_span("limit.per", limit.per.as_ref());
    let per = per.map_err(|error| ("limit.per", error.problem.to_string()))?;
    Ok(What::Limit(OverLimit { bucket: Arc::from(limit.bucket.as_str()), units: limit.units, per }))
}

/// What is said, and how.
pub(super) fn said(
    what: Result<What, Wrong>,
    selector: Option<v1::Selector>,
    said: Option<v1::Said>,
) -> Result<(New, How), Status> {
    let mut wrong = Problems::default();
    let what = what.map_err(|(field, problem)| wrong.add(field, problem)).ok();
    let whom = whom(selector.as_ref(), &mut wrong);
    let said = said.unwrap_or_default();
    let lasts = wrong.take(convert::optional_span("said.lasts", said.lasts.as_ref())).flatten().unwrap_or(USUAL_LENGTH);
    let how = How { is_trial: said.dry_run, even_if_unseen: said.even_if_unseen, is_here: said.here };
    let (reason, who) = (Arc::from(said.reason.trim()), Arc::from(said.who.trim()));
    match what {
        Some(what) => wrong.into_result((New { what, whom, lasts, reason, who }, how)),
        None => Err(wrong.into_status()),
    }
}

/// Which controls are to be ended: those of a selector, or the one with a number.
pub(super) fn which(request: &v1::EndControlsRequest) -> Result<(Option<Whom>, u64), Status> {
    let mut wrong = Problems::default();
    match (&request.selector, request.id) {
        (None, 0) => wrong.add("selector", "is not there, and neither is id: say which controls are to be ended"),
        (Some(_), 1..) => wrong.add("id", "cannot be told together with a selector"),
        (None, id) => return Ok((None, id)),
        (Some(_), 0) => {}
    }
    let whom = whom(request.selector.as_ref(), &mut wrong);
    if request.who.chars().count() > 100 || request.who.contains(char::is_control) {
        wrong.add("who", "must be at most 100 characters on one line");
    }
    wrong.into_result((Some(whom), 0))
}

pub(super) fn forget(request: &v1::ForgetRequest) -> Result<(Forget, Whom), Status> {
    let mut wrong = Problems::default();
    let whom = whom(request.selector.as_ref(), &mut wrong);
    if !whom.is_of_all_callers() {
        wrong.add("selector", "what answers taught is not kept by tenant or priority: leave them out");
    }
    let v1::ForgetRequest { floors, learned, breakers, quotas, .. } = *request;
    if !(floors || learned || breakers || quotas) {
        wrong.add("floors", "nothing is to be forgotten: set floors, learned, breakers or quotas");
    }
    for (field, text) in [("reason", &request.reason), ("who", &request.who)] {
        if text.trim().is_empty() || text.chars().count() > 200 || text.contains(char::is_control) {
            wrong.add(field, "must be there, of at most 200 characters on one line");
        }
    }
    wrong.into_result((Forget { floors, learned, breakers, quotas }, whom))
}

fn whom(selector: Option<&v1::Selector>, wrong: &mut Problems) -> Whom {
    let Some(selector) = selector else {
        wrong.add("selector", "must be there; an empty one touches everything");
        return Whom::default();
    };
    let names = [
        ("selector.provider", &selector.provider),
        ("selector.account", &selector.account),
        ("selector.model", &selector.model),
        ("selector.tenant", &selector.tenant),
    ];
    for (field, name) in names {
        check_name(field, name, wrong);
    }
    let class = match v1::Priority::try_from(selector.priority) {
        Ok(v1::Priority::Unspecified) => None,
        Ok(v1::Priority::Interactive) => Some(Class::Interactive),
        Ok(v1::Priority::Normal) => Some(Class::Normal),
        Ok(v1::Priority::Batch) => Some(Class::Batch),
        Err(_) => {
            wrong.add("selector.priority", "is a class that this release does not know");
            None
        }
    };
    Whom {
        provider: Arc::from(selector.provider.to_lowercase()),
        account: Arc::from(selector.account.as_str()),
        model: Arc::from(selector.model.as_str()),
        tenant: Arc::from(selector.tenant.as_str()),
        class,
    }
}

/// A length in the units that commands take.
pub(super) fn as_argument(span: Span) -> String {
    let secs = span.as_micros().max(0).saturating_add(999_999) / 1_000_000;
    match secs {
        0 => "1s".to_owned(),
        secs if secs % 86_400 == 0 => format!("{}d", secs / 86_400),
        secs if secs % 3_600 == 0 => format!("{}h", secs / 3_600),
        secs if secs % 60 == 0 => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}
