"""A pool of processes, by fork or spawn, of a parent that has called before."""

from __future__ import annotations

import multiprocessing
import sys

import paceline


def work(addr: str) -> str:
    with paceline.Limiter(addr).slot("mine", model="m") as slot:
        return slot.path


if __name__ == "__main__":
    addr, method = sys.argv[1:]
    assert work(addr) == "served"
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map(work, [addr] * 12) == ["served"] * 12
        # Leaving the block alone kills the workers, whatever they have to say.
        pool.close()
        pool.join()
    assert work(addr) == "served"
    print("parent served")
