//! A first look at what is wrong with a store: mistakes are told from servers that are away.

use std::path::Path;

use paceline_store::{FirstLook, RedisStore};
use paceline_tests::servers::{Certificates, Cluster, Flavour, Options, Sentinels, Server, free_port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn look(url: &str) -> FirstLook {
    RedisStore::look(&url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))).await
}

async fn check_mistake(url: &str, words: &[&str]) {
    match look(url).await {
        FirstLook::Mistake(said) => {
            assert!(words.iter().all(|word| said.contains(word)), "{url}: {said}");
            assert!(!said.contains("secret"), "{url}: {said}");
        }
        other => panic!("{url}: {other:?}"),
    }
}

async fn check_away(url: &str, words: &[&str]) {
    match look(url).await {
        FirstLook::Away(said) => assert!(words.iter().all(|word| said.contains(word)), "{url}: {said}"),
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_will_do_is_well() {
    let server = Server::redis();
    let keys = server.run(&["DBSIZE"]).number();
    assert_eq!(look(&server.url()).await, FirstLook::Well);
    assert!(server.run(&["DBSIZE"]).number() <= keys + 2, "a value and a record, for a moment");
    let valkey = Server::start(Options::new().flavour(Flavour::Valkey).socket());
    assert_eq!(look(&format!("unix://{}", valkey.socket().display())).await, FirstLook::Well);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_databases_and_rights() {
    let limited =
        "user app on >secret ~paceline:* resetchannels -@all +evalsha +eval +role +select +client +get +getrange +time";
    let other = "user other on >secret ~other:* resetchannels +@all";
    let server = Server::start(Options::new().line(limited).line(other).line("requirepass secret"));
    let at = |user: &str, rest: &str| format!("redis://{user}127.0.0.1:{}{rest}", server.port());
    check_mistake(&at("", ""), &["wants a password", "?password_file=FILE"]).await;
    check_mistake(&at(":secret-not@", ""), &["does not take the password"]).await;
    check_mistake(&at("nobody:secret@", ""), &["does not take user and password"]).await;
    check_mistake(&at(":secret@", "/9999"), &["has no database 9999", "databases"]).await;
    check_mistake(&at("app:secret@", ""), &["lacks a right", "docs/operating/redis.md"]).await;
    check_mistake(&at("other:secret@", ""), &["lacks a right"]).await;
    check_mistake(&at("", "?password_file=/nowhere/pw"), &["cannot read the password file /nowhere/pw"]).await;
    assert_eq!(look(&at(":secret@", "/3")).await, FirstLook::Well);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_and_those_that_are_none() {
    let server = Server::redis();
    check_mistake(&format!("redis+cluster://127.0.0.1:{}", server.port()), &["is no cluster", "write redis://"]).await;
    let cluster = Cluster::start(Flavour::Redis);
    assert_eq!(look(&cluster.url()).await, FirstLook::Well);
    let node = cluster.nodes()[0].port();
    check_mistake(&format!("redis://127.0.0.1:{node}"), &["belongs to a cluster", "redis+cluster://"]).await;
    check_mistake(&format!("redis://127.0.0.1:{node}/3"), &["belongs to a cluster", "redis+cluster://"]).await;
    // Of several that are named one is enough.
    let gone = free_port();
    assert_eq!(look(&format!("redis+cluster://127.0.0.1:{gone},127.0.0.1:{node}")).await, FirstLook::Well);
    check_away(&format!("redis+cluster://127.0.0.1:{gone}"), &["cannot connect"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_those_that_are_none() {
    let server = Server::redis();
    check_mistake(&format!("redis+sentinel://127.0.0.1:{}/mymaster", server.port()), &["is no sentinel"]).await;
    let mut sentinels = Sentinels::start();
    let url = sentinels.url();
    assert_eq!(look(&url).await, FirstLook::Well);
    let (hosts, name) = url.rsplit_once('/').unwrap();
    check_mistake(&format!("{hosts}/{name}-not"), &["knows no primary called", "SENTINEL MASTERS"]).await;
    let sentinel = sentinels.sentinels_mut()[0].port();
    check_mistake(&format!("redis://127.0.0.1:{sentinel}"), &["is a sentinel", "redis+sentinel://"]).await;
    // The primary is away: that passes.
    sentinels.servers_mut().iter_mut().for_each(Server::kill);
    check_away(&url, &["cannot connect"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_where_there_is_none_and_none_where_there_is() {
    let server = Server::start(Options::new().tls());
    let (certificates, port) = (server.certificates(), server.tls_port());
    let ca = certificates.ca().display().to_string();
    let ours = format!("cert={}&key={}", certificates.client_cert().display(), certificates.client_key().display());
    assert_eq!(look(&format!("rediss://localhost:{port}?ca={ca}&{ours}")).await, FirstLook::Well);
    let plain = Server::redis();
    let to_plain = format!("rediss://localhost:{}?ca={ca}", plain.port());
    check_mistake(&to_plain, &["answers without TLS", "write redis for rediss"]).await;
    check_mistake(&format!("redis://localhost:{port}"), &["TLS only", "write rediss for redis"]).await;
    check_mistake(&format!("rediss://localhost:{port}?{ours}"), &["no TLS with", "?ca=FILE"]).await;
    check_mistake(&format!("rediss://localhost:{port}?ca={ca}"), &["refuses our side of TLS", "cert=FILE"]).await;
    check_mistake(&format!("rediss://localhost:{port}?ca=/nowhere/ca"), &["/nowhere/ca"]).await;
    // Signed by somebody else.
    let folder = std::env::temp_dir().join(format!("paceline-strange-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let strange = Certificates::make(Path::new(&folder)).ca().display().to_string();
    check_mistake(&format!("rediss://localhost:{port}?ca={strange}&{ours}"), &["no TLS with", "certificate"]).await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_away_are_waited_for() {
    check_away(&format!("redis://127.0.0.1:{}", free_port()), &["cannot connect"]).await;
    check_away("redis://nowhere.invalid:6379", &["cannot connect"]).await;
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    check_away(&format!("redis://127.0.0.1:{port}?timeout_ms=100"), &[]).await;
    let loading = scripted(|_| b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()).await;
    check_away(&format!("redis://127.0.0.1:{loading}"), &["LOADING"]).await;
    let full = scripted(|command| match command {
        "EVAL" | "EVALSHA" => b"-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    check_away(&format!("redis://127.0.0.1:{}", full.await), &["OOM", "more memory"]).await;
    let replica = scripted(|command| match command {
        "ROLE" => b"*1\r\n$5\r\nslave\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    check_away(&format!("redis://127.0.0.1:{}", replica.await), &["is a replica"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_servers_that_are_too_old() {
    let old = scripted(|command| match command {
        "INFO" => b"$24\r\nredis_version:6.0.16\r\n\r\n\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    check_mistake(&format!("redis://127.0.0.1:{}", old.await), &["Redis 6.0.16 is too old", "6.2 or later"]).await;
    let no_scripts = scripted(|command| match command {
        "EVAL" | "EVALSHA" => b"-ERR unknown command 'EVAL'\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    check_mistake(&format!("redis://127.0.0.1:{}", no_scripts.await), &["lacks a command"]).await;
    let web = scripted(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    check_mistake(&format!("redis://127.0.0.1:{web}"), &["is no Redis", "HTTP/1.1"]).await;
}

/// Something that answers each command as `answer` says.
async fn scripted(answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut heard = vec![0; 65_536];
                while let Ok(length @ 1..) = stream.read(&mut heard).await {
                    for command in commands(&String::from_utf8_lossy(&heard[..length])) {
                        if stream.write_all(&answer(&command)).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    port
}

/// The names of commands, as they come: the first word of each array, or of a line.
fn commands(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split("\r\n").collect();
    if !text.starts_with('*') {
        return vec![lines[0].to_owned()];
    }
    let starts = lines.iter().enumerate().filter(|(_, line)| {
        line.strip_prefix('*').is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
    });
    starts.filter_map(|(at, _)| lines.get(at + 2)).map(|name| name.to_uppercase()).collect()
}
