//! Calls as inputs of the step: names made canonical, tokens opened, answers read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paceline_core::amounts::Amounts;
use paceline_core::lease::Serial;
use paceline_core::report::Outcome;
use paceline_core::signal::AnswerKind;
use paceline_core::units::FleetTime;
use prost::Message as _;

use crate::api::{AcquireRequest, CallError, ReportRequest, Target};
use crate::named::names_model;
use crate::record::{CallKey, digest};
use crate::scope::{AskInput, GivenBack, ReleaseInput, Reply, ReportInput, Served};
use crate::settings::{AnswerParts, Settings};
use crate::targets;
use crate::token::{Keyring, Kind, Opened};
use crate::wire::{LeaseWire, TicketWire};

/// An ask with its names made canonical and its tokens opened.
///
/// # Errors
/// Unknown names, forged tokens, tokens of another call.
pub fn ask_input(mut request: AcquireRequest, settings: &dyn Settings, keyring: &Keyring) -> Result<AskInput, CallError> {
    for (field, name) in [("target.account", &request.target.account), ("tenant", &request.tenant)] {
        if paceline_config::looks_like_a_key(name) {
            let problem = "looks like a key, and names are shown in metrics and logs: use an alias of it, never the key itself";
            return Err(CallError::Invalid { field, problem: problem.to_string() });
        }
    }
    request.target = settings.canonical(&request.target)?;
    request.attempt = request.attempt.max(1);
    let key = CallKey::new(&request.identity, &request.tenant, &request.request_id, request.attempt);
    let (ticket, place_lost) = match &request.ticket {
        None => (None, false),
        Some(bytes) => open_ticket(bytes, key, keyring)?,
    };
    let mut previous = None;
    if let Some(lease_id) = &request.previous_lease_id {
        let (lease, is_authentic) = open_lease(lease_id, keyring).map_err(|_| forged("previous_lease_id"))?;
        previous = lease.filter(|_| is_authentic);
    }
    if let Some(lease) = &previous
        && (lease.request_id != request.request_id || lease.tenant != request.tenant || lease.identity != request.identity)
    {
        return Err(CallError::Invalid { field: "previous_lease_id", problem: "belongs to another call".to_string() });
    }
    if previous.as_ref().is_some_and(|lease| lease.attempt >= request.attempt) {
        return Err(CallError::Invalid {
            field: "attempt",
            problem: "must be higher than that of previous_lease_id".to_string(),
        });
    }
    let previous_key = previous.as_ref().and_then(|lease| CallKey::from_bytes(&lease.key));
    let print = print_of(&request);
    let deadline_at = previous.as_ref().and_then(|lease| lease.deadline).map(FleetTime::from_micros);
    Ok(AskInput {
        request,
        key,
        print,
        ticket: ticket.map(Box::new),
        place_lost,
        previous: previous.map(Box::new),
        deadline_at,
        previous_key,
        candidates: Vec::new(),
        is_fallback: false,
        elsewhere: None,
    })
}

/// A report with its token opened and its answer read.
///
/// # Errors
/// A forged token, or one of another owner.
pub fn report_input(
    request: ReportRequest,
    settings: &dyn Settings,
    keyring: &Keyring,
    now: FleetTime,
) -> Result<ReportInput, CallError> {
    let (lease, is_authentic) = open_lease(&request.lease_id, keyring)?;
    if is_authentic && lease.as_ref().is_some_and(|lease| lease.identity != request.identity) {
        return Err(CallError::Invalid { field: "lease_id", problem: "belongs to another caller".to_string() });
    }
    let served = lease.as_ref().map_or(Served::AsSent, |lease| targets::served(&request.served_by, lease, settings));
    let candidates = match &lease {
        Some(lease) if is_authentic => targets::of_report(&request, lease, settings)?,
        _ => Vec::new(),
    };
    let has_answer = request.outcome == Outcome::Response
        && (request.status > 0 || request.grpc_status.is_some() || !request.headers.is_empty() || !request.body.is_empty());
    let read = lease.as_ref().filter(|_| has_answer).map(|lease| {
        let answer = AnswerParts {
            status: request.status,
            grpc_status: request.grpc_status,
            headers: &request.headers,
            body: request.body.get(..crate::api::MOST_BODY_BYTES).unwrap_or(&request.body),
            received_at_micros: now.as_micros(),
            age_micros: request.age.as_micros(),
        };
        let answered_by = match &served {
            Served::At(target) => &target.provider,
            Served::AsSent | Served::Unknown => &lease.provider,
        };
        // Who answered in the place of another says nothing of the account that was asked.
        let is_own = matches!(served, Served::AsSent);
        let organisation = is_own.then(|| settings.organisation(answered_by, &answer)).flatten();
        let mut signal = settings.read(answered_by, &answer);
        signal.names_model = signal.kind == AnswerKind::Throttled && names_model(&lease.model, &answer);
        (signal, organisation)
    });
    let (signal, organisation) = read.map_or((None, None), |(signal, organisation)| (Some(signal), organisation));
    let key = lease.as_ref().and_then(|lease| CallKey::from_bytes(&lease.key));
    Ok(ReportInput { request, lease, is_authentic, key, signal, organisation, served, candidates })
}

