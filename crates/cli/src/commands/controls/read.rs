//! Lengths, limits and names as people write them.

use paceline_proto::v1::Limit;
use prost_types::Duration;

/// `90s`, `30m`, `4h`, `2d`.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no length of time: write a number and a unit, such as 90s, 30m, 4h or 2d");
    let at = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(at);
    let number: i64 = number.parse().map_err(|_| bad())?;
    let seconds = number.checked_mul(seconds_of(unit).ok_or_else(bad)?).ok_or_else(bad)?;
    match seconds {
        1..=604_800 => Ok(Duration { seconds, nanos: 0 }),
        0 => Err("it must last for a second at least".to_owned()),
        _ => Err(format!("`{text}` is longer than 7 days; what is to last belongs in the configuration")),
    }
}

fn seconds_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hour" => 3_600,
        "d" | "day" => 86_400,
        _ => return None,
    })
}

/// `requests=300/min`, `concurrency=8`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let bad =
        |why: &str| format!("`{text}` is no limit: {why}; write BUCKET=UNITS/TIME, such as requests=300/min, or concurrency=8");
    let (bucket, value) = text.split_once('=').ok_or_else(|| bad("it has no `=`"))?;
    let (units, per) = match value.split_once('/') {
        Some((units, per)) => (units, Some(per)),
        None => (value, None),
    };
    let units: u64 = units.replace('_', "").parse().map_err(|_| bad("its units are no whole number"))?;
    if bucket.is_empty() {
        return Err(bad("its bucket has no name"));
    }
    if units == 0 {
        return Err(bad("nothing at all would be a pause, see `paceline pause`"));
    }
    let per = match per {
        None => None,
        Some(per) => {
            let seconds = seconds_of(per).or_else(|| length(per).ok().map(|length| length.seconds));
            Some(Duration { seconds: seconds.ok_or_else(|| bad("its time is none (s, min, h, day, 10s)"))?, nanos: 0 })
        }
    };
    Ok(Limit { bucket: bucket.to_owned(), units, per })
}

/// Who runs this command, at which host.
pub(super) fn whoami() -> String {
    let of = |name: &str| std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let user = of("USER").or_else(|| of("LOGNAME")).or_else(|| of("USERNAME")).unwrap_or_else(|| "somebody".to_owned());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = kernel.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).or_else(|| of("HOSTNAME"));
    let name = format!("{user}@{}", host.unwrap_or_else(|| "somewhere".to_owned()));
    name.chars().filter(|letter| !letter.is_control()).take(100).collect()
}
