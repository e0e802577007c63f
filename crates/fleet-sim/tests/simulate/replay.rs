//! Calls of the past: they come when they came and cost what they cost; a configuration of one's own decides how they wait.

use paceline_core::units::Span;
use paceline_fleet_sim::calls;
use paceline_fleet_sim::plot::{Format, plot};
use paceline_fleet_sim::scenario::{Scenario, Written, replay};
use paceline_fleet_sim::{OURS, run, run_recorded};

fn on(limits: &str, csv: &str) -> Result<Scenario, String> {
    let text = format!("provider: {{limits: {{{limits}}}}}\n");
    let written = Written { name: "past".into(), file: "past.yaml".into(), text };
    let past = calls::read("past.csv", csv).map_err(|error| error.to_string())?;
    replay(&written, &past).map_err(|error| error.to_string())
}

/// Ten calls a second for half a minute, every third interactive, each taking half a second.
fn busy() -> String {
    let lines = (0..300).map(|nth| {
        let (class, at) = (if nth % 3 == 0 { "interactive" } else { "batch" }, f64::from(nth) / 10.0);
        format!("{at},gpt-4o,{class},team-{},{},500ms\n", nth % 2, 100 + nth)
    });
    format!("time,model,class,tenant,tokens,duration\n{}", lines.collect::<String>())
}

fn config(limit: &str) -> String {
    format!(
        "providers: {{openai: {{accounts: {{prod: {{start_level: full, models: {{\"*\": {{limits: {{requests: {limit}}}}}}}}}}}}}}}\n"
    )
}

#[test]
fn calls_come_when_they_came_and_take_what_they_took() {
    let scenario = on("requests: 6000/min", &busy()).unwrap();
    assert_eq!((scenario.calls(), scenario.fleet.len()), (300, 4), "class, tenant and model make a part");
    let outcome = run(&scenario, OURS, 1).unwrap();
    assert_eq!((outcome.finished, outcome.rejected, outcome.given_up), (300, 0, 0));
    // The last one comes at 29.9 s and takes half a second, whatever a limit that nobody reaches allows.
    assert_eq!(outcome.clairvoyant, Span::from_millis(30_400));
    assert!(outcome.makespan < outcome.clairvoyant + Span::from_millis(100), "{}", outcome.makespan);
    assert!(outcome.wait_p99 < Span::from_millis(100), "{}", outcome.wait_p99);
    assert_eq!(run(&scenario, OURS, 1).unwrap().to_json(), outcome.to_json());
}

#[test]
fn a_tighter_configuration_makes_them_wait() {
    let scenario = on("requests: 6000/min", &busy()).unwrap();
    let wide = scenario.clone().configured("wide.yaml", &config("6000/min"), None).unwrap();
    let tight = scenario.configured("tight.yaml", &config("300/min"), Some(("openai", "prod"))).unwrap();
    let (wide, tight) = (run(&wide, OURS, 1).unwrap(), run(&tight, OURS, 1).unwrap());
    assert!(wide.wait_p99 < Span::from_millis(100), "{}", wide.wait_p99);
    assert!(tight.makespan >= wide.makespan && tight.sends <= wide.sends);
    assert_eq!((wide.given_up, tight.rejected), (0, 0));
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let none = on("tokens: 300/min", &busy()).unwrap_err();
    assert!(none.contains("came 20.1 s after the first cost 301 tokens") && none.contains("300 at most"), "{none}");
    let scenario = || on("requests: 6000/min", "time\n0\n").unwrap();
    let refused = |config: &str, account| scenario().configured("mine.yaml", config, account).unwrap_err().to_string();
    let two = "providers: {openai: {accounts: {prod: {}, test: {}}}}\n";
    let error = refused(two, None);
    assert!(error.contains("--account: openai/prod, openai/test"), "{error}");
    let error = refused(two, Some(("openai", "prd")));
    assert!(error.contains("no account openai/prd; did you mean openai/prod?"), "{error}");
    let error = refused("providers: {}\n", None);
    assert!(error.contains("mine.yaml: it has no account"), "{error}");
    let error = refused("provider: {}\n", None);
    assert!(error.contains("mine.yaml:1"), "{error}");
}

#[test]
fn a_run_can_be_drawn_and_draws_the_same_again() {
    let scenario = on("requests: 300/min", &busy()).unwrap();
    let film = || {
        let strategies = [OURS, "full-jitter"];
        strategies.map(|strategy| run_recorded(&scenario, strategy, 1, Span::from_millis(500)).unwrap().1)
    };
    let (first, again) = (film(), film());
    for format in [Format::Svg, Format::Png] {
        assert_eq!(plot(format, &first).unwrap(), plot(format, &again).unwrap());
    }
    let svg = String::from_utf8(plot(Format::Svg, &first).unwrap()).unwrap();
    assert!(svg.contains(">requests left<") && svg.contains(">full-jitter<"));
}
