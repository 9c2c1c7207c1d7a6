"""Long logs of several kinds, generated on the fly; as a program, one of them is explained.

python -m benchmarks.long_logs "the tests' logs, mixed" --megabytes 200
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuconf.commands.explain import explain_chunks

LOGS = Path(__file__).resolve().parents[1] / "tests/commands/explain/simulated/logs"
OOM = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[10000,32,28,28] and type float "
    "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
)
Blocks = Iterator[bytes]


def progress(end: str) -> Blocks:
    """Keras's progress bars, which end with ``end``: a newline, or characters that erase them."""
    step = 0
    while True:
        lines = []
        for _ in range(10_000):
            step = step % 1875 + 1
            done = step * 30 // 1875
            bar = f"{step}/1875 [{'=' * done}>{'.' * (30 - done)}]"
            lines.append(f"{bar} - ETA: {random.randint(0, 59)}s - loss: {random.random()}{end}")
        yield f"{''.join(lines)}\n".encode()


def chunks_in_use() -> Blocks:
    """Lines of one endless dump, with addresses that never repeat."""
    head = "2023-10-02 16:36:14.402973: I tensorflow/tsl/framework/bfc_allocator.cc:1046] InUse at"
    while True:
        lines = [
            f"{head} {random.getrandbits(46):x} of size {random.getrandbits(30)} next {number}\n"
            for number in range(10_000)
        ]
        yield "".join(lines).encode()


def mixed() -> Blocks:
    """All logs of the tests, with progress bars between them."""
    logs = [log.read_bytes() for log in sorted(LOGS.glob("*.log"))]
    bars = progress("\n")
    while True:
        yield from logs
        yield next(bars)


KINDS: dict[str, Callable[[], Blocks]] = {
    "progress bars, written over": lambda: progress("\r"),
    "lines of one dump, all different": chunks_in_use,
    "the tests' logs, mixed": mixed,
}


def log_of(kind: str, size_bytes: int) -> Blocks:
    """A log of one kind in chunks, with an exception at its end."""
    written = 0
    for block in KINDS[kind]():
        yield block
        written += len(block)
        if written >= size_bytes:
            break
    yield OOM.encode()


def peak_bytes() -> int:
    """The most memory that this process has used, without its parent's, which `getrusage` has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Read one log here; print its lines, the peak and the cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--megabytes", type=int, default=200, help="default: 200")
    options = parser.parse_args()
    random.seed(0)
    diagnosis = explain_chunks(log_of(options.kind, options.megabytes * 10**6))
    found = {"lines": diagnosis.line_count, "peak_bytes": peak_bytes(), "cause": diagnosis.cause}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
