//! `paceline bench` against `paceline serve`.

use serde_json::Value;

use crate::process::{Folder, Serving, run};

const CONFIG: &str =
    r#"providers: {bench: {dialect: generic, limits: {requests: 1G/s}, models: {"*": {limits: {requests: 1G/s}}}}}"#;

fn serving(folder: &Folder) -> Serving {
    let config = folder.write("bench.yaml", CONFIG);
    Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", &config], &[])
}

/// Every way of sending calls gets its slots, and the JSON has what is promised.
#[test]
fn every_way_of_sending_is_measured() {
    let folder = Folder::new("bench");
    let serving = serving(&folder);
    let ways: [&[&str]; 6] = [
        &["--in-flight", "8"],
        &["--in-flight", "8", "--report", "--scopes", "20", "--balance", "round-robin"],
        &["--rate", "200"],
        &["--via", "session", "--in-flight", "8"],
        &["--via", "batch", "--batch", "10", "--in-flight", "20", "--report"],
        &["--via", "batch", "--batch", "10", "--rate", "200"],
    ];
    for way in ways {
        let common =
            ["bench", "--addr", &serving.grpc, "--provider", "bench", "--duration", "500ms", "--warm-up", "100ms", "--json"];
        let (status, out, errors) = run(&[&common[..], way].concat());
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{way:?}");
        let figures: Value = serde_json::from_str(&out).expect("one object");
        let number = |key: &str| figures[key].as_f64().unwrap_or_else(|| panic!("{way:?}: no {key} in {out}"));
        assert!(number("acquires_per_s") > 10.0, "{way:?}: {out}");
        assert!(
            number("p50_us") > 0.0 && number("p50_us") <= number("p99_us") && number("p99_us") <= number("p999_us"),
            "{out}"
        );
        assert_eq!((number("errors"), number("denied"), number("tickets")), (0.0, 0.0, 0.0), "{way:?}: {out}");
        // The service is another process of this machine, so its time is found where there is /proc.
        assert!(figures["server_cpu_us_per_acquire"].is_number() == cfg!(target_os = "linux"), "{way:?}: {out}");
    }
}

#[test]
fn people_get_words_and_bars_and_what_to_do() {
    let folder = Folder::new("bench-words");
    let serving = serving(&folder);
    let short = ["bench", "--addr", &serving.grpc, "--duration", "300ms", "--warm-up", "0s"];
    let (status, out, errors) = run(&[&short[..], &["--provider", "bench"]].concat());
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(out.contains("64 acquires in flight; 1 scope of bench") && out.contains("p99.9") && out.contains('#'), "{out}");
    let (status, out, errors) = run(&[&short[..], &["--provider", "opnai"]].concat());
    assert!(status == Some(1) && out.is_empty() && errors.contains("did you mean `openai`"), "{errors}");
    let (status, _, errors) = run(&[&short[..], &["--provider", "bench", "--server-pid", "4194303"]].concat());
    assert!(status == Some(1) && errors.contains("must run on this machine"), "{errors}");
}
