//! `paceline probe` against `paceline mock-provider`: what is told and pasted, and that the key is in no output.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;

use paceline_tests::servers::Certificates;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use serde_json::Value;

use crate::process::{Folder, Mock, paceline};

const KEY: &str = "sk-live-Zx81bCdEfGhIjKlMnOp";

/// Exit status, standard output and standard error of a probe whose key is in `A_KEY`.
fn probe(args: &[&str]) -> (Option<i32>, String, String) {
    let mut words = vec!["probe"];
    words.extend(args);
    let output = paceline(&words).env("A_KEY", KEY).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, errors) = (text(output.stdout), text(output.stderr));
    for said in [&out, &errors] {
        let letters: String = said.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        assert!(!letters.contains("zx81b") && !letters.contains("klmnop"), "the key is told: {said}");
    }
    (output.status.code(), out, errors)
}

fn checked(yaml: &str) {
    let mut child = paceline(&["check-config", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{yaml}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_dialect_is_told_and_its_lines_can_be_pasted() {
    // Where the reset is told in whole seconds, how fast the calls come decides whether the window can be reckoned.
    for (dialect, told) in [
        ("openai", &["requests", "tokens"][..]),
        ("generic", &[]),
        ("ietf", &["requests", "tokens"]),
        ("ietf-trio", &["requests"]),
        ("retry-after", &[]),
        ("bare", &[]),
    ] {
        let start = || Mock::start(&["--dialect", dialect, "--limit", "requests=120/min,tokens=600/min"]);
        let (mock, other) = (start(), start());
        let (base, other) = (format!("http://{}/v1", mock.http), format!("http://{}/v1/", other.http));
        let args = ["openai", "--key-env", "A_KEY", "--account", "prod", "--yes", "--base-url"];
        let (status, out, errors) = probe(&[&args[..], &[&base]].concat());
        assert_eq!(status, Some(0), "{dialect}: {errors}");
        assert!(errors.contains("Price: at most 150 tokens"), "{errors}");
        checked(&format!("providers:{}", out.split_once("\nproviders:").expect("lines to paste").1));

        let (status, out, errors) = probe(&[&args[..], &[&other, "--json", "--calls", "2"]].concat());
        assert_eq!(status, Some(0), "{dialect}: {errors}");
        let json: Value = serde_json::from_str(&out).expect("one JSON object");
        assert_eq!(json["calls"].as_array().map(Vec::len), Some(2));
        let bucket = |meter: &str| json["buckets"].as_array()?.iter().find(|bucket| bucket["meter"] == meter);
        for (meter, limit) in [("requests", 120), ("tokens", 600)] {
            let bucket = bucket(meter);
            assert!(bucket.is_none_or(|bucket| bucket["limit"] == limit), "{dialect}: {out}");
            let window = bucket.and_then(|bucket| bucket["window_s"].as_f64());
            let expected = told.contains(&meter).then_some(60.0);
            assert!(window == expected || (dialect == "generic" && window == Some(60.0)), "{dialect}: {out}");
        }
        checked(json["yaml"].as_str().expect("lines to paste"));
    }
}

#[test]
fn what_goes_wrong_is_told_with_what_to_do() {
    let refusing = |status: &str, more: &[&str]| {
        let mock = Mock::start(&[&["--first", "1", "--status", status][..], more].concat());
        let base = format!("http://{}", mock.http);
        let (code, out, errors) = probe(&["openai", "--key-env", "A_KEY", "--base-url", &base, "--yes", "--json"]);
        assert_eq!(code, Some(1), "{out}");
        let json: Value = serde_json::from_str(&out).expect("one JSON object");
        assert!(errors.contains(json["error"].as_str().expect("an error").lines().next().unwrap()), "{errors}");
        errors
    };
    let body = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}, or sk-live-Zx***nOp"}}}}"#);
    assert!(refusing("401", &["--body", &body]).contains("$A_KEY whole"));
    assert!(refusing("404", &[]).contains("--model"));
    assert!(refusing("429", &["--retry-after", "7"]).contains("come back in 7 s"));
    assert!(refusing("503", &[]).contains("not your limit"));
    // A header that repeats the key, and a name that is the key.
    let echo = format!("x-ratelimit-{}: 1", KEY.to_lowercase());
    refusing("429", &["--header", &format!("x-ratelimit-reset: {KEY}"), "--header", &echo]);
    for name in [KEY.to_owned(), KEY.to_lowercase(), KEY.replace('-', "_")] {
        let (limit, left) = (format!("x-ratelimit-limit-{name}: 60"), format!("x-ratelimit-remaining-{name}: 59"));
        refusing("429", &["--header", &limit, "--header", &left]);
    }
}

#[test]
fn no_network_and_no_tls_are_told() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mock = Mock::start(&[]);
    for (base, part) in [
        (format!("http://{nobody}"), "no connection to 127.0.0.1"),
        ("https://nowhere.invalid".to_owned(), "cannot be found"),
        (format!("https://{}", mock.http), "no TLS with 127.0.0.1"),
    ] {
        let (status, out, errors) = probe(&["openai", "--key-env", "A_KEY", "--base-url", &base, "--yes"]);
        assert!(status == Some(1) && errors.contains(part) && out.is_empty(), "{base}: {status:?} {errors}");
    }
}

#[test]
fn the_key_never_stands_on_the_command_line() {
    let base = "https://api.example";
    for (args, code, part) in [
        (&["openai", "--key", KEY][..], 2, "environment variable"),
        (&["openai", &format!("--key={KEY}")], 2, "environment variable"),
        (&["openai", "--api-key", KEY], 2, "environment variable"),
        (&["openai", KEY, "--key-env", "A_KEY"], 2, "--key-env"),
        (&["openai", "--key-env", KEY], 2, "looks like a key"),
        (&["openai", "--key-env", "A_KEY", "--model", KEY, "--yes"], 2, "command line"),
        (&["openai", "--key-env", "A_KEY", "--account", KEY, "--yes"], 2, "command line"),
        (&["openai", "--key-env", "A_KEY", "--base-url", &format!("{base}/{KEY}"), "--yes"], 2, "command line"),
        (&[KEY, "--key-env", "A_KEY", "--yes"], 2, "command line"),
        (&["openai", "--key-env", "GONE", "--yes"], 1, "not set"),
        (&["openai", "--key-env", "A_KEY", "--base-url", base], 1, "--yes"),
    ] {
        let (status, out, errors) = probe(args);
        assert!(status == Some(code) && errors.contains(part) && out.is_empty(), "{args:?}: {status:?} {errors}");
    }
}

#[test]
fn a_provider_file_of_ones_own_says_how() {
    let folder = Folder::new("probe");
    folder.write(
        "acme.yaml",
        "extends: openai\nprobe:\n  model: tiny\n  key: {header: x-acme-key}\n  call: {path: /ask, body: {model: '{model}', n: 1}}\n",
    );
    let mock = Mock::start(&["--limit", "120/min"]);
    let base = format!("http://{}", mock.http);
    let args = ["acme", "--key-env", "A_KEY", "--base-url", &base, "--yes", "--providers", folder.path()];
    let (status, out, errors) = probe(&args);
    assert_eq!(status, Some(0), "{errors}");
    assert!(errors.contains("POST") && errors.contains("/ask") && errors.contains("x-acme-key"), "{errors}");
    assert!(out.contains("Limits of tiny") && out.contains("120 per 1 min"), "{out}");
}

/// Answers one call over TLS with a limit; returns what it was told.
fn encrypted(certificates: &Certificates) -> (SocketAddr, JoinHandle<String>) {
    let chain = CertificateDer::pem_file_iter(certificates.server_cert()).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificates.server_key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut connection = ServerConnection::new(config).unwrap();
        let mut stream = rustls::Stream::new(&mut connection, &mut socket);
        let mut told = Vec::new();
        let mut part = [0; 4_096];
        while !told.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut part) {
                Ok(length) if length > 0 => told.extend_from_slice(&part[..length]),
                _ => return String::new(),
            }
        }
        let answer = "HTTP/1.1 200 OK\r\nx-ratelimit-limit-requests: 60\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(told).unwrap()
    });
    (address, served)
}

