//! The adapter for our own client: what the manual tells people to write for theirs.

use std::time::Duration;

use hyper::HeaderMap;
use paceline_client::{Ask, End, Error, Limiter, Report, Slot};

use crate::kit::{Answer, Broken, Desk, Ended, Job, send, unless_left};

/// Does all jobs of the kit.
pub(crate) async fn work(desk: &Desk) {
    let limiter = Limiter::builder().addr(&desk.grpc).build().unwrap();
    while let Some(job) = desk.job().await {
        let ended = unless_left(&job, one(&limiter, &job)).await;
        desk.done(&job, ended).await;
    }
}

async fn one(limiter: &Limiter, job: &Job) -> Ended {
    let ask = Ask::new(&job.provider).account(&job.account).model(&job.model).cost("tokens", job.tokens);
    let ask = ask.deadline(Duration::from_secs(60));
    match limiter.call(ask, async |slot| attempt(slot, job).await).await {
        Ok(called) => match (called.end, called.value) {
            (End::Reported(_), Some(status)) => Ended::Answered(status),
            _ => Ended::Failed,
        },
        Err(Error::Denied(_)) => Ended::Denied,
        Err(_) => Ended::Failed,
    }
}

/// One attempt: its report, and the status that the caller gets.
async fn attempt(slot: &mut Slot, job: &Job) -> (Report, Option<u16>) {
    let answer = match send(job).await {
        Ok(answer) => answer,
        Err(Broken::NeverSent) => return (Report::connection_failed(), None),
        Err(Broken::Midway) => return (Report::timeout(), None),
    };
    let status = answer.status;
    let head = Report::response(status).headers(without_secrets(&answer.headers));
    if !job.stream {
        return match answer.rest().await {
            Ok(body) if status >= 400 => (head.body(body), Some(status)),
            Ok(_) => (head.usage("tokens", 12), Some(status)),
            Err(_) => (Report::timeout(), None),
        };
    }
    // Told beside the stream, which goes on meanwhile; the end is told after it.
    let (told, rest) = tokio::join!(slot.report(head.more_follows()), to_the_end(answer));
    told.expect("the kit answers");
    match rest {
        Ok(()) => (Report::response(status).usage("tokens", 12), Some(status)),
        Err(_) => (Report::abandoned().usage("tokens", 8).usage_is_estimated(), None),
    }
}

async fn to_the_end(answer: Answer) -> Result<(), Broken> {
    answer.rest().await.map(|_| ())
}

fn without_secrets(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let is_shown = |name: &str| !["set-cookie", "authorization"].contains(&name);
    let shown = headers.iter().filter(|(name, _)| is_shown(name.as_str()));
    shown.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}
