from google.protobuf import duration_pb2 as _duration_pb2
from google.rpc import status_pb2 as _status_pb2
from paceline._proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Repeat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPEAT_UNSPECIFIED: _ClassVar[Repeat]
    REPEAT_SAFE: _ClassVar[Repeat]
    REPEAT_KEYED: _ClassVar[Repeat]
    REPEAT_NEVER: _ClassVar[Repeat]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_RESPONSE: _ClassVar[Outcome]
    OUTCOME_RUNNING: _ClassVar[Outcome]
    OUTCOME_TIMEOUT: _ClassVar[Outcome]
    OUTCOME_CONNECTION_FAILED: _ClassVar[Outcome]
    OUTCOME_ABANDONED: _ClassVar[Outcome]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_DONE: _ClassVar[Verdict]
    VERDICT_RETRY: _ClassVar[Verdict]
    VERDICT_FAIL_OVER: _ClassVar[Verdict]
    VERDICT_GIVE_UP: _ClassVar[Verdict]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_DEADLINE: _ClassVar[Reason]
    REASON_OVER_HONOR_CAP: _ClassVar[Reason]
    REASON_COST_EXCEEDS_CAPACITY: _ClassVar[Reason]
    REASON_QUEUE_FULL: _ClassVar[Reason]
    REASON_RETRY_BUDGET: _ClassVar[Reason]
    REASON_ATTEMPTS_EXHAUSTED: _ClassVar[Reason]
    REASON_NOT_RETRYABLE: _ClassVar[Reason]
    REASON_CROSS_PROVIDER: _ClassVar[Reason]
    REASON_QUOTA_EXHAUSTED: _ClassVar[Reason]
    REASON_PAUSED: _ClassVar[Reason]
    REASON_STORE_UNAVAILABLE: _ClassVar[Reason]

