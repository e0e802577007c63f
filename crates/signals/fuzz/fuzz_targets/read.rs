//! Any bytes as an answer of any provider: no panic, and what is read stays within its bounds.
//!
//! The first line names a status and, by number, a provider; then headers as `name: value` up to an empty line; then the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, catalogue, read};

fuzz_target!(|data: &[u8]| {
    let [first, second, third, rest @ ..] = data else { return };
    let providers: Vec<_> = catalogue().providers().collect();
    let Some(provider) = providers.get(usize::from(*first) % providers.len()) else { return };
    let status = u16::from_be_bytes([*second, *third]) % 600;
    let (mut headers, mut body) = (Vec::new(), rest);
    while let Some(end) = body.iter().position(|byte| *byte == b'\n') {
        let (line, after) = body.split_at(end);
        body = after.get(1..).unwrap_or_default();
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        if let Ok(name) = std::str::from_utf8(&line[..colon]) {
            headers.push((name, &line[colon + 1..]));
        }
    }
    let received_at = Some(FleetTime::from_secs(1_800_000_000));
    let answer = Answer { status, grpc_status: None, headers: &headers, body, received_at, age: Span::ZERO };
    let signal = read(provider, &answer);
    let longest = Span::from_secs(1 << 31);
    assert!(signal.retry_after.is_none_or(|wait| (Span::ZERO..=longest).contains(&wait)), "{signal:?}");
});
