"""Which replica a scope goes to: rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998).

Every client that knows the same replicas sends a scope to the same one, so that its leader is where its calls arrive. When a
replica goes, only its scopes move. The weight is the same in every language: FNV-1a (64 bits) over provider, a zero byte,
account, a zero byte and the replica's name, then the finaliser of MurmurHash3.
"""

from __future__ import annotations

from collections.abc import Iterable

FNV_OFFSET = 0xCBF2_9CE4_8422_2325
FNV_PRIME = 0x0000_0100_0000_01B3
BITS = 0xFFFF_FFFF_FFFF_FFFF


def route(provider: str, account: str) -> int:
    """The route of a scope: the model plays no part."""
    return fnv(FNV_OFFSET, f"{provider}\0{account}\0".encode())


def of_call(scope_route: int, request_id: str) -> int:
    """The route of one call, where the calls of a scope are spread over all replicas."""
    return fnv(scope_route, request_id.encode())


def weight(of_route: int, replica: str) -> int:
    """How much a replica weighs for this route."""
    return mixed(fnv(of_route, replica.encode()))


def replica_for(provider: str, account: str, replicas: Iterable[str]) -> str | None:
    """The replica that a scope's calls go to first; ``None`` when there is none. Names are ``ip:port``."""
    of_route = route(provider, account)
    # Of equal weights the first name, as everywhere.
    return min(replicas, key=lambda name: (-weight(of_route, name), name), default=None)


def fnv(hash_: int, data: bytes) -> int:
    """FNV-1a, 64 bits, going on from `hash_`."""
    for byte in data:
        hash_ = ((hash_ ^ byte) * FNV_PRIME) & BITS
    return hash_


def mixed(hash_: int) -> int:
    """Spreads what FNV leaves similar: each bit depends on all."""
    hash_ = ((hash_ ^ (hash_ >> 33)) * 0xFF51_AFD7_ED55_8CCD) & BITS
    hash_ = ((hash_ ^ (hash_ >> 33)) * 0xC4CE_B9FE_1A85_EC53) & BITS
    return hash_ ^ (hash_ >> 33)
