//! Workers on the Rust client, and what they write down: every grant, and every call that failed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use paceline_client::{Ask, Limiter, Path, Report};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::processes::Service;
use crate::{CLIENTS, WORKERS};

/// One slot as a worker saw it; times count from the start of the run.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) lease_id: String,
    /// When its worker began to ask.
    pub(crate) asked: Duration,
    /// When the call was sent.
    pub(crate) sent: Duration,
    /// What it cost.
    pub(crate) requests: u64,
    pub(crate) was_refused: bool,
}

/// An ask without a slot.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) at: Duration,
    pub(crate) why: String,
}

#[derive(Default)]
struct Book {
    grants: Mutex<Vec<Grant>>,
    failures: Mutex<Vec<Failure>>,
}

/// All of them, at work.
pub(crate) struct Workers {
    all: JoinSet<()>,
    book: Arc<Book>,
}

impl Workers {
    /// Lets them work for so long.
    pub(crate) fn start(service: &Service, start: Instant, length: Duration) -> Self {
        let book = Arc::new(Book::default());
        let mut all = JoinSet::new();
        let limiters: Vec<Limiter> = (0..CLIENTS)
            .map(|_| Limiter::builder().addrs(service.addrs()).account("prod").go_on_without_service(false).build().unwrap())
            .collect();
        let provider = Provider::at(&service.provider_addr);
        for number in 0..WORKERS {
            let worker = Worker {
                limiter: limiters[number % CLIENTS].clone(),
                provider: provider.clone(),
                book: book.clone(),
                start,
                until: start + length,
            };
            all.spawn(async move { worker.work().await });
        }
        Self { all, book }
    }

    /// What they wrote down, when all have ended.
    pub(crate) async fn ended(mut self) -> (Vec<Grant>, Vec<Failure>) {
        while let Some(ended) = self.all.join_next().await {
            ended.unwrap();
        }
        let take = |book: &Book| (book.grants.lock().unwrap().clone(), book.failures.lock().unwrap().clone());
        let (mut grants, failures) = take(&self.book);
        grants.sort_by_key(|grant| grant.sent);
        (grants, failures)
    }
}

struct Worker {
    limiter: Limiter,
    provider: Provider,
    book: Arc<Book>,
    start: Instant,
    until: Instant,
}

impl Worker {
    async fn work(self) {
        while Instant::now() < self.until {
            let asked = self.start.elapsed();
            let ask = Ask::new("acme").model("m").max_wait(Duration::from_secs(60));
            let mut slot = match self.limiter.acquire(ask).await {
                Ok(slot) => slot,
                Err(error) => {
                    self.fail(error.to_string());
                    sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            assert_eq!(slot.path(), Path::Served);
            let sent = self.start.elapsed();
            slot.sent();
            let (status, headers) = self.provider.call().await;
            self.book.grants.lock().unwrap().push(Grant {
                lease_id: slot.lease_id().to_owned(),
                asked,
                sent,
                requests: slot.reserved().get("requests").copied().unwrap_or(1),
                was_refused: status == 429,
            });
            if let Err(error) = slot.report(Report::response(status).headers(headers)).await {
                self.fail(format!("report: {error}"));
            }
        }
    }

    fn fail(&self, why: String) {
        self.book.failures.lock().unwrap().push(Failure { at: self.start.elapsed(), why });
    }
}

/// What the workers call.
#[derive(Clone)]
struct Provider {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: String,
}

impl Provider {
    fn at(addr: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, uri: format!("http://{addr}/v1/chat/completions") }
    }

    async fn call(&self) -> (u16, Vec<(String, Vec<u8>)>) {
        let request = Request::post(&self.uri).body(Full::new(Bytes::from_static(b"{\"model\":\"m\",\"messages\":[]}")));
        let response = self.client.request(request.unwrap()).await.expect("the provider is there");
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        response.into_body().collect().await.unwrap();
        (status, headers)
    }
}
