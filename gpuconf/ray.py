"""Turn Ray's GPU fractions into limits: each worker may use only the share that Ray assigned to it.

    ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})

Tasks and actors need nothing else.  Ray's own ``num_gpus=0.4`` is only bookkeeping and limits
nothing.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from gpuconf import bootstrap
from gpuconf.errors import TooLateError, UsageError
from gpuconf.profile import search
from gpuconf.profile.loading import load_profile
from gpuconf.shares import assignment_of, on_ray

__all__ = ["check", "checked", "runtime_env", "setup"]

_HOOK_KEY = "worker_process_setup_hook"
_SETUP = "gpuconf.ray.setup"
# The user's own worker setup hook: Ray accepts only one.
_ALSO = "GPUCONF_RAY_ALSO"

_P = ParamSpec("_P")
_R = TypeVar("_R")


def setup() -> None:
    """Limit this worker to its share of the GPU; Ray calls it when the worker starts.

    The profile is ``GPUCONF_PROFILE``, or the default described in docs/profiles.md.  The limit is
    computed when the task imports a framework, and binds when the framework creates its devices::

        share × (total - held by programs outside Ray - keep_free) - context

    A task without GPUs sees none.  Raises ProfileError for a bad profile.
    """
    bootstrap.configure(memory={"share": "ray"})
    also = os.environ.get(_ALSO)
    if also:
        module, _, name = also.rpartition(".")
        getattr(importlib.import_module(module), name)()


def runtime_env(
    profile: str | os.PathLike[str] | None = None, *, base: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return a ``runtime_env`` for ``ray.init`` that limits each worker to its share.

    Ray calls only a job's hook.  It silently ignores a hook in the runtime_env of an actor or a
    task, and in Ray Train's ``worker_runtime_env`` (Ray 2.60).

    ``profile`` is a name, or a path that exists on every node; it is checked here as far as this
    machine has it.  ``base`` is your own runtime_env, which is kept; its hook runs after ours.
    Raises UsageError for a hook or ``env_vars`` that Ray would reject, ProfileError for a bad
    profile, and ProfileNotFoundError for a name that is unknown here.
    """
    made = dict(base or {})
    variables = _variables_of(made)
    if profile is not None:
        _check_profile(os.fspath(profile))
        variables["GPUCONF_PROFILE"] = os.fspath(profile)
    own = made.get(_HOOK_KEY)
    made[_HOOK_KEY] = _SETUP
    if callable(own):
        made[_HOOK_KEY] = _before(own)
    elif isinstance(own, str) and "." in own:
        variables |= {} if own == _SETUP else {_ALSO: own}
    elif own is not None:
        raise UsageError(
            f"{_HOOK_KEY} is {own!r}; the rule: a function, or its name as 'module.function'",
            hint=f'runtime_env(base={{"{_HOOK_KEY}": "my_package.my_hook"}})',
        )
    if variables:
        made["env_vars"] = variables
    return made


def _variables_of(made: Mapping[str, object]) -> dict[str, str]:
    """Return the ``env_vars``; raise UsageError for values that Ray would reject."""
    variables = made.get("env_vars") or {}
    hint = 'runtime_env(base={"env_vars": {"NAME": "value"}})'
    if not isinstance(variables, Mapping):
        raise UsageError(
            f"env_vars is of type {type(variables).__name__}; the rule: a dict of strings",
            hint=hint,
        )
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(
                f"env_vars has {name!r}: {value!r}; the rule: a dict of strings", hint=hint
            )
    return dict(variables)


def _check_profile(profile: str) -> None:
    """Raise for a bad profile before Ray starts workers.

    Ray would start a task's worker four times, and then report only that one died.
    """
    if not search.is_path(profile) or os.path.exists(profile):
        load_profile(profile)


def _before(hook: Callable[[], object]) -> Callable[[], None]:
    """Return a function that Ray can pickle: :func:`setup`, then ``hook``."""

    def setup_and_hook() -> None:
        setup()
        hook()

    return setup_and_hook


def check() -> None:
    """Raise TooLateError if this worker's limit was made for another share than its task's.

    Ray reuses a worker after tasks whose decorator has neither ``num_gpus`` nor ``max_calls=1``.  A
    framework that has created its devices keeps its limit, or its lack of a GPU.  Call this first
    in a task, or use :func:`checked`.
    """
    made = bootstrap.bound_plan()
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


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a task to call :func:`check` before each call.

    ::

        @ray.remote
        @gpuconf.ray.checked
        def train(): ...
    """

    @functools.wraps(function)
    def checking(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        check()
        return function(*args, **kwargs)

    return checking
