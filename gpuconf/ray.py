"""Turn Ray's GPU fractions into limits: each worker may use only the share that Ray assigned to it.

    ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})

Tasks and actors need nothing else.  Ray's own ``num_gpus=0.4`` is only bookkeeping and limits
nothing.
"""

from __future__ import annotations

from gpuconf.errors import TooLateError
from gpuconf.machine.schedulers import assignment_of, on_ray
from gpuconf.session import configure

__all__ = ["check", "setup"]


def setup() -> None:
    """Limit this worker to its share of the GPU; Ray calls it when the worker starts.

    The profile is ``GPUCONF_PROFILE``, or the default described in docs/profiles.md.  The limit is
    computed when the task imports a framework, and binds when the framework creates its devices::

        share × (total - held by programs outside Ray - keep_free) - context

    A task without GPUs sees none.  Raises ProfileError for a bad profile.

    Ray calls one hook, that of the job.  It silently ignores a hook in the runtime_env of an actor
    or a task, and in Ray Train's ``worker_runtime_env`` (Ray 2.60).  A program with a hook of its
    own calls this function there.
    """
    configure.configure(memory={"share": "ray"})


def check() -> None:
    """Raise TooLateError if this worker's limit was made for another share than its task's.

    Ray reuses a worker after tasks whose decorator has neither ``num_gpus`` nor ``max_calls=1``.  A
    framework that has created its devices keeps its limit, or its lack of a GPU.  Call this first
    in a task.
    """
    made = configure.bound_plan()
    assigned = on_ray.assigned()
    if made is None or assigned is None:
        return
    words = assignment_of(each.gpu for each in made.gpus)
    if words != assigned.words:
        raise TooLateError(
            f"this worker's limit was made for {words}, and Ray has assigned {assigned.words} to "
            "this task",
            hint="decorate every task that imports a framework, also those without a GPU, with "
            "@ray.remote(max_calls=1); if the decorator has num_gpus, Ray does that",
        )
