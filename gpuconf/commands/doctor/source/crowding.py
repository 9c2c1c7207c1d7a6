"""What a script puts on one GPU together: TensorFlow and JAX, all ranks, a loop's models."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source import device_init_calls
from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.script import (
    SETS_GROWTH,
    SETS_LIMIT,
    SETS_VISIBLE,
    Script,
    ScriptProblem,
    argument,
    imported_modules,
)

_HELD = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH")
_STARTS_RANKS = "torch.distributed.init_process_group"
_MODELS = ("Sequential", "Model", "load_model", "model_from_json", "clone_model")
_CLEARS = ("keras.backend.clear_session", "keras.utils.clear_session")


def crowded(script: Script) -> Iterator[ScriptProblem]:
    """``source.crowded``: the script takes memory on a GPU that another part of it needs."""
    if any(script.starts_gpuconf(node) for node in ast.walk(script.tree)):
        return
    names = {name for _, name in script.calls()}
    yield from _tensorflow_beside_jax(script, names)
    yield from _ranks_on_one_gpu(script, names)
    if not names & {*_CLEARS}:
        yield from _kept_models(script)


def _tensorflow_beside_jax(script: Script, names: set[str]) -> Iterator[ScriptProblem]:
    """TensorFlow takes nearly all of the GPU for the data that it reads for JAX."""
    imports = {module.split(".")[0]: node for node, module in _imports(script)}
    reads = [
        call
        for call, name in script.calls()
        if name in device_init_calls.TENSORFLOW
        or name.startswith(("tensorflow.data.", "tensorflow_datasets."))
    ]
    is_program = "__main__" in _texts(script) or any(not script.function_of(each) for each in reads)
    if not {"jax", "tensorflow"} <= imports.keys() or not reads or not is_program:
        return  # a module of a program may leave it to the program
    if names & {SETS_GROWTH, SETS_LIMIT, SETS_VISIBLE} or _sets(script, _HELD):
        return
    yield ScriptProblem(
        "source.crowded",
        "warn",
        imports["tensorflow"],
        "TensorFlow takes nearly all of the GPU, and JAX runs on the same GPU",
        ("in a JAX program TensorFlow most often reads data, for which it needs no GPU",),
        f'{script.tf}.config.set_visible_devices([], "GPU")  # after importing TensorFlow',
    )


def _ranks_on_one_gpu(script: Script, names: set[str]) -> Iterator[ScriptProblem]:
    """Each torchrun process says "cuda", which is GPU 0 for all of them."""
    if _STARTS_RANKS not in names or "torch.cuda.set_device" in names or _sets(script, _HELD):
        return
    for call, name in script.calls():
        if _is_on_default_gpu(script, call, name) and not _numbers_devices(script):
            yield ScriptProblem(
                "source.crowded",
                "warn",
                call,
                "every rank uses the first GPU: `cuda` without a number is GPU 0",
                ("ncclInvalidUsage, or out of memory with as many processes on GPU 0 as ranks",),
                "import os\n"
                'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before the first tensor',
            )


def _kept_models(script: Script) -> Iterator[ScriptProblem]:
    """``models.append(model)`` in a loop that makes one each time."""
    for call, _ in script.calls():
        is_append = isinstance(call.func, ast.Attribute) and call.func.attr == "append"
        loop = next((each for each in script.above(call) if isinstance(each, ast.For)), None)
        if loop is None or not is_append or len(call.args) != 1:
            continue
        kept = script.value(call.args[0])
        is_new = isinstance(call.args[0], ast.Call) or (
            isinstance(call.args[0], ast.Name) and script.is_bound_in(call.args[0].id, loop)
        )
        if is_new and _makes_model(script, kept):
            yield ScriptProblem(
                "source.crowded",
                "warn",
                call,
                "every model of the loop is kept, with its weights and optimizer on the GPU",
                ("memory grows with each round until one does not fit",),
                "# keep what you need of it, and end it before the next:\n"
                'model.save(f"model-{number}.keras")\ndel model\nkeras.backend.clear_session()',
            )


def _makes_model(script: Script, value: ast.expr | None) -> bool:
    """A Keras model, or a call to the script's own function that makes one."""
    if not isinstance(value, ast.Call):
        return False
    called = value.func.id if isinstance(value.func, ast.Name) else None
    functions = (node for node in ast.walk(script.tree) if isinstance(node, ast.FunctionDef))
    makers_of_it = [node for node in functions if node.name == called]
    return any(
        isinstance(node, ast.Call)
        and (name := script.names.of(node.func)).startswith("keras.")
        and name.endswith(_MODELS)
        for place in (value, *makers_of_it)
        for node in ast.walk(place)
    )


def _is_on_default_gpu(script: Script, call: ast.Call, name: str) -> bool:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "cuda":
        return not call.args and not call.keywords
    where = argument(call, 0, "device") if method == "to" or name == "torch.device" else None
    return script.constant(where) == "cuda" and len(call.args) < 2


def _numbers_devices(script: Script) -> bool:
    """Whether the script builds a device name from a number: f"cuda:{rank}", device("cuda", 1)."""
    return any("cuda:" in text for text in _texts(script)) or any(
        name == "torch.device" and len(call.args) > 1 for call, name in script.calls()
    )


def _texts(script: Script) -> set[str]:
    constants = (node.value for node in ast.walk(script.tree) if isinstance(node, ast.Constant))
    return {each for each in constants if isinstance(each, str)}


def _imports(script: Script) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(script.tree):
        yield from ((node, module) for module in imported_modules(node))


def _sets(script: Script, variables: tuple[str, ...]) -> bool:
    settings = (each for node in ast.walk(script.tree) for each in settings_at(script, node))
    return any(each.variable in variables for each in settings)
