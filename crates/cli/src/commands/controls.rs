//! `paceline mode`, `pause`, `resume`, `limit`, `forget`, `controls`: what people on call say while something is wrong.

mod args;
mod json;
mod people;
mod read;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

pub(crate) use args::{ControlsArgs, ForgetArgs, LimitArgs, ModeArgs, PauseArgs, ResumeArgs};
pub(crate) use json::control as to_json;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::{
    ControlResponse, EndControlsRequest, ForgetRequest, ListControlsRequest, PauseRequest, Said, SetLimitRequest,
    SetModeRequest,
};
pub(crate) use people::in_line;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use self::args::{Place, SaidArgs, Which};
use super::status::{StatusError, connect, failed};

/// Why something was not said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlsError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// Nobody answers.
    #[error(transparent)]
    Service(#[from] StatusError),
    /// The service knows no controls.
    #[error("the service at {0} is older than this command and knows no controls; upgrade it first")]
    TooOld(String),
    /// It answers, and does not do it.
    #[error("nothing was changed: {0}")]
    Refused(String),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl ControlsError {
    /// Whether the command line itself can never work.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Service(StatusError::Address(_)))
    }
}

/// `paceline mode`
pub(crate) async fn mode(args: ModeArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let selector = Some(args.whom.selector()?);
    let Some(mode) = args.mode.filter(|_| !args.clear) else {
        let request = EndControlsRequest { selector, ..args.said.end() };
        let (addr, mut service) = reach(&args.place).await?;
        let ended = done(&addr, service.clear_mode(request).await)?;
        return told(out, &args.place, &args.said, &ended);
    };
    let request = SetModeRequest { selector, mode: mode.number().into(), said: Some(args.said.said()?) };
    let (addr, mut service) = reach(&args.place).await?;
    let said = done(&addr, service.set_mode(request).await)?;
    told(out, &args.place, &args.said, &said)
}

/// `paceline pause`
pub(crate) async fn pause(args: PauseArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let request = PauseRequest { selector: Some(args.whom.selector()?), said: Some(args.said.said()?) };
    let (addr, mut service) = reach(&args.place).await?;
    let said = done(&addr, service.pause(request).await)?;
    told(out, &args.place, &args.said, &said)
}

/// `paceline resume`
pub(crate) async fn resume(args: ResumeArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let mut request = SaidArgs { dry_run: args.dry_run, here: args.here, ..SaidArgs::default() }.end();
    match args.which()? {
        Which::Whom(selector) => request.selector = Some(selector),
        Which::Id(id) => request.id = id,
    }
    let (addr, mut service) = reach(&args.place).await?;
    let ended = done(&addr, service.resume(request).await)?;
    told(out, &args.place, &SaidArgs { dry_run: args.dry_run, here: args.here, ..SaidArgs::default() }, &ended)
}

/// `paceline limit`
pub(crate) async fn limit(args: LimitArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let selector = Some(args.whom.selector_of_all_callers("a limit holds for all callers of a bucket")?);
    if args.clear {
        let bucket = args.bucket()?;
        let request = EndControlsRequest { selector, bucket, ..args.said.end() };
        let (addr, mut service) = reach(&args.place).await?;
        let ended = done(&addr, service.clear_limit(request).await)?;
        return told(out, &args.place, &args.said, &ended);
    }
    let request = SetLimitRequest { selector, limit: Some(args.limit()?), said: Some(args.said.said()?) };
    let (addr, mut service) = reach(&args.place).await?;
    let said = done(&addr, service.set_limit(request).await)?;
    told(out, &args.place, &args.said, &said)
}

/// `paceline forget`
pub(crate) async fn forget(args: ForgetArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let selector = args.whom.selector_of_all_callers("what answers taught is not kept by tenant or priority")?;
    let Said { reason, who, .. } =
        SaidArgs { reason: args.reason.clone(), who: args.who.clone(), ..SaidArgs::default() }.said()?;
    let [floors, learned, breakers, quotas] = args.what();
    let request =
        ForgetRequest { selector: Some(selector), floors, learned, breakers, quotas, dry_run: args.dry_run, reason, who };
    let (addr, mut service) = reach(&args.place).await?;
    let forgotten = done(&addr, service.forget(request).await)?;
    let text = if args.place.json {
        format!("{}\n", json::forgotten(&forgotten, args.dry_run))
    } else {
        people::forgotten(&forgotten, args.dry_run)
    };
    Ok(write(out, &text)?)
}

/// `paceline controls`
pub(crate) async fn list(args: ControlsArgs, out: &mut (dyn Write + Send)) -> Result<(), ControlsError> {
    let (addr, mut service) = reach(&args.place).await?;
    let list = done(&addr, service.list_controls(ListControlsRequest {}).await)?.controls;
    let text = if args.place.json { format!("{}\n", json::list(&list)) } else { people::list(&list) };
    Ok(write(out, &text)?)
}

/// Connects to the service; workers may name several replicas, and any of them does.
async fn reach(place: &Place) -> Result<(String, AdminClient<Channel>), ControlsError> {
    let addr = place.addr.split(',').next().unwrap_or_default().trim().to_owned();
    let service = connect(&addr).await?;
    Ok((addr, service))
}

fn done<T>(addr: &str, answer: Result<Response<T>, Status>) -> Result<T, ControlsError> {
    let status = match answer {
        Ok(answer) => return Ok(answer.into_inner()),
        Err(status) => status,
    };
    Err(match status.code() {
        Code::Unimplemented => ControlsError::TooOld(addr.to_owned()),
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => {
            ControlsError::Refused(status.message().to_owned())
        }
        // What the service says of its store, and not what the transport says of the service.
        Code::Unavailable if status.message().starts_with("the store") => ControlsError::Refused(status.message().to_owned()),
        _ => ControlsError::Service(failed(addr, &status)),
    })
}

fn told(out: &mut (dyn Write + Send), place: &Place, how: &SaidArgs, response: &ControlResponse) -> Result<(), ControlsError> {
    let text = if place.json {
        format!("{}\n", json::response(response, how.dry_run))
    } else {
        people::response(response, how.dry_run, how.here)
    };
    Ok(write(out, &text)?)
}

fn write(out: &mut (dyn Write + Send), text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}
