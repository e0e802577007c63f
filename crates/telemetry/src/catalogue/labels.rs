//! What each label means.

/// What each label means; `{sources}` in a text stands for the list of sources.
pub const LABELS: [(&str, &str); 25] = [
    ("account", "Whose quota: the name workers send, never a key."),
    (
        "bucket",
        "The bucket that governed: its meter, with its owner (`account/requests`) and window (`requests_day`); empty when no bucket did; `other` beyond eight of a scope.",
    ),
    ("hash", "Of the configuration in force."),
    ("header", "A header's name in lower case, never its value; `other` beyond 200 names."),
    (
        "kind",
        "Of units: `first` or `retry` by the attempt that used them; `overrun`: the part of either that its reservation did not cover. Of limits: `configured`, `learned`, `effective`. Of errors: what was wrong, `timeout`, `connection`, `read_only`, `loading`, `cluster_down`, `full`, `denied`, `corrupt`, `protocol`, `other`.",
    ),
    ("meter", "What is counted: `requests`, `tokens`, `images`, ...; `other` beyond eight of a scope."),
    ("mode", "What is done with a call: `enforce`, `shadow` or `off`."),
    ("op", "What was asked of Redis: `load` a value, `records` of calls, `commit`, or `meta`: time, token keys, replicas."),
    ("model", "What the provider meters apart: a model, a deployment, a resource; may be empty."),
    (
        "outcome",
        "Of an ask: `granted`, `queued`, `denied`, `cancelled` (the caller went away). Of a report: `response`, `running`, `timeout`, `connection_failed`, `abandoned`. Of a call sent on to another replica: `answered`, `unanswered` (not within 200 ms), `broken` (not reached, or the connection ended).",
    ),
    (
        "policy",
        "What happens to calls while the store is away: `local`, each replica grants its part, or `closed`, they are denied.",
    ),
    ("priority", "`interactive`, `normal` or `batch`."),
    ("provider", "A name from the catalogue or the configuration; `other` beyond 64 of them."),
    (
        "reason",
        "Why an ask was, or would be, denied (`deadline`, `over_honor_cap`, ...; in shadow mode also `already_exists`: a request_id used for two calls); empty when it was not.",
    ),
    ("rpc_method", "Service and method, such as `paceline.v1.RateLimiter/Acquire`; `_OTHER` for one that there is not."),
    (
        "rpc_response_status_code",
        "The name of the gRPC status: `OK`, `UNAVAILABLE`; `CANCELLED` also where the caller went away.",
    ),
    ("rpc_system_name", "`grpc`."),
    ("result", "`applied`, or `refused`: the old configuration stays in force."),
    ("source", "Why a call waited, or where a wait was read: {sources}."),
    (
        "status",
        "The HTTP status where it is one in use, else its class (`4xx`); the name of a gRPC status; `other` for numbers that are neither; empty when the provider did not answer.",
    ),
    (
        "tenant",
        "Whose calls, as workers say; `default` for who says nothing; `other` beyond eight of a scope, or 200 of a replica.",
    ),
    ("verdict", "What the worker was told: `done`, `retry`, `fail_over`, `give_up`; empty when the call goes on."),
    ("version", "Of this build."),
    ("le", "Of histograms only: the upper bound of a bucket."),
    ("why", "`lost`, `rolled_back`: an older value came back, or `joined`: another replica found out first."),
];