/// What gives back the reservation of a lease; `None`: a lease we do not know (any more), so there is nothing to give back.
///
/// # Errors
/// A forged token.
pub fn release_lease_input(lease_id: &str, keyring: &Keyring) -> Result<Option<ReleaseInput>, CallError> {
    let (lease, is_authentic) = open_lease(lease_id, keyring)?;
    Ok(lease.filter(|_| is_authentic).map(|lease| ReleaseInput {
        key: CallKey::from_bytes(&lease.key),
        what: GivenBack::Lease(lease.serial.map(Serial::from).unwrap_or_default()),
        place: None,
        is_unheard: false,
        target: Target { provider: lease.provider, account: lease.account, model: String::new() },
    }))
}

/// What gives back a place in line; `None`: a place from before a restart.
///
/// # Errors
/// A forged token.
pub fn release_ticket_input(ticket: &[u8], keyring: &Keyring) -> Result<Option<ReleaseInput>, CallError> {
    let ticket = match keyring.open(Kind::Ticket, ticket) {
        Opened::Authentic(body) => TicketWire::decode(body.as_slice()).ok(),
        Opened::UnknownKey(_) => None,
        Opened::Forged => return Err(forged("ticket")),
    };
    Ok(ticket.map(|ticket| ReleaseInput {
        key: CallKey::from_bytes(&ticket.key),
        what: GivenBack::Place(ticket.stamp.clone().map(Serial::from).unwrap_or_default()),
        is_unheard: false,
        target: Target { provider: ticket.provider.clone(), account: ticket.account.clone(), model: String::new() },
        place: Some(Box::new(ticket)),
    }))
}

/// What gives back the slot or place in an answer that nobody heard; `None`: it holds none.
pub fn unheard_input(unheard: &Reply, keyring: &Keyring) -> Option<ReleaseInput> {
    let input = match (unheard.lease_id(), unheard.ticket()) {
        (Some(lease_id), _) => release_lease_input(lease_id, keyring),
        (None, Some(ticket)) => release_ticket_input(ticket, keyring),
        (None, None) => return None,
    };
    Some(ReleaseInput { is_unheard: true, ..input.ok()?? })
}

impl ReportInput {
    /// The scope the lease belongs to; `None` when the lease cannot be read.
    pub fn target(&self) -> Option<Target> {
        let lease = self.lease.as_ref()?;
        Some(Target { provider: lease.provider.clone(), account: lease.account.clone(), model: lease.model.clone() })
    }
}

/// A hash of what must be the same when a key is asked for again.
pub(crate) fn print_of(request: &AcquireRequest) -> [u8; 16] {
    print_of_parts(&request.target, &request.cost)
}

/// The same of the call that a lease was granted to.
pub(crate) fn print_of_lease(lease: &LeaseWire) -> [u8; 16] {
    let target = Target { provider: lease.provider.clone(), account: lease.account.clone(), model: lease.model.clone() };
    let cost = Amounts::from_pairs(lease.cost.iter().map(|(meter, units)| (meter.as_str(), *units)));
    print_of_parts(&target, &cost)
}

fn print_of_parts(target: &Target, cost: &Amounts) -> [u8; 16] {
    let names = [&target.provider, &target.account, &target.model];
    let costs: Vec<(&str, [u8; 8])> = cost.iter().map(|(meter, units)| (meter, units.to_be_bytes())).collect();
    let costs = costs.iter().flat_map(|(meter, units)| [meter.as_bytes(), units.as_slice()]);
    digest(&names.into_iter().map(|name| name.as_bytes()).chain(costs).collect::<Vec<_>>())
}

/// The lease in a token, and whether it is authentic (otherwise: signed with a key we do not have).
pub(crate) fn open_lease(lease_id: &str, keyring: &Keyring) -> Result<(Option<LeaseWire>, bool), CallError> {
    let token = URL_SAFE_NO_PAD.decode(lease_id).map_err(|_| forged("lease_id"))?;
    let (body, is_authentic) = match keyring.open(Kind::Lease, &token) {
        Opened::Authentic(body) => (body, true),
        Opened::UnknownKey(body) => (body, false),
        Opened::Forged => return Err(forged("lease_id")),
    };
    match LeaseWire::decode(body.as_slice()) {
        Ok(lease) => Ok((Some(lease), is_authentic)),
        Err(_) if is_authentic => Ok((None, true)),
        Err(_) => Err(forged("lease_id")),
    }
}

/// The place in a ticket of ours; `None`: it is none, or from before a restart.
pub(crate) fn open_place(ticket: &[u8], keyring: &Keyring) -> Option<TicketWire> {
    match keyring.open(Kind::Ticket, ticket) {
        Opened::Authentic(body) => TicketWire::decode(body.as_slice()).ok(),
        Opened::UnknownKey(_) | Opened::Forged => None,
    }
}

fn open_ticket(bytes: &[u8], key: CallKey, keyring: &Keyring) -> Result<(Option<TicketWire>, bool), CallError> {
    match keyring.open(Kind::Ticket, bytes) {
        Opened::Forged => Err(forged("ticket")),
        Opened::UnknownKey(_) => Ok((None, true)),
        Opened::Authentic(body) => match TicketWire::decode(body.as_slice()) {
            Ok(ticket) if ticket.key == key.0 => Ok((Some(ticket), false)),
            Ok(_) => Err(CallError::Invalid {
                field: "ticket",
                problem: "belongs to another call: send it with the same request_id, attempt and tenant".to_string(),
            }),
            Err(_) => Ok((None, true)),
        },
    }
}

fn forged(field: &'static str) -> CallError {
    CallError::Invalid {
        field,
        problem: "is not a token of this service, or it was changed: pass it on exactly as received".to_string(),
    }
}
