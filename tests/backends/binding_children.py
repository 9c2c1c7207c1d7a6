"""A program whose children make TensorFlow's devices, each way of starting them by name.

``python binding_children.py WAY``: for each line on stdin (the GPU is then in the state that is
wanted) it starts a child that way, under the profile that the line names, if it names one, and
prints what became of it.
"""

import gpuconf.auto  # noqa: I001  # the first line, as in a user's script
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from typing import Any

import gpuconf


def outcome() -> str:
    """The limit in MiB that TensorFlow's first GPU really has, or the name of what was raised."""
    try:
        import tensorflow as tf

        tf.constant([1.0])
    except gpuconf.ShortageError as error:
        return "ShortageError after waiting" if "gave up after" in str(error) else "ShortageError"
    from tensorflow.python.eager import context

    from gpuconf.backends.tensorflow.readback import of_context

    (limit,) = of_context(context.context()).values()
    return str(limit >> 20)


def put_outcome(queue: Any) -> None:
    """For a process that has a queue."""
    queue.put(outcome())


def by_process(method: str) -> str:
    """A process of multiprocessing."""
    context: Any = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=put_outcome, args=(queue,))
    process.start()
    process.join()
    return str(queue.get()) if process.exitcode == 0 else f"exit code {process.exitcode}"


def by_os_fork() -> str:
    """A bare fork, as a prefork server does it."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, outcome().encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as file:
        return file.read()


def by_subprocess() -> str:
    """Another program, in another folder."""
    code = "from tests.backends.binding_children import outcome; print(outcome())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() or f"exit code {done.returncode}"


def by_loky() -> str:
    """A worker of joblib's, which does not import the main module."""
    from joblib.externals import loky

    executor = loky.get_reusable_executor(
        max_workers=1, initializer=gpuconf.configure, kill_workers=True, reuse=False
    )
    try:
        return str(executor.submit(outcome).result())
    finally:
        executor.shutdown(kill_workers=True)


WAYS: dict[str, Callable[[], str]] = {
    "fork": lambda: by_process("fork"),
    "spawn": lambda: by_process("spawn"),
    "forkserver": lambda: by_process("forkserver"),
    "os.fork": by_os_fork,
    "subprocess": by_subprocess,
    "loky": by_loky,
}


def main() -> None:
    """Start a child for each line."""
    way = sys.argv[1]
    if way in ("fork", "os.fork"):
        import tensorflow  # noqa: F401  # once, for all children
    if way == "forkserver":
        multiprocessing.set_forkserver_preload(["__main__", "tensorflow"])
    print("READY", flush=True)
    for line in sys.stdin:
        if line.strip():
            os.environ["GPUCONF_PROFILE"] = line.strip()
            if way == "forkserver":
                server: Any = forkserver._forkserver
                server._stop()  # its environment is that of its start
        print("OUTCOME", WAYS[way](), flush=True)


if __name__ == "__main__":
    main()
