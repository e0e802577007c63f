//! Answers that nobody sent: names that rules read and names that nearly are, values of every form, bodies of every kind.

use proptest::prelude::*;

/// Names that rules read, names that nearly are, and any text.
pub(crate) fn name() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "x",
        "ratelimit",
        "rate-limit",
        "limit",
        "remaining",
        "reset",
        "after",
        "used",
        "requests",
        "tokens",
        "minute",
        "day",
        "retry",
        "ms",
        "policy",
        "acme",
        "should",
        "date",
        "age",
        "grpc-status",
        "grpc-retry-pushback-ms",
    ]);
    prop_oneof![
        8 => prop::collection::vec(word, 1..6).prop_map(|words| words.join("-")),
        1 => "\\PC{0,40}",
    ]
}

/// Values of every form, values that nearly are, and any bytes.
pub(crate) fn value() -> impl Strategy<Value = Vec<u8>> {
    let text = |strategy: &'static str| strategy.prop_map(String::into_bytes);
    prop_oneof![
        4 => text("-?[0-9]{1,22}(\\.[0-9]{0,8})?(e[+-]?[0-9]{1,4})?"),
        2 => text("([0-9]{1,5}(\\.[0-9]{1,4})?(ns|us|ms|s|m|h|d)){1,4}"),
        1 => text("(Fri|Friday), [0-9]{1,2}[ -]Feb[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|UTC|[+]0[0-9]00)"),
        1 => text("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})"),
        1 => text("\"[a-z;,=]{0,6}\";r=-?[0-9]{1,20};t=[0-9]{1,20}(, \"b\";r=[0-9])?"),
        1 => text("limit=[0-9]{1,20}, remaining=-?[0-9]{1,20}, reset=[0-9]{1,20}"),
        1 => text("[0-9]{1,9}, [0-9]{1,9};w=[0-9]{1,20}"),
        1 => text("-?[0-9]{1,20} ?/ ?[0-9]{1,20}"),
        1 => text("total=[0-9]{1,20}; remaining=-?[0-9]{1,20}; resets=-?[0-9]{1,20}"),
        1 => text("[A-Za-z0-9+/]{0,40}={0,2}"),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

/// Bodies with waits, with buckets, that were cut off, and any bytes.
pub(crate) fn body() -> impl Strategy<Value = Vec<u8>> {
    let text = |strategy: &'static str| strategy.prop_map(String::into_bytes);
    prop_oneof![
        2 => text("\\{\"error\": \\{\"message\": \"try again in -?[0-9]{1,22}(\\.[0-9]{1,3})?(s|ms| days|:[0-9]{2}:[0-9]{2})?\"\\}\\}"),
        2 => text("\\{\"retry_after\": -?[0-9]{1,22}(\\.[0-9]{1,3})?(e[0-9]{1,4})?\\}"),
        1 => text("\\{\"errors\": \\[\\{\"extensions\": \\{\"code\": \"THROTTLED\"\\}\\}\\], \"extensions\": \\{\"cost\": \\{\"requestedQueryCost\": -?[0-9]{1,22}, \"throttleStatus\": \\{\"maximumAvailable\": [0-9]{1,22}(\\.[0-9])?, \"currentlyAvailable\": -?[0-9]{1,22}, \"restoreRate\": -?[0-9]{1,20}(\\.[0-9]{1,9})?\\}\\}\\}\\}"),
        1 => text("[\\[\\{\\]\\}\":,a-z0-9\\\\ ]{0,60}"),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => Just(b"[".repeat(20_000)),
    ]
}
