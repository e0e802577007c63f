//! The processes of a fleet: replicas of `paceline serve`, the provider, and Redis behind sentinels.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use paceline_tests::servers::{Sentinels, Server, free_port};
use serde_json::Value;

/// All of them; killed when it is dropped.
pub(crate) struct Service {
    folder: PathBuf,
    pub(crate) redis: Sentinels,
    pub(crate) replicas: Vec<Replica>,
    _provider: Process,
    pub(crate) provider_addr: String,
}

/// A replica that can be killed and started again at the same address.
pub(crate) struct Replica {
    pub(crate) addr: String,
    args: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

/// A child that is killed with what stands for it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    /// Starts everything and waits until it is there.
    pub(crate) fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("paceline-fleet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let redis = Sentinels::start();
        let config = folder.join("fleet.yaml");
        let limit = "{limit: 6000, per: min, refill: continuous}";
        let yaml = format!("providers: {{acme: {{dialect: generic, models: {{\"*\": {{limits: {{requests: {limit}}}}}}}}}}}\n");
        std::fs::write(&config, yaml).unwrap();
        let (provider, provider_addr) = start_provider();
        let replica = |number: usize| {
            let addr = format!("127.0.0.1:{}", free_port());
            let url = redis.url();
            let config = config.to_str().unwrap();
            let args = ["serve", "--grpc", &addr, "--http", "127.0.0.1:0", "--store", &url, "--expected-replicas", "3"];
            let args = args.iter().chain(&["--config", config]).map(ToString::to_string).collect();
            let mut replica = Replica { addr, args, log: folder.join(format!("replica-{number}.log")), process: None };
            replica.start();
            replica
        };
        let replicas = (0..3).map(replica).collect();
        Self { folder, redis, replicas, _provider: provider, provider_addr }
    }

    /// Where the replicas are.
    pub(crate) fn addrs(&self) -> Vec<String> {
        self.replicas.iter().map(|replica| replica.addr.clone()).collect()
    }

    /// Which of the Redis servers takes writes.
    pub(crate) fn primary(&self) -> &Server {
        let is_primary = |server: &&Server| server.info("replication", "role") == "master";
        self.redis.servers().iter().find(is_primary).expect("one is primary")
    }

    /// What the provider counted: (calls, refused ones).
    pub(crate) async fn provider_counts(&self) -> (u64, u64) {
        let uri = format!("http://{}/mock/stats", self.provider_addr).parse().unwrap();
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let body = client.get(uri).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let stats: Value = serde_json::from_slice(&body).unwrap();
        let number = |keys: &[&str]| keys.iter().find_map(|key| stats[*key].as_u64());
        let (accepted, refused) = (number(&["accepted"]), number(&["rejected", "refused"]));
        let (Some(accepted), Some(refused)) = (accepted, refused) else { panic!("{stats}") };
        (accepted + refused, refused)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("logs of the replicas: {}", self.folder.display());
            return;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Replica {
    /// Starts it and waits for its first line.
    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(&self.args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("the binary runs");
        let line = first_line(&mut child);
        assert!(line.starts_with("listening grpc="), "{line:?}: {}", std::fs::read_to_string(&self.log).unwrap_or_default());
        self.process = Some(Process(child));
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }
}

/// A provider of 6,000 calls a minute, of which 300 may come at once, that says nothing but when to come back.
fn start_provider() -> (Process, String) {
    let args = ["mock-provider", "--dialect", "generic", "--headers", "retry-after-only", "--latency", "50ms"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(args).args(["--limit", "requests=6000/min,burst=300"]).env_clear();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let line = first_line(&mut child);
    let addr = line.trim_end().strip_prefix("listening http=").unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (Process(child), addr)
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}