#[test]
fn the_key_goes_to_whom_the_machine_trusts_and_to_nobody_else() {
    let folder = Folder::new("probe-tls");
    let certificates = Certificates::make(Path::new(folder.path()));
    for (trusts, code) in [(certificates.ca(), 0), (certificates.client_cert(), 1)] {
        let (address, served) = encrypted(&certificates);
        let args = ["probe", "openai", "--key-env", "A_KEY", "--yes", "--calls", "1", "--base-url"];
        let output = paceline(&args)
            .arg(format!("https://{address}"))
            .env("A_KEY", KEY)
            .env("SSL_CERT_FILE", trusts)
            .output()
            .expect("the binary runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        let told = served.join().unwrap().to_lowercase();
        if code == 0 {
            assert!(told.contains(&format!("authorization: bearer {}", KEY.to_lowercase())), "{told}");
        } else {
            assert!(told.is_empty() && errors.contains("not trusted"), "{told} {errors}");
        }
        assert!(!errors.contains("Zx81b"), "{errors}");
    }
}

/// A proxy for one connection; returns the head that it was sent. `status`: what it answers.
fn proxy(status: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            near.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let to = head.split(' ').nth(1).unwrap().to_owned();
        near.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).unwrap();
        if status.starts_with("200") {
            let mut far = TcpStream::connect(to).unwrap();
            let (mut up, mut down) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            // Both end with their connections.
            std::thread::spawn(move || drop(std::io::copy(&mut up, &mut down)));
            drop(std::io::copy(&mut far, &mut near));
        }
        head
    });
    (address, served)
}

