"""Every client in every language sends a scope to the same replica."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.engine import rendezvous
from paceline.engine.rendezvous import FNV_OFFSET, fnv, mixed, replica_for, route, weight

NAMES = st.lists(st.from_regex(r"[a-z0-9.]{1,12}:70[0-9]{2}", fullmatch=True), min_size=2, max_size=8, unique=True)


def test_the_weight_is_the_same_everywhere() -> None:
    assert fnv(FNV_OFFSET, b"foobar") == 0x85944171F73967E8, "a published vector of FNV-1a"
    assert mixed(1) == 0xB456BCFC34C2CB2C, "a published vector of fmix64"
    assert weight(route("openai", "prod"), "10.0.0.1:7070") == 0x13028DB1955EA6B4, "as docs/workers.md says"
    replicas = ["10.0.0.1:7070", "10.0.0.2:7070", "10.0.0.3:7070"]
    chosen = [replica_for("openai", account, replicas) for account in ("", "prod", "batch", "eval")]
    assert chosen == [replicas[2], replicas[2], replicas[1], replicas[0]], "as crates/client has it"


def test_names_cannot_run_into_each_other() -> None:
    assert route("a", "bc") != route("ab", "c")
    assert route("a", "") != route("", "a")
    assert replica_for("openai", "prod", []) is None
    assert rendezvous.of_call(route("a", ""), "1") != rendezvous.of_call(route("a", ""), "2")


@given(NAMES, st.text(max_size=12), st.data())
def test_only_the_scopes_of_a_replica_that_goes_move(names: list[str], account: str, data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(names))
    before = replica_for("openai", account, names)
    after = replica_for("openai", account, [name for name in names if name != gone])
    assert before in (gone, after)
    assert before == replica_for("openai", account, reversed(names)), "their order does not matter"
