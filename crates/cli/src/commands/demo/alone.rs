//! How a worker goes about its calls without Paceline: as the SDKs of today do, except that it never gives up.

use std::time::Duration;

use hyper::HeaderMap;
use paceline_core::signal::Source;

use super::DemoError;
use super::outcome::Done;
use super::plan::Plan;
use super::provider::Caller;
use super::tally::Tally;

/// The longest `Retry-After` that SDKs obey (openai-python 3.57 and anthropic 2.14: a minute; longer ones count as none).
const LONGEST_OBEYED: Duration = Duration::from_secs(60);
/// What they wait for without one: this, doubled with each retry ...
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// ... up to this.
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);

/// One worker's calls, one after the other.
pub(super) async fn work(plan: &Plan, worker: usize, caller: &Caller, tally: &Tally) -> Result<(), DemoError> {
    for nth in 0..plan.calls_per_worker {
        let wanted = tally.now();
        let mut sends = 0_u32;
        loop {
            let sent = tally.now();
            let answered = caller.call(plan.tokens(worker, nth)).await?;
            sends += 1;
            if answered.status.is_success() {
                tally.finish(Done { worker, wanted, sent, answered: tally.now(), sends });
                break;
            }
            tally.was_refused(tally.now().saturating_sub(sent));
            let (wait, source) = pause(&answered.headers, sends, rand::random());
            let waiting = tally.waiting(source.name());
            let slept = tally.now();
            tokio::time::sleep(wait).await;
            drop(waiting);
            tally.waited(source.name(), tally.now().saturating_sub(slept));
        }
    }
    Ok(())
}

/// How long an SDK waits after the nth refusal: exactly as told; else exponential backoff, of which chance (0 to 1) takes up to
/// a quarter away.
fn pause(headers: &HeaderMap, refusals: u32, chance: f64) -> (Duration, Source) {
    let read = |name: &str, unit: f64| {
        let seconds = headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok()? * unit;
        Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero() && *wait <= LONGEST_OBEYED)
    };
    if let Some(wait) = read("retry-after-ms", 1e-3) {
        return (wait, Source::RetryAfterMs);
    }
    if let Some(wait) = read("retry-after", 1.0) {
        return (wait, Source::RetryAfterSeconds);
    }
    let doublings = refusals.saturating_sub(1).min(16);
    let wait = FIRST_BACKOFF.saturating_mul(1 << doublings).min(LONGEST_BACKOFF);
    let less = Duration::try_from_secs_f64(wait.as_secs_f64() / 4.0 * chance.clamp(0.0, 1.0)).unwrap_or_default();
    (wait.saturating_sub(less), Source::Backoff)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_sdk_does_as_told_and_else_backs_off() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let ms = Duration::from_millis;
        for (pairs, refusals, chance, expected) in [
            (&[("retry-after-ms", "123"), ("retry-after", "1")][..], 1, 0.5, (ms(123), Source::RetryAfterMs)),
            (&[("retry-after", "2")], 1, 0.5, (ms(2_000), Source::RetryAfterSeconds)),
            (&[("retry-after", "61")], 1, 0.0, (ms(500), Source::Backoff)),
            (&[("retry-after", "0")], 1, 0.0, (ms(500), Source::Backoff)),
            (&[("retry-after", "-1")], 1, 0.0, (ms(500), Source::Backoff)),
            (&[("retry-after", "soon")], 2, 0.0, (ms(1_000), Source::Backoff)),
            (&[], 3, 1.0, (ms(1_500), Source::Backoff)),
            (&[], 5, 0.0, (ms(8_000), Source::Backoff)),
            (&[], u32::MAX, 0.0, (ms(8_000), Source::Backoff)),
        ] {
            assert_eq!(pause(&headers(pairs), refusals, chance), expected, "{pairs:?}");
        }
    }
}
