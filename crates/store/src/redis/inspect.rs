//! A look at a server's own settings, once: what would lose state sooner or later is said loudly at the start.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::link::Link;

/// Nobody waits for this.
const PATIENCE: Duration = Duration::from_secs(2);
/// The oldest version that has all that we use.
const OLDEST: (u64, u64) = (6, 2);

/// What a server says of itself, as `key:value` lines of INFO, and its `save` setting where that may be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    info: String,
    save: Option<String>,
}

/// Something that whoever runs the server should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It may throw away what we stored.
    Evicts(String),
    /// It keeps nothing over a restart.
    Forgets,
    /// It lacks commands that we use.
    TooOld(String),
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Evicts(policy) => write!(
                f,
                "Redis may evict our state: maxmemory-policy is {policy}. An evicted hold sends calls to a provider that asked for none. \
                 Set it to noeviction, and give Paceline a server of its own"
            ),
            Self::Forgets => f.write_str(
                "Redis keeps nothing over a restart: neither appendonly nor save is set. Each restart then is a cautious start of every \
                 limit; replicas add what they remember. Set appendonly yes",
            ),
            Self::TooOld(version) => {
                write!(f, "Redis {version} is too old: Paceline needs {}.{} or later, or Valkey", OLDEST.0, OLDEST.1)
            }
        }
    }
}

impl Settings {
    /// Asks; what may not be asked stays unknown.
    pub(super) async fn read(link: &Arc<Link>) -> Self {
        let deadline = Instant::now() + PATIENCE;
        let info = match link.send(&redis::cmd("INFO"), deadline).await {
            Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => text,
            _ => String::new(),
        };
        let mut question = redis::cmd("CONFIG");
        question.arg("GET").arg("save");
        let save = match link.send(&question, deadline).await {
            Ok(Value::Array(parts)) => match parts.as_slice() {
                [_, Value::BulkString(save)] => Some(String::from_utf8_lossy(save).into_owned()),
                _ => None,
            },
            _ => None,
        };
        Self { info, save }
    }

    /// Why nothing will ever come of it: waiting does not make a server younger.
    pub(super) fn mistake(&self) -> Option<Finding> {
        self.findings().into_iter().find(|finding| matches!(finding, Finding::TooOld(_)))
    }

    /// What is wrong with them.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(version) = self.value("redis_version") {
            let mut parts = version.split('.').map_while(|part| part.parse::<u64>().ok());
            let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
            if found < OLDEST {
                findings.push(Finding::TooOld(version.to_owned()));
            }
        }
        if let Some(policy) = self.value("maxmemory_policy")
            && policy != "noeviction"
        {
            findings.push(Finding::Evicts(policy.to_owned()));
        }
        if self.value("aof_enabled") == Some("0") && self.save.as_deref() == Some("") {
            findings.push(Finding::Forgets);
        }
        findings
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_lose_state_is_found() {
        let settings = |info: &str, save: Option<&str>| Settings { info: info.to_owned(), save: save.map(str::to_owned) };
        let fine = "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";
        assert_eq!(settings(fine, Some("3600 1")).findings(), []);
        assert_eq!(settings(fine, None).findings(), [], "what may not be asked is not complained about");
        assert_eq!(settings("", None).findings(), []);
        assert_eq!(settings(fine, Some("")).findings(), [Finding::Forgets]);
        let bad = "redis_version:6.0.16\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n";
        assert_eq!(settings(bad, None).mistake(), Some(Finding::TooOld("6.0.16".to_owned())));
        assert_eq!(settings(fine, Some("")).mistake(), None, "who forgets can be used");
        let expected = [Finding::TooOld("6.0.16".to_owned()), Finding::Evicts("allkeys-lru".to_owned())];
        assert_eq!(settings(bad, Some("")).findings(), expected);
        assert_eq!(settings("redis_version:6.2.0\nmaxmemory_policy:volatile-ttl", None).findings().len(), 1);
    }
}
