from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_INTERACTIVE: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_BATCH: _ClassVar[Priority]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_OFF: _ClassVar[Mode]
    MODE_SHADOW: _ClassVar[Mode]
    MODE_ENFORCE: _ClassVar[Mode]

class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_UNSPECIFIED: _ClassVar[Source]
    SOURCE_PACING: _ClassVar[Source]
    SOURCE_BUCKET: _ClassVar[Source]
    SOURCE_RETRY_AFTER_SECONDS: _ClassVar[Source]
    SOURCE_RETRY_AFTER_DATE: _ClassVar[Source]
    SOURCE_RETRY_AFTER_MS: _ClassVar[Source]
    SOURCE_RESET_HEADER: _ClassVar[Source]
    SOURCE_ERROR_BODY: _ClassVar[Source]
    SOURCE_BACKOFF: _ClassVar[Source]
    SOURCE_RAMP: _ClassVar[Source]
    SOURCE_CONCURRENCY: _ClassVar[Source]
    SOURCE_FAIR_SHARE: _ClassVar[Source]
    SOURCE_JITTER: _ClassVar[Source]
    SOURCE_STORE: _ClassVar[Source]
    SOURCE_PAUSED: _ClassVar[Source]
    SOURCE_NONE: _ClassVar[Source]

class ResetMeans(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESET_MEANS_UNSPECIFIED: _ClassVar[ResetMeans]
    RESET_MEANS_FULL: _ClassVar[ResetMeans]
    RESET_MEANS_WINDOW: _ClassVar[ResetMeans]

class ObservedOwner(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBSERVED_OWNER_UNSPECIFIED: _ClassVar[ObservedOwner]
    OBSERVED_OWNER_GROUP: _ClassVar[ObservedOwner]
    OBSERVED_OWNER_ACCOUNT: _ClassVar[ObservedOwner]

class AnswerKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_KIND_UNSPECIFIED: _ClassVar[AnswerKind]
    ANSWER_KIND_OK: _ClassVar[AnswerKind]
    ANSWER_KIND_THROTTLED: _ClassVar[AnswerKind]
    ANSWER_KIND_OVERLOADED: _ClassVar[AnswerKind]
    ANSWER_KIND_QUOTA_EXHAUSTED: _ClassVar[AnswerKind]
    ANSWER_KIND_IMPOSSIBLE: _ClassVar[AnswerKind]
    ANSWER_KIND_FAILED: _ClassVar[AnswerKind]
    ANSWER_KIND_REJECTED: _ClassVar[AnswerKind]
PRIORITY_UNSPECIFIED: Priority
PRIORITY_INTERACTIVE: Priority
PRIORITY_NORMAL: Priority
PRIORITY_BATCH: Priority
MODE_UNSPECIFIED: Mode
MODE_OFF: Mode
MODE_SHADOW: Mode
MODE_ENFORCE: Mode
SOURCE_UNSPECIFIED: Source
SOURCE_PACING: Source
SOURCE_BUCKET: Source
SOURCE_RETRY_AFTER_SECONDS: Source
SOURCE_RETRY_AFTER_DATE: Source
SOURCE_RETRY_AFTER_MS: Source
SOURCE_RESET_HEADER: Source
SOURCE_ERROR_BODY: Source
SOURCE_BACKOFF: Source
SOURCE_RAMP: Source
SOURCE_CONCURRENCY: Source
SOURCE_FAIR_SHARE: Source
SOURCE_JITTER: Source
SOURCE_STORE: Source
SOURCE_PAUSED: Source
SOURCE_NONE: Source
RESET_MEANS_UNSPECIFIED: ResetMeans
RESET_MEANS_FULL: ResetMeans
RESET_MEANS_WINDOW: ResetMeans
OBSERVED_OWNER_UNSPECIFIED: ObservedOwner
OBSERVED_OWNER_GROUP: ObservedOwner
OBSERVED_OWNER_ACCOUNT: ObservedOwner
ANSWER_KIND_UNSPECIFIED: AnswerKind
ANSWER_KIND_OK: AnswerKind
ANSWER_KIND_THROTTLED: AnswerKind
ANSWER_KIND_OVERLOADED: AnswerKind
ANSWER_KIND_QUOTA_EXHAUSTED: AnswerKind
ANSWER_KIND_IMPOSSIBLE: AnswerKind
ANSWER_KIND_FAILED: AnswerKind
ANSWER_KIND_REJECTED: AnswerKind

class Target(_message.Message):
    __slots__ = ("provider", "account", "model")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    provider: str
    account: str
    model: str
    def __init__(self, provider: _Optional[str] = ..., account: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Delay(_message.Message):
    __slots__ = ("source", "duration", "bucket", "binding", "free_in")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    FREE_IN_FIELD_NUMBER: _ClassVar[int]
    source: Source
    duration: _duration_pb2.Duration
    bucket: str
    binding: bool
    free_in: _duration_pb2.Duration
    def __init__(self, source: _Optional[_Union[Source, str]] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., bucket: _Optional[str] = ..., binding: bool = ..., free_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ObservedBucket(_message.Message):
    __slots__ = ("name", "limit", "remaining", "reset_in", "reset_means", "meter", "window", "owner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    RESET_IN_FIELD_NUMBER: _ClassVar[int]
    RESET_MEANS_FIELD_NUMBER: _ClassVar[int]
    METER_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    remaining: int
    reset_in: _duration_pb2.Duration
    reset_means: ResetMeans
    meter: str
    window: _duration_pb2.Duration
    owner: ObservedOwner
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., remaining: _Optional[int] = ..., reset_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., reset_means: _Optional[_Union[ResetMeans, str]] = ..., meter: _Optional[str] = ..., window: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., owner: _Optional[_Union[ObservedOwner, str]] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("source", "retry_after", "honored", "buckets", "retryable", "unread_headers", "malformed_headers", "kind", "field")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    HONORED_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    UNREAD_HEADERS_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_HEADERS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    source: Source
    retry_after: _duration_pb2.Duration
    honored: _duration_pb2.Duration
    buckets: _containers.RepeatedCompositeFieldContainer[ObservedBucket]
    retryable: bool
    unread_headers: _containers.RepeatedScalarFieldContainer[str]
    malformed_headers: _containers.RepeatedScalarFieldContainer[str]
    kind: AnswerKind
    field: str
    def __init__(self, source: _Optional[_Union[Source, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., honored: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., buckets: _Optional[_Iterable[_Union[ObservedBucket, _Mapping]]] = ..., retryable: bool = ..., unread_headers: _Optional[_Iterable[str]] = ..., malformed_headers: _Optional[_Iterable[str]] = ..., kind: _Optional[_Union[AnswerKind, str]] = ..., field: _Optional[str] = ...) -> None: ...
