"""Pools whose workers do not run the script, so that its gpuconf does not reach them.

Tested with joblib 1.6, distributed 2026.8 and Ray 2.60: workers of loky (joblib's default) and Ray
receive only functions.  multiprocessing, concurrent.futures and Dask's own LocalCluster need
nothing: a forked worker inherits the process, a spawned one imports the main module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gpuconf.commands.doctor.source.script import Script, ScriptProblem, argument

_Sent = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_FRAMEWORKS = {"tensorflow", "keras", "torch", "jax", "flax"}
_STARTS = {"gpuconf.configure", "gpuconf.auto"}
_JOBLIB_CONTEXTS = {"joblib.parallel_config", "joblib.parallel_backend"}
_OTHER_BACKENDS = {"threading", "sequential", "multiprocessing"}  # multiprocessing forks
_LOKY_POOLS = {
    f"{module}.{name}"
    for module in ("loky", "joblib.externals.loky")
    for name in ("get_reusable_executor", "ProcessPoolExecutor")
}
_DASK_CLIENTS = {"dask.distributed.Client", "distributed.Client"}
_RAY_HOOK = "gpuconf.ray.setup"
_CALLS_DEEP = 3


def unreached_workers(script: Script) -> Iterator[ScriptProblem]:
    """``source.workers``: functions that use a framework, sent to workers without gpuconf."""
    if not any(script.starts_gpuconf(node) for node in ast.walk(script.tree)):
        return
    yield from _joblib(script)
    yield from _loky(script)
    yield from _dask(script)
    yield from _ray(script)


def _joblib(script: Script) -> Iterator[ScriptProblem]:
    sent = _first_bare(script, _passed_to(script, {"joblib.delayed"}))
    for call, name in script.calls():
        if sent is not None and name == "joblib.Parallel" and _has_bare_processes(script, call):
            fix = (
                "import gpuconf, joblib\n"
                'with joblib.parallel_config(backend="loky", initializer=gpuconf.configure):\n'
                f"    results = {ast.unparse(call)}(...)  # as before\n"
                f"# or gpuconf.configure() as the first line of {sent.name}"
            )
            yield _problem(script, call, "joblib", sent, fix)


def _has_bare_processes(script: Script, pool: ast.Call) -> bool:
    """Whether a joblib.Parallel starts loky workers without an initializer that starts gpuconf."""
    given = list(pool.keywords)
    for call, name in script.calls():
        if name in _JOBLIB_CONTEXTS and _applies_to(script, call, pool):
            given += call.keywords
    said = {each.arg: script.constant(each.value) for each in reversed(given)}
    jobs = argument(pool, 0, "n_jobs")
    if jobs is not None:
        said["n_jobs"] = script.constant(jobs)
    in_threads = said.get("prefer") == "threads" or said.get("require") == "sharedmem"
    if in_threads or said.get("backend") in _OTHER_BACKENDS or said.get("n_jobs", 1) == 1:
        return False
    return not _start_gpuconf(script, given)


def _applies_to(script: Script, context: ast.Call, pool: ast.Call) -> bool:
    """Whether the pool is in the ``with`` of ``context``, or ``context`` applies globally."""
    blocks = [each for each in script.above(context) if isinstance(each, ast.With)]
    is_head = bool(blocks) and any(each.context_expr is context for each in blocks[0].items)
    return not is_head or blocks[0] in script.above(pool)


def _loky(script: Script) -> Iterator[ScriptProblem]:
    for call, name in script.calls():
        if name not in _LOKY_POOLS or _start_gpuconf(script, call.keywords):
            continue
        sent = _first_bare(script, _submitted(script))
        if sent is not None:
            kept = [ast.unparse(each) for each in call.args]
            kept += [ast.unparse(each) for each in call.keywords if each.arg != "initializer"]
            given = ", ".join([*kept, "initializer=gpuconf.configure"])
            fix = f"import gpuconf\nexecutor = {ast.unparse(call.func)}({given})"
            yield _problem(script, call, "loky", sent, fix)


def _dask(script: Script) -> Iterator[ScriptProblem]:
    """A client of workers that were started elsewhere; workers that it starts import the script."""
    if any(_is_run_on_workers(script, call) for call, _ in script.calls()):
        return
    for call, name in script.calls():
        address = argument(call, 0, "address") if name in _DASK_CLIENTS else None
        sent = _first_bare(script, _submitted(script))
        if isinstance(script.constant(address), str) and sent is not None:
            fix = (
                "import gpuconf\n"
                f"client = {ast.unparse(call)}\n"
                "client.run(gpuconf.configure)  # before the first task\n"
                "# or start the workers so: dask worker ADDRESS --preload gpuconf.auto"
            )
            yield _problem(script, call, "Dask", sent, fix)


def _is_run_on_workers(script: Script, call: ast.Call) -> bool:
    is_run = isinstance(call.func, ast.Attribute) and call.func.attr == "run"
    return is_run and any(_starts(script, each) for each in call.args)


def _ray(script: Script) -> Iterator[ScriptProblem]:
    if _has_hook(script):
        return
    decorated = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, _Sent)
        and any(script.names.of(_called(each)) == "ray.remote" for each in node.decorator_list)
    ]
    for sent in (*decorated, *_passed_to(script, {"ray.remote"})):
        if _first_bare(script, [sent]) is not None:
            fix = f'ray.init(runtime_env={{"worker_process_setup_hook": "{_RAY_HOOK}"}})'
            yield _problem(script, sent, "Ray", sent, fix)


def _has_hook(script: Script) -> bool:
    """Whether Ray's workers start gpuconf: through our hook, wherever it is named, or another."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and node.value == _RAY_HOOK:
            return True
    return any(
        name == "ray.init" and _start_gpuconf(script, call.keywords)
        for call, name in script.calls()
    )


