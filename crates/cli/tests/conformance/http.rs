//! The adapter for our middleware: the program knows nothing of slots.

use std::time::Duration;

use paceline_client::http::{Outgoing, Pacing, llm_usage};
use paceline_client::{Ask, Error, Limiter};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::kit::{Desk, Ended, Job, unless_left};

/// Does all jobs of the kit.
pub(crate) async fn work(desk: &Desk) {
    let limiter = Limiter::builder().addr(&desk.grpc).build().unwrap();
    while let Some(job) = desk.job().await {
        let named = job.clone();
        let pacing = Pacing::new(limiter.clone(), move |_: &Outgoing<'_>| {
            let ask = Ask::new(&named.provider).account(&named.account).model(&named.model).cost("tokens", named.tokens);
            Some(ask.deadline(Duration::from_secs(60)))
        });
        let client = ClientBuilder::new(reqwest::Client::new()).with(pacing.usage(llm_usage)).build();
        let ended = unless_left(&job, one(&client, &job)).await;
        desk.done(&job, ended).await;
    }
}

async fn one(client: &ClientWithMiddleware, job: &Job) -> Ended {
    let request = client.post(&job.url).header("content-type", "application/json");
    let request = request.header("authorization", "Bearer sk-of-the-worker").body(job.body.clone());
    match request.send().await {
        Ok(response) => {
            let status = response.status().as_u16();
            response.text().await.map_or(Ended::Failed, |_| Ended::Answered(status))
        }
        Err(reqwest_middleware::Error::Middleware(error)) => match error.downcast_ref::<Error>() {
            Some(Error::Denied(_)) => Ended::Denied,
            _ => Ended::Failed,
        },
        Err(reqwest_middleware::Error::Reqwest(_)) => Ended::Failed,
    }
}
