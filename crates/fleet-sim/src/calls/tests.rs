//! Files as programs write them, and every error with its place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;

fn plain(at_ms: i64, model: &str, cost: &[(&str, u64)]) -> PastCall {
    PastCall {
        at: Span::from_millis(at_ms),
        model: model.into(),
        class: Class::Normal,
        tenant: String::new(),
        cost: cost.iter().map(|(meter, units)| ((*meter).to_owned(), *units)).collect(),
        stated: None,
        duration: None,
    }
}

#[test]
fn the_smallest_file() {
    let read = read("calls.csv", "time\n0\n2.5\n1\n").unwrap();
    assert_eq!(read.calls, [plain(0, "model", &[]), plain(1_000, "model", &[]), plain(2_500, "model", &[])]);
}

#[test]
fn everything_a_file_can_tell() {
    let text = "\u{FEFF}Tenant; Start-Time ;PRIORITY;model;prompt_tokens;completion tokens;cost_images;took_ms;note\r\n\
                \"ads; \"\"eu\"\"\";2026-11-29T12:00:01Z;high;gpt-4o;900;100;2;850;\"two\nlines\"\r\n\
                \r\n\
                ;2026-11-29T13:00:00.500+01:00;;;;;;;\r\n";
    let read = read("calls.csv", text).unwrap();
    let first = plain(0, "model", &[]);
    let cost = [("input_tokens", 900), ("output_tokens", 100), ("images", 2), ("tokens", 1_000)];
    let second = PastCall {
        class: Class::Interactive,
        tenant: "ads; \"eu\"".into(),
        duration: Some(Span::from_millis(850)),
        ..plain(500, "gpt-4o", &cost)
    };
    assert_eq!(read.calls, [first, second]);
    assert_eq!(read.ignored, ["note"]);
}

#[test]
fn times_in_every_unit() {
    for (text, millis) in [
        ("time\n1767225600\n1767225601.5\n", 1_500),
        ("time_ms\n1767225600000\n1767225601500\n", 1_500),
        ("ts_us,model\n0,a\n1500,a\n", 2),
        ("at\n100ms\n1.6s\n", 1_500),
        ("offset_s\n-1\n0.5\n", 1_500),
    ] {
        let last = read("calls.csv", text).unwrap().calls[1].at;
        assert_eq!(last.as_millis_ceil(), millis, "{text}");
    }
}

#[test]
fn errors_name_the_place_and_what_to_write() {
    for (text, problem) in [
        ("", "calls.csv: it is empty; its first line should name the columns"),
        ("\n \n", "it is empty"),
        ("time,model\n", "there is a header and no call"),
        ("model,tokens\na,1\n", "no column says when calls came; name one `time`. There are: model, tokens"),
        ("time,tokens\n0,5\n1,many\n", "calls.csv, line 3, column 2 (tokens): `many` is no cost; write a whole number"),
        ("time,tokens\n0,-5\n", "line 2, column 2 (tokens): `-5` is no cost"),
        ("time,tokens\n0,9999999999999999\n", "from 0 to 10^15"),
        ("time\n0\n\n\nsoon\n", "line 5, column 1 (time): `soon` is no time; write seconds"),
        ("time,class\n0,urgent\n", "line 2, column 2 (class): `urgent` is no class; write interactive, normal or batch"),
        ("time,latency\n0,-1\n", "column 2 (latency): `-1` is no duration between 0 and 31 days"),
        ("time,latency\n0,slow\n", "`slow` is no length"),
        ("time,model\n0,a\n1\n", "calls.csv, line 3: it has 1 fields and the header has 2"),
        ("time,time_ms\n0,0\n", "the columns `time` and `time_ms` mean the same"),
        ("time,tokens,total_tokens\n0,0,0\n", "`tokens` and `total_tokens` mean the same"),
        ("time\n0\n1e9\n", "more than 31 days"),
        ("time,model\n0,\"a\n1,b\n", "line 2: a quote begins here and never ends"),
        ("time,model\n0,\"a\"b\n", "line 2: a quote ends and text follows"),
        ("time,model\n,a\n", "column 1 (time): `` is no time"),
    ] {
        let error = read("calls.csv", text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text:?}: {error}");
    }
}

proptest! {
    /// Whatever a file holds, it is read or refused, never more.
    #[test]
    fn no_file_breaks_it(text in "(time|tokens|[,;\n\"]|[0-9.a]|\\PC){0,60}") {
        let _ = read("calls.csv", &text);
        let _ = read("calls.csv", &format!("time,tokens,took\n{text}"));
    }

    /// What is written with quotes comes back as it was.
    #[test]
    fn quoted_fields_come_back(tenants in prop::collection::vec("[ -~\n]{1,12}", 1..8)) {
        let lines: String = tenants.iter().map(|tenant| format!("1,\"{}\"\n", tenant.replace('"', "\"\""))).collect();
        let calls = read("calls.csv", &format!("time,tenant\n{lines}")).unwrap().calls;
        let back: Vec<&str> = calls.iter().map(|call| call.tenant.as_str()).collect();
        prop_assert_eq!(back, tenants.iter().map(|tenant| tenant.trim()).collect::<Vec<_>>());
    }
}
