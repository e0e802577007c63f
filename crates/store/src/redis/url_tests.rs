//! Addresses, as a table.

use super::*;

#[test]
fn addresses_are_read_and_shown_without_secrets() {
    for (text, shown) in [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost:7000/3", "redis://localhost:7000/3"),
        ("redis://[::1]:7000", "redis://[::1]:7000"),
        ("redis://:hunter2@redis:6379/0", "redis://***@redis:6379"),
        ("rediss://app:hun%40ter2@redis?ca=/etc/ca.pem&prefix=eu", "rediss://***@redis:6379?prefix=eu"),
        ("unix:///run/redis/redis.sock?db=2", "unix:///run/redis/redis.sock?db=2"),
        ("redis+unix:///a%20b.sock", "unix:///a b.sock"),
        ("redis+cluster://a,b:7001,[::1]", "redis+cluster://a:6379,b:7001,[::1]:6379"),
        ("rediss+cluster://app:hunter2@a,b/0", "rediss+cluster://***@a:6379,b:6379"),
        ("redis+sentinel://a,b:1,c/mymaster/4?sentinel_password_file=/s", "redis+sentinel://a:26379,b:1,c:26379/mymaster?db=4"),
        ("redis://host?user=app&password_file=/run/secret&timeout_ms=50&connections=4", "redis://***@host:6379"),
    ] {
        let url: RedisUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(url.to_string(), shown);
        assert!(!format!("{url:?}{:?}{:?}", url.password, url.way).contains("hunter"), "{url:?}");
    }
    let url: RedisUrl = "rediss://app:hun%40ter2@redis?timeout_ms=50&connections=4&cert=c&key=k".parse().unwrap();
    assert_eq!(url.password, Password::Given(Secret::new("hun@ter2".to_owned())));
    assert_eq!((url.timeout, url.connections, url.user.as_deref()), (Duration::from_millis(50), 4, Some("app")));
    assert_eq!(url.tls, Some(TlsFiles { ca: None, cert: Some("c".into()), key: Some("k".into()) }));
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    for (text, part) in [
        ("localhost:6379", "no `://`"),
        ("http://localhost", "begins with none of redis://"),
        ("valkey://localhost", "Valkey speaks the same"),
        ("redis://", "no host"),
        ("redis://:6379", "no host"),
        ("redis://host:port", "number from 1 to 65535"),
        ("redis://host:0", "number from 1 to 65535"),
        ("redis://app:hunter/2@host", "number from 1 to 65535"),
        ("redis://::1:6379", "needs brackets"),
        ("redis://[::1", "needs both of them"),
        ("redis://a,b", "redis+cluster://"),
        ("redis://host/name", "number of the database"),
        ("redis://host/-1", "number of the database"),
        ("redis://app:%zz@host", "two hexadecimal digits"),
        ("redis://app:%ff@host", "not UTF-8"),
        ("redis://app@host", "a user without a password"),
        ("redis://app:hunter2@host?password_file=f", "keep the file"),
        ("redis://host?ca=f", "rediss://"),
        ("redis://host?tls=true", "chosen by the scheme"),
        ("rediss://host?cert=f", "both, cert and key"),
        ("redis://host?prefix=", "has no value"),
        ("redis://host?prefix={a}", "letters, digits"),
        ("redis://host?timeout_ms=0", "from 1 to 60000"),
        ("redis://host?timeout_ms=5&timeout_ms=6", "twice"),
        ("redis://host?hunter=2", "there are ca, cert"),
        ("redis+cluster://a,b/1", "database 0 only"),
        ("redis+cluster://a,b?db=1", "database 0 only"),
        ("redis+cluster://a,,b", "no host"),
        ("redis+sentinel://a,b", "name of the primary"),
        ("redis+sentinel://a,b/name/x", "number of the database"),
        ("redis://host?sentinel_user=me", "redis+sentinel://"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix://redis.sock", "full path"),
    ] {
        let error = text.parse::<RedisUrl>().map(|url| url.to_string()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("hunter/2"), "{text}: {error}");
    }
}
