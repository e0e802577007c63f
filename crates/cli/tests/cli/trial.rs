//! The trial of `docs/shadow.md`, its commands run as they stand there, while workers send more than the provider takes.

mod load;
mod page;

use std::time::{Duration, Instant};

use paceline_client::Mode;
use serde_json::Value;

use crate::process::{Folder, Mock, Serving, run};
use load::Load;
use page::{Page, Step};

/// On a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until something is so.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// What the report tells of the account, for programs.
fn figures(grpc: &str) -> Value {
    let (status, out, errors) = run(&["report", "--shadow", "--json", "--min-hours", "0", "--addr", grpc, "openai/prod"]);
    assert!(matches!(status, Some(0 | 1)), "{status:?} {errors}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn number(figures: &Value, path: &str) -> u64 {
    figures.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// In which mode all calls are, as the service says.
fn only_mode(grpc: &str) -> Option<String> {
    let (_, out, _) = run(&["status", "--json", "--addr", grpc, "openai/prod"]);
    let told: Value = serde_json::from_str(&out).ok()?;
    let modes: Vec<&String> = told.pointer("/scopes/0/modes")?.as_object()?.keys().collect();
    match modes.as_slice() {
        [only] => Some((*only).clone()),
        _ => Some("several".to_owned()),
    }
}

#[test]
fn the_page_runs_as_written() {
    let folder = Folder::new("trial");
    let provider = Mock::start(&["--limit", "requests=600/min,burst=20", "--latency", "50ms"]);
    let page = Page::read("docs/shadow.md", "## The trial, and the way back");
    assert!(page.steps.len() >= 12, "the page has lost steps: {:?}", page.steps);
    let mut service = None;
    let mut load: Option<Load> = None;
    for step in &page.steps {
        match step {
            Step::File { name, text } => drop(folder.write(name, text)),
            Step::Command { line, .. } if line.starts_with("paceline serve ") => {
                let args: Vec<&str> = line.split_whitespace().skip(2).collect();
                let own = [("PACELINE_SERVE_GRPC", "127.0.0.1:0"), ("PACELINE_SERVE_HTTP", "127.0.0.1:0")];
                let serving = Serving::start_in(folder.path(), &args, &own);
                let addr = serving.grpc.clone();
                load = Some(Load::start(&addr, &provider.http));
                until("a hundred calls are answered", || {
                    (number(&figures(&addr), "/total/modes/shadow/answers") >= 100).then_some(())
                });
                service = Some(serving);
            }
            Step::Command { line, expected } => {
                let addr = service.as_ref().map_or("127.0.0.1:1", |serving: &Serving| serving.grpc.as_str());
                let (status, out) = page::run(line, folder.path(), addr);
                assert!(expected.contains(&status), "`{line}` ended with {status} instead of {expected:?}:\n{out}");
                match line.as_str() {
                    line if line.starts_with("sed ") => {
                        let load = load.as_ref().expect("workers work");
                        in_force(line, addr, load);
                    }
                    "paceline report --shadow openai/prod" => {
                        assert!(out.contains("too-young") && out.contains("IF ENFORCED"), "{out}");
                    }
                    line if line.contains("--min-hours 0") => assert!(!out.contains("too-young"), "{out}"),
                    _ => {}
                }
            }
        }
    }
    let (service, load) = (service.expect("the page starts it"), load.expect("workers work"));
    let told = figures(&service.grpc);
    let shadow = |path: &str| number(&told, &format!("/total/modes/shadow{path}"));
    assert!(shadow("/refused/now") > 20, "they send twice the limit: {told}");
    assert!(shadow("/refused/if_enforced") * 3 < shadow("/refused/now"), "{told}");
    assert!(shadow("/waits/calls") > 20, "{told}");
    for mode in ["enforce", "off"] {
        assert!(number(&told, &format!("/total/modes/{mode}/calls")) > 0, "{mode}: {told}");
    }
    let ended = load.end();
    assert_eq!(ended.failed, Vec::<String>::new(), "no call failed because of us");
    assert!(ended.torn.is_empty(), "attempts of one call were in several modes: {:?}", ended.torn);
    let share = |mode: Mode| ended.refused(mode);
    assert!(share(Mode::Enforce) * 3.0 < share(Mode::Shadow), "{} of {}", share(Mode::Enforce), share(Mode::Shadow));
}

/// After a change of the file: it is in force, and calls of the new mode have come to an end.
fn in_force(line: &str, addr: &str, load: &Load) {
    let (mode, expected) = match line {
        line if line.contains("10%") => (Mode::Enforce, "several"),
        line if line.contains("mode: enforce") => (Mode::Enforce, "enforce"),
        line if line.contains("mode: off") => (Mode::Off, "off"),
        _ => panic!("no such step is known: {line}"),
    };
    load.changing();
    until(line, || only_mode(addr).filter(|only| only == expected));
    load.changed();
    let enough = if expected == "several" { 3 } else { 40 };
    until(&format!("{enough} calls after `{line}`"), || (load.ended_in(mode) >= enough).then_some(()));
    if mode == Mode::Off {
        until("a refused call is sent again by the client itself", || load.was_sent_again(mode).then_some(()));
    }
}
