"""A parent that has called forks three times, busy or not; its children call, and so does it."""

from __future__ import annotations

import os
import sys
import threading

if sys.argv[2] == "grpc-first":
    import grpc  # a user's own, before us

    assert grpc

import paceline

limiter = paceline.Limiter(sys.argv[1])
assert "grpc" in sys.modules or sys.argv[2] != "grpc-first"


def once() -> None:
    with limiter.slot("mine", model="m") as slot:
        assert slot.path == "served", slot.path


if sys.argv[2] != "lazy":
    once()
stop = threading.Event()


def keep_busy() -> None:
    while not stop.is_set():
        once()


busy = [threading.Thread(target=keep_busy) for _ in range(4 if sys.argv[2] == "busy" else 0)]
for thread in busy:
    thread.start()
held = limiter.begin(paceline.Ask("mine", model="m")).acquire()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        once()
        once()
        # The parent's slot is the parent's: nothing that happens to it here is told.
        held.settle(paceline.Abandoned())
        del held
        assert paceline.flush()  # os._exit asks nobody
        sys.stdout.write("child served\n")
        sys.stdout.flush()
        os._exit(0)
    children.append(child)
once()
stop.set()
for thread in busy:
    thread.join()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0, 0], codes
held.sent()
reported = held.report(paceline.Response(200))
assert reported.not_applied is None, "the parent's own lease was left alone"
print("parent served")
