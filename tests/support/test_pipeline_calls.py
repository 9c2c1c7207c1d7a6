"""Programs that end in the middle of an epoch end; Python that tf.data calls is waited for."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path

import pytest

from gpuconf.support.pipeline_calls import PipelineCalls, _all_calls, ending_early
from tests.programs.inside_tensorflow import PLAIN
from tests.programs.processes import run

_STREAM = """
import sys
import numpy as np
from PIL import Image
import gpuconf.images
Image.fromarray(np.zeros((64, 64, 3), "uint8")).save("a.png")
batches = iter(gpuconf.images.stream(["a.png"] * 5000, size=(8, 8), batch_size=4))
next(batches)
sys.exit("in the middle")
"""
_FIT = """
import time
import keras
import numpy as np
import gpuconf

class File:
    shape, dtype = (4000, 8), np.dtype("float32")
    def __getitem__(self, rows):
        time.sleep(0.05)
        return np.zeros((rows.stop - rows.start, 8), "float32")

class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise SystemExit("in the middle")

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
y = np.zeros(4000, "float32")
gpuconf.fit(model, File(), y, batch_size=8, shuffle=False, callbacks=[Stop()], verbose=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [_STREAM, _FIT], ids=["stream", "fit"])
def test_a_program_that_ends_in_the_middle_of_an_epoch_ends(program: str, tmp_path: Path) -> None:
    """Pictures and rows are being read at that moment; without the wait it would hang."""
    done = run([sys.executable, "-c", program], tmp_path, environ=PLAIN, timeout_s=120)
    assert done.returncode == 1
    assert "in the middle" in done.stderr


def test_what_runs_is_waited_for_and_what_comes_later_takes_no_time() -> None:
    """The call that runs gives what it would have; the next ones what stands for it."""
    calls, may_end, is_running = PipelineCalls(), threading.Event(), threading.Event()

    def read(number: int) -> int:
        is_running.set()
        assert may_end.wait(60)
        return number * 2

    slow = calls.ending_early(read, lambda _: -1)
    quick = calls.ending_early(lambda: 1, lambda: -1)
    assert quick() == 1
    found: list[int] = []
    reads = threading.Thread(target=lambda: found.append(slow(21)))
    ends = threading.Thread(target=calls.end)
    reads.start()
    assert is_running.wait(60)
    ends.start()
    while quick() == 1:  # until the end has begun
        pass
    assert (slow(3), found) == (-1, [])
    assert ends.is_alive()
    may_end.set()
    ends.join()
    reads.join()
    assert found == [42]


def test_what_is_made_after_the_end_is_as_ever() -> None:
    """A function that was registered with atexit earlier runs later, and gets its data."""
    calls = PipelineCalls()
    before = calls.ending_early(lambda: 1, lambda: -1)
    calls.end()
    assert (before(), calls.ending_early(lambda: 1, lambda: -1)()) == (-1, 1)


def test_a_forked_child_waits_for_none_of_its_parent_s_calls() -> None:
    """What ran in the parent's threads is not there, nor who would end it."""
    may_end, is_running = threading.Event(), threading.Event()

    def read() -> None:
        is_running.set()
        may_end.wait(60)

    reads = threading.Thread(target=ending_early(read, lambda: None))
    reads.start()
    assert is_running.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, for threads
        child = os.fork()
    if not child:
        try:
            _all_calls().end()
        finally:  # whatever happens, this is not a second pytest
            os._exit(7 if _all_calls().running == 0 else 8)
    assert _all_calls().running == 1
    _, status = os.waitpid(child, 0)
    may_end.set()
    reads.join()
    assert os.waitstatus_to_exitcode(status) == 7


def test_an_error_is_the_caller_s() -> None:
    """A call that fails is over; the end does not wait for it."""
    calls = PipelineCalls()
    with pytest.raises(ZeroDivisionError):
        calls.ending_early(lambda: 1 // 0, lambda: 0)()
    assert calls.running == 0
    calls.end()