def _problem(script: Script, node: ast.AST, library: str, sent: _Sent, fix: str) -> ScriptProblem:
    return ScriptProblem(
        "source.workers",
        "warn",
        node,
        f"workers of {library} do not import this script, so gpuconf does not reach them",
        (f"{sent.name} ({script.place(sent)}) uses a GPU framework in them, without a limit",),
        fix,
    )


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _passed_to(script: Script, names: set[str]) -> Iterator[_Sent]:
    """The functions of this file passed as first argument to a call of one of ``names``."""
    for call, name in script.calls():
        if name in names:
            yield from _named(script, call.args[:1])


def _submitted(script: Script) -> Iterator[_Sent]:
    """The functions passed to ``submit`` or ``map`` of any object."""
    for call, _ in script.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("submit", "map"):
            yield from _named(script, call.args[:1])


def _named(script: Script, nodes: Iterable[ast.expr]) -> Iterator[_Sent]:
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in ast.walk(script.tree):
        if isinstance(node, _Sent) and node.name in names:
            yield node


def _first_bare(script: Script, sent: Iterable[_Sent]) -> _Sent | None:
    """The first function that uses a framework and does not start gpuconf itself."""
    for each in sent:
        is_ours = any(script.starts_gpuconf(node) for node in ast.walk(each))
        if not is_ours and _uses_framework(script, each, _CALLS_DEEP):
            return each
    return None


def _uses_framework(script: Script, sent: _Sent, depth: int) -> bool:
    """Whether it uses a framework or an object made by one, or calls a local function that does."""
    for node in ast.walk(sent):
        if isinstance(node, ast.Import) and _any_framework(each.name for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and _any_framework([node.module or ""]):
            return True
        if not isinstance(node, ast.Name):
            continue
        made = [value for value in script.values_of(node.id) if isinstance(value, ast.Call)]
        if _any_framework(script.names.of(each) for each in (node, *(v.func for v in made))):
            return True
        called = _named(script, [node]) if depth else ()
        if any(_uses_framework(script, each, depth - 1) for each in called):
            return True
    return False


def _any_framework(names: Iterable[str]) -> bool:
    return any(name.partition(".")[0] in _FRAMEWORKS for name in names)


def _start_gpuconf(script: Script, keywords: Iterable[ast.keyword]) -> bool:
    return any(_starts(script, each.value) for each in keywords)


def _starts(script: Script, node: ast.expr) -> bool:
    """Whether an argument is gpuconf.configure, or calls it, or names gpuconf.auto."""
    for each in ast.walk(node):
        if script.names.of(each) in _STARTS or script.starts_gpuconf(each):
            return True
        if isinstance(each, ast.Constant) and each.value in _STARTS:
            return True
        functions = _named(script, [each]) if isinstance(each, ast.Name) else ()
        if any(script.starts_gpuconf(part) for every in functions for part in ast.walk(every)):
            return True
    return False