#[test]
fn a_proxy_is_told_to_whom_and_not_the_key() {
    let folder = Folder::new("probe-proxy");
    let certificates = Certificates::make(Path::new(folder.path()));
    let run = |to: &str, variables: &[(&str, String)]| {
        let args = ["probe", "openai", "--key-env", "A_KEY", "--yes", "--calls", "1", "--base-url", to];
        let mut command = paceline(&args);
        command.env("A_KEY", KEY).env("SSL_CERT_FILE", certificates.ca());
        let output = command.envs(variables.iter().map(|(name, value)| (*name, value))).output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (address, served) = encrypted(&certificates);
    let (through, seen) = proxy("200 Connection established");
    let named = format!("http://me:secret@{through}");
    let (code, errors) = run(&format!("https://{address}"), &[("HTTPS_PROXY", named.clone())]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains(&format!("through the proxy {through} (HTTPS_PROXY)")) && !errors.contains("secret"), "{errors}");
    let head = seen.join().unwrap();
    assert!(head.starts_with(&format!("CONNECT {address} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n") && !head.contains("Zx81b"), "{head}");
    assert!(served.join().unwrap().contains(KEY), "the provider is told the key");

    // For whom there is to be no proxy: nobody listens at this one.
    let (address, served) = encrypted(&certificates);
    let (code, errors) =
        run(&format!("https://{address}"), &[("https_proxy", named.clone()), ("NO_PROXY", "127.0.0.1".to_owned())]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(served.join().unwrap().contains(KEY));

    let (refusing, seen) = proxy("407 Proxy Authentication Required");
    let (code, errors) = run("https://api.example", &[("HTTPS_PROXY", format!("http://{refusing}"))]);
    assert!(code == Some(1) && errors.contains("it wants a user and a password (407)"), "{errors}");
    seen.join().unwrap();
    let (code, errors) = run("https://api.example", &[("HTTPS_PROXY", "socks5://me:secret@127.0.0.1:9".to_owned())]);
    assert!(
        code == Some(1) && errors.contains("HTTPS_PROXY: only proxies at http://") && !errors.contains("secret"),
        "{errors}"
    );
}

#[test]
fn a_file_of_authorities_that_is_not_there_is_told_and_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let args = ["probe", "openai", "--key-env", "A_KEY", "--yes", "--base-url", &base];
    let output = paceline(&args).env("A_KEY", KEY).env("SSL_CERT_FILE", "/nowhere/ca.pem").output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("SSL_CERT_FILE names /nowhere/ca.pem, which does not exist"), "{errors}");
}

#[test]
fn a_number_of_calls_that_is_none_is_a_mistake() {
    for calls in ["-1", "0", "11", "many"] {
        let (status, out, errors) = probe(&["openai", "--key-env", "A_KEY", "--yes", "--calls", calls]);
        assert!(
            status == Some(2) && errors.contains(&format!("'{calls}'")) && errors.contains("--calls") && out.is_empty(),
            "{errors}"
        );
    }
}
