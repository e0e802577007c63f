//! Workers on the Rust client, who send as many calls as they may and write down how each ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use paceline_client::{Ask, Limiter, Mode, Report, Slot};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Twice what the provider takes.
const WORKERS: u64 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// An attempt: in which mode, and whether it was refused.
type Attempt = (Mode, bool);

/// How a call ended.
struct Call {
    /// How often the configuration had changed when it began, and when it ended.
    epochs: (u64, u64),
    attempts: Vec<Attempt>,
}

#[derive(Default)]
struct Book {
    calls: Mutex<Vec<Call>>,
    failed: Mutex<Vec<String>>,
    /// Odd while a change is not sure to be in force.
    epoch: AtomicU64,
    is_over: AtomicBool,
}

/// Workers at work.
pub(super) struct Load {
    runtime: Runtime,
    all: JoinSet<()>,
    book: Arc<Book>,
}

/// What they wrote down.
pub(super) struct Ended {
    calls: Vec<Call>,
    pub(super) failed: Vec<String>,
    /// Calls whose attempts were in several modes although nothing changed meanwhile.
    pub(super) torn: Vec<Vec<Attempt>>,
}

impl Load {
    pub(super) fn start(addr: &str, provider: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let book = Arc::new(Book::default());
        let mut all = JoinSet::new();
        let _inside = runtime.enter();
        let limiter = Limiter::builder().addrs([addr.to_owned()]).account("prod").build().unwrap();
        let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let uri: Arc<str> = format!("http://{provider}/v1/chat/completions").into();
        for number in 0..WORKERS {
            let worker = Worker { limiter: limiter.clone(), client: client.clone(), uri: uri.clone(), book: book.clone() };
            all.spawn(async move {
                tokio::time::sleep(PAUSE * u32::try_from(number).unwrap() / u32::try_from(WORKERS).unwrap()).await;
                worker.work().await;
            });
        }
        Self { runtime, all, book }
    }

    /// The configuration is about to change.
    pub(super) fn changing(&self) {
        self.book.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// The change is in force.
    pub(super) fn changed(&self) {
        self.book.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls that began after the last change and ended in this mode.
    pub(super) fn ended_in(&self, mode: Mode) -> usize {
        let epoch = self.book.epoch.load(Ordering::SeqCst);
        let calls = self.book.calls.lock().unwrap();
        calls.iter().filter(|call| call.epochs.0 == epoch && call.attempts.last().is_some_and(|last| last.0 == mode)).count()
    }

    /// Whether a call was refused in this mode and sent again.
    pub(super) fn was_sent_again(&self, mode: Mode) -> bool {
        let calls = self.book.calls.lock().unwrap();
        calls.iter().any(|call| call.attempts.len() > 1 && call.attempts.iter().all(|attempt| attempt.0 == mode))
    }

    /// Lets them end what they have begun.
    pub(super) fn end(mut self) -> Ended {
        self.book.is_over.store(true, Ordering::SeqCst);
        self.runtime.block_on(async {
            // A call that waits for long need not end.
            let _ =
                tokio::time::timeout(Duration::from_secs(20), async { while self.all.join_next().await.is_some() {} }).await;
        });
        let calls = std::mem::take(&mut *self.book.calls.lock().unwrap());
        let is_torn = |call: &&Call| {
            let is_steady = call.epochs.0 == call.epochs.1 && call.epochs.0.is_multiple_of(2);
            is_steady && call.attempts.windows(2).any(|pair| pair[0].0 != pair[1].0)
        };
        let torn = calls.iter().filter(is_torn).map(|call| call.attempts.clone()).collect();
        Ended { torn, failed: std::mem::take(&mut *self.book.failed.lock().unwrap()), calls }
    }
}

impl Ended {
    /// Which part of the attempts in a mode was refused.
    pub(super) fn refused(&self, mode: Mode) -> f64 {
        let attempts = || self.calls.iter().flat_map(|call| &call.attempts).filter(|attempt| attempt.0 == mode);
        attempts().filter(|attempt| attempt.1).count() as f64 / attempts().count().max(1) as f64
    }
}

struct Worker {
    limiter: Limiter,
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Arc<str>,
    book: Arc<Book>,
}

impl Worker {
    async fn work(self) {
        while !self.book.is_over.load(Ordering::SeqCst) {
            let began = self.book.epoch.load(Ordering::SeqCst);
            let attempts: Arc<Mutex<Vec<Attempt>>> = Arc::default();
            let (client, uri, seen) = (self.client.clone(), self.uri.clone(), attempts.clone());
            let called = self.limiter.call(Ask::new("openai").model("gpt-4o"), async move |slot: &mut Slot| {
                let (status, headers) = send(&client, &uri).await;
                seen.lock().unwrap().push((slot.mode(), status == 429));
                (Report::response(status).headers(headers), ())
            });
            match called.await {
                Ok(_) => {
                    let epochs = (began, self.book.epoch.load(Ordering::SeqCst));
                    let attempts = attempts.lock().unwrap().clone();
                    self.book.calls.lock().unwrap().push(Call { epochs, attempts });
                }
                Err(error) => self.book.failed.lock().unwrap().push(error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn send(client: &Client<HttpConnector, Full<Bytes>>, uri: &str) -> (u16, Vec<(String, Vec<u8>)>) {
    let request = Request::post(uri).body(Full::new(Bytes::from_static(b"{\"model\":\"gpt-4o\",\"messages\":[]}")));
    let response = client.request(request.unwrap()).await.expect("the provider is there");
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    response.into_body().collect().await.unwrap();
    (status, headers)
}