class NotApplied(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_APPLIED_UNSPECIFIED: _ClassVar[NotApplied]
    NOT_APPLIED_LEASE_UNKNOWN: _ClassVar[NotApplied]
    NOT_APPLIED_LEASE_EXPIRED: _ClassVar[NotApplied]
    NOT_APPLIED_LEASE_SETTLED: _ClassVar[NotApplied]
    NOT_APPLIED_REPEATED: _ClassVar[NotApplied]
REPEAT_UNSPECIFIED: Repeat
REPEAT_SAFE: Repeat
REPEAT_KEYED: Repeat
REPEAT_NEVER: Repeat
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_RESPONSE: Outcome
OUTCOME_RUNNING: Outcome
OUTCOME_TIMEOUT: Outcome
OUTCOME_CONNECTION_FAILED: Outcome
OUTCOME_ABANDONED: Outcome
VERDICT_UNSPECIFIED: Verdict
VERDICT_DONE: Verdict
VERDICT_RETRY: Verdict
VERDICT_FAIL_OVER: Verdict
VERDICT_GIVE_UP: Verdict
REASON_UNSPECIFIED: Reason
REASON_DEADLINE: Reason
REASON_OVER_HONOR_CAP: Reason
REASON_COST_EXCEEDS_CAPACITY: Reason
REASON_QUEUE_FULL: Reason
REASON_RETRY_BUDGET: Reason
REASON_ATTEMPTS_EXHAUSTED: Reason
REASON_NOT_RETRYABLE: Reason
REASON_CROSS_PROVIDER: Reason
REASON_QUOTA_EXHAUSTED: Reason
REASON_PAUSED: Reason
REASON_STORE_UNAVAILABLE: Reason
NOT_APPLIED_UNSPECIFIED: NotApplied
NOT_APPLIED_LEASE_UNKNOWN: NotApplied
NOT_APPLIED_LEASE_EXPIRED: NotApplied
NOT_APPLIED_LEASE_SETTLED: NotApplied
NOT_APPLIED_REPEATED: NotApplied

class AcquireRequest(_message.Message):
    __slots__ = ("request_id", "attempt", "target", "fallbacks", "cost", "cost_estimated", "max_wait", "deadline", "hold", "run_time", "priority", "tenant", "labels", "parent", "ticket", "previous_lease_id", "repeat")
    class CostEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    COST_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    attempt: int
    target: _common_pb2.Target
    fallbacks: _containers.RepeatedCompositeFieldContainer[_common_pb2.Target]
    cost: _containers.ScalarMap[str, int]
    cost_estimated: bool
    max_wait: _duration_pb2.Duration
    deadline: _duration_pb2.Duration
    hold: _duration_pb2.Duration
    run_time: _duration_pb2.Duration
    priority: _common_pb2.Priority
    tenant: str
    labels: _containers.ScalarMap[str, str]
    parent: str
    ticket: bytes
    previous_lease_id: str
    repeat: Repeat
    def __init__(self, request_id: _Optional[str] = ..., attempt: _Optional[int] = ..., target: _Optional[_Union[_common_pb2.Target, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[_common_pb2.Target, _Mapping]]] = ..., cost: _Optional[_Mapping[str, int]] = ..., cost_estimated: bool = ..., max_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., deadline: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., run_time: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., tenant: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., parent: _Optional[str] = ..., ticket: _Optional[bytes] = ..., previous_lease_id: _Optional[str] = ..., repeat: _Optional[_Union[Repeat, str]] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("grant", "queued", "denial", "delays", "mode", "shadow", "degraded")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    DELAYS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    queued: Queued
    denial: Denial
    delays: _containers.RepeatedCompositeFieldContainer[_common_pb2.Delay]
    mode: _common_pb2.Mode
    shadow: Shadow
    degraded: bool
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ..., queued: _Optional[_Union[Queued, _Mapping]] = ..., denial: _Optional[_Union[Denial, _Mapping]] = ..., delays: _Optional[_Iterable[_Union[_common_pb2.Delay, _Mapping]]] = ..., mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., shadow: _Optional[_Union[Shadow, _Mapping]] = ..., degraded: bool = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("lease_id", "target", "wait", "use_within", "ttl", "reserved", "estimated", "place_lost")
    class ReservedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    USE_WITHIN_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    PLACE_LOST_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    target: _common_pb2.Target
    wait: _duration_pb2.Duration
    use_within: _duration_pb2.Duration
    ttl: _duration_pb2.Duration
    reserved: _containers.ScalarMap[str, int]
    estimated: _containers.RepeatedScalarFieldContainer[str]
    place_lost: bool
    def __init__(self, lease_id: _Optional[str] = ..., target: _Optional[_Union[_common_pb2.Target, _Mapping]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., use_within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., reserved: _Optional[_Mapping[str, int]] = ..., estimated: _Optional[_Iterable[str]] = ..., place_lost: bool = ...) -> None: ...

class Queued(_message.Message):
    __slots__ = ("ticket", "come_back_in", "estimated_wait", "ahead", "place_lost")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    COME_BACK_IN_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_WAIT_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    PLACE_LOST_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    come_back_in: _duration_pb2.Duration
    estimated_wait: _duration_pb2.Duration
    ahead: int
    place_lost: bool
    def __init__(self, ticket: _Optional[bytes] = ..., come_back_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., estimated_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ahead: _Optional[int] = ..., place_lost: bool = ...) -> None: ...

class Denial(_message.Message):
    __slots__ = ("reason", "retry_after", "detail")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    retry_after: _duration_pb2.Duration
    detail: str
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class Shadow(_message.Message):
    __slots__ = ("wait", "denial", "delays")
    WAIT_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    DELAYS_FIELD_NUMBER: _ClassVar[int]
    wait: _duration_pb2.Duration
    denial: Denial
    delays: _containers.RepeatedCompositeFieldContainer[_common_pb2.Delay]
    def __init__(self, wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., denial: _Optional[_Union[Denial, _Mapping]] = ..., delays: _Optional[_Iterable[_Union[_common_pb2.Delay, _Mapping]]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("lease_id", "seq", "outcome", "status", "grpc_status", "headers", "body", "usage", "usage_estimated", "final", "age", "served_by", "retry")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GRPC_STATUS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    USAGE_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    SERVED_BY_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    seq: int
    outcome: Outcome
    status: int
    grpc_status: int
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    body: bytes
    usage: _containers.ScalarMap[str, int]
    usage_estimated: bool
    final: bool
    age: _duration_pb2.Duration
    served_by: str
    retry: RetryAsk
    def __init__(self, lease_id: _Optional[str] = ..., seq: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., status: _Optional[int] = ..., grpc_status: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ..., body: _Optional[bytes] = ..., usage: _Optional[_Mapping[str, int]] = ..., usage_estimated: bool = ..., final: bool = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., served_by: _Optional[str] = ..., retry: _Optional[_Union[RetryAsk, _Mapping]] = ...) -> None: ...

class RetryAsk(_message.Message):
    __slots__ = ("wanted", "max_wait", "cost", "fallbacks")
    class CostEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WANTED_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    wanted: bool
    max_wait: _duration_pb2.Duration
    cost: _containers.ScalarMap[str, int]
    fallbacks: _containers.RepeatedCompositeFieldContainer[_common_pb2.Target]
    def __init__(self, wanted: bool = ..., max_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cost: _Optional[_Mapping[str, int]] = ..., fallbacks: _Optional[_Iterable[_Union[_common_pb2.Target, _Mapping]]] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("applied", "not_applied", "ttl", "verdict", "reason", "signal", "next", "detail")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    NOT_APPLIED_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    applied: bool
    not_applied: NotApplied
    ttl: _duration_pb2.Duration
    verdict: Verdict
    reason: Reason
    signal: _common_pb2.Signal
    next: AcquireResponse
    detail: str
    def __init__(self, applied: bool = ..., not_applied: _Optional[_Union[NotApplied, str]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[_Union[Reason, str]] = ..., signal: _Optional[_Union[_common_pb2.Signal, _Mapping]] = ..., next: _Optional[_Union[AcquireResponse, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("lease_id", "ticket")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    ticket: bytes
    def __init__(self, lease_id: _Optional[str] = ..., ticket: _Optional[bytes] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: bool = ...) -> None: ...

class AcquireBatchRequest(_message.Message):
    __slots__ = ("items", "hold")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AcquireRequest]
    hold: _duration_pb2.Duration
    def __init__(self, items: _Optional[_Iterable[_Union[AcquireRequest, _Mapping]]] = ..., hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AcquireBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AcquireBatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[AcquireBatchItem, _Mapping]]] = ...) -> None: ...

class AcquireBatchItem(_message.Message):
    __slots__ = ("answer", "error")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    answer: AcquireResponse
    error: _status_pb2.Status
    def __init__(self, answer: _Optional[_Union[AcquireResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class ReportBatchRequest(_message.Message):
    __slots__ = ("items", "hold")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ReportRequest]
    hold: _duration_pb2.Duration
    def __init__(self, items: _Optional[_Iterable[_Union[ReportRequest, _Mapping]]] = ..., hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReportBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ReportBatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[ReportBatchItem, _Mapping]]] = ...) -> None: ...

class ReportBatchItem(_message.Message):
    __slots__ = ("answer", "error")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    answer: ReportResponse
    error: _status_pb2.Status
    def __init__(self, answer: _Optional[_Union[ReportResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("correlation_id", "acquire", "report", "release", "cancel", "forwarded", "more", "takes_more")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    TAKES_MORE_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    acquire: AcquireRequest
    report: ReportRequest
    release: ReleaseRequest
    cancel: Cancel
    forwarded: Forwarded
    more: _containers.RepeatedCompositeFieldContainer[SessionRequest]
    takes_more: bool
    def __init__(self, correlation_id: _Optional[int] = ..., acquire: _Optional[_Union[AcquireRequest, _Mapping]] = ..., report: _Optional[_Union[ReportRequest, _Mapping]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., forwarded: _Optional[_Union[Forwarded, _Mapping]] = ..., more: _Optional[_Iterable[_Union[SessionRequest, _Mapping]]] = ..., takes_more: bool = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Forwarded(_message.Message):
    __slots__ = ("identity", "unheard")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_FIELD_NUMBER: _ClassVar[int]
    identity: str
    unheard: bool
    def __init__(self, identity: _Optional[str] = ..., unheard: bool = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("correlation_id", "acquire", "report", "release", "error", "more", "takes_more")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    TAKES_MORE_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    acquire: AcquireResponse
    report: ReportResponse
    release: ReleaseResponse
    error: _status_pb2.Status
    more: _containers.RepeatedCompositeFieldContainer[SessionResponse]
    takes_more: bool
    def __init__(self, correlation_id: _Optional[int] = ..., acquire: _Optional[_Union[AcquireResponse, _Mapping]] = ..., report: _Optional[_Union[ReportResponse, _Mapping]] = ..., release: _Optional[_Union[ReleaseResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., more: _Optional[_Iterable[_Union[SessionResponse, _Mapping]]] = ..., takes_more: bool = ...) -> None: ...
