"""The words of the package are those of the contract."""

from __future__ import annotations

import pytest

from paceline import words
from paceline._proto import common_pb2, rate_limiter_pb2

ENUMS = {
    words.Priority: (common_pb2.Priority, "PRIORITY_"),
    words.Mode: (common_pb2.Mode, "MODE_"),
    words.Source: (common_pb2.Source, "SOURCE_"),
    words.AnswerKind: (common_pb2.AnswerKind, "ANSWER_KIND_"),
    words.Repeat: (rate_limiter_pb2.Repeat, "REPEAT_"),
    words.Verdict: (rate_limiter_pb2.Verdict, "VERDICT_"),
    words.Reason: (rate_limiter_pb2.Reason, "REASON_"),
    words.NotApplied: (rate_limiter_pb2.NotApplied, "NOT_APPLIED_"),
}


@pytest.mark.parametrize("ours", ENUMS, ids=lambda ours: ours.__name__)
def test_each_word_of_the_contract_is_there(ours: type[words.Word]) -> None:
    theirs, prefix = ENUMS[ours]
    assert {prefix + member.name: member.value for member in ours} == dict(theirs.items())


def test_a_newer_word_reads_as_none_and_a_name_in_any_casing() -> None:
    assert words.Reason(4_711) is words.Reason.UNSPECIFIED
    assert words.Priority.read("Batch") is words.Priority.BATCH
    with pytest.raises(ValueError, match="priority 'urgent' does not exist; it is one of interactive, normal, batch"):
        words.Priority.read("urgent")
