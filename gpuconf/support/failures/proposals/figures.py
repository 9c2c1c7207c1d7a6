"""What the texts in ``changes/*.yaml`` can insert, by name: sizes, batches, commands from a log."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from gpuconf.basics.units import MIB, sized
from gpuconf.support.failures.proposals import calls, memory
from gpuconf.support.failures.proposals.batches import Fit, fitting_batch
from gpuconf.support.failures.proposals.installation_figures import INSTALLATION
from gpuconf.support.failures.proposals.stack import code_of
from gpuconf.support.failures.proposals.torch_figures import figures_of, server_share
from gpuconf.support.failures.reading import LogFacts
from gpuconf.support.failures.xids import known_xids

# A smaller dtype for an array, and the factor that it saves.
SMALLER_DTYPES = {"float64": ("float32", 2), "float32": ("uint8", 4), "int64": ("uint8", 8)}

_GROWTH = """\
for gpu in tf.config.list_physical_devices('GPU'):
    tf.config.experimental.set_memory_growth(gpu, True)"""
_LIMIT = """\
for gpu in tf.config.list_physical_devices('GPU'):
    tf.config.set_logical_device_configuration(
        gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])"""
_OTHERS = "the desktop, a notebook kernel that is still running, or another training run"
_MEASURE = "later steps may need more: `gpuconf rehearse` measures it"
_TWICE = (
    "weights of that size need as much again for the gradient and for each optimizer slot, and "
    "data of that size are often stored twice"
)
_NO_SLOWER = 128  # samples at a time, than larger batches
_PICTURE_SIZE, _RGB = (224, 224), 3
# Code that scales images to 0 to 1.
_SCALES = re.compile(r"/=?\s{0,9}255")


def known_xids_of(facts: LogFacts) -> list[dict[str, str]]:
    """The texts of each Xid in the log whose meaning is known."""
    xids, table = facts.details.get("xid"), known_xids()
    return [
        {
            "xid": str(xid),
            "xid_means": table[xid].means,
            "xid_remedy": table[xid].remedy,
            "xid_command": table[xid].command,
        }
        for xid in (xids if isinstance(xids, list) else [])
        if xid in table
    ]


def _is_limit(facts: LogFacts) -> bool:
    """Whether the call that came too late sets a limit, not growth."""
    return "logical_device" in code_of(facts) or "virtual_device" in code_of(facts)


def _fit(facts: LogFacts) -> Fit:
    found = fitting_batch(facts)
    assert found is not None, "a text with {fits} needs the condition batch-fits"
    return found


def _looks_whole(facts: LogFacts) -> str:
    if not calls.is_whole_data_set(facts):
        return ""
    return f"the first dimension, {_fit(facts).batch}, looks like a whole data set passed at once; "


def _how_many(facts: LogFacts) -> str:
    fit = fitting_batch(facts)
    if fit is None:
        return ""
    return f"{_looks_whole(facts)}about {fit.fits} at once: {fit.because}; "


def _by_hand(facts: LogFacts) -> str:
    fit = _fit(facts)
    if calls.our_call(facts) is not None:
        is_fit = calls.is_keras(facts) and calls.likely_call(facts) == "fit"
        learns = f"; the weights then learn from {fit.fits} at a time" if is_fit else ""
        return f"without gpuconf{learns}; {_MEASURE}"
    if calls.is_whole_data_set(facts):
        return f"{_looks_whole(facts)}{fit.because}"
    return f"{fit.because}; {_MEASURE}"


def _one_piece(facts: LogFacts) -> str:
    rows = f"x[start:start + {_fit(facts).fits}]"
    if calls.runs_graph(facts):
        return f"session.run(tensors, {{images: {rows}}})"
    return f"compute({rows})"


def _parts(facts: LogFacts) -> str:
    fit = fitting_batch(facts)
    return str(4 if fit is None else -(-fit.batch // fit.fits))


def _batch(facts: LogFacts) -> str:
    fit = fitting_batch(facts)
    return "batch_size" if fit is None else str(fit.batch)


def _asked(facts: LogFacts) -> str:
    size = memory.asked_bytes(facts)
    return "more than there is" if size is None else sized(size)


def _why_one(facts: LogFacts) -> str:
    asked, dump = facts.request.size_bytes, facts.dump
    if asked is not None:
        return f"{sized(asked)} was requested as a single allocation; {_TWICE}"
    in_use = dump.in_use_bytes if dump is not None else None
    limit = dump.limit_bytes if dump is not None else None
    return (
        f"only {sized(in_use or 0)} of {sized(limit or 0)} were in use, so the request is "
        f"larger than all that was free; {_TWICE}"
    )


def _why_others(facts: LogFacts) -> str:
    if facts.request.tensor is None and facts.request.size_bytes is None:
        return "a copy to the GPU did not fit, most often because the GPU was already full"
    return (
        f"only {_asked(facts)} was requested, so the GPU, or TensorFlow's share of it, was "
        "already full: another process, an old notebook, or the program itself holds it"
    )


def _torch_others(facts: LogFacts) -> str:
    figures = figures_of(facts)
    held, others, total = figures.held, figures.others, figures.total
    if held is None or others is None or total is None:
        return _OTHERS
    return (
        f"PyTorch holds {sized(held)} of {sized(total)}; about {sized(others)} belong to others: "
        f"{_OTHERS}"
    )


def _of_the_card(facts: LogFacts) -> str:
    """The GPU's size, to follow the amount that PyTorch holds."""
    figures = figures_of(facts)
    total = sized(figures.total or 0)
    if (figures.held or 0) <= (figures.total or 0):
        return f" of {total}"
    return f", more than the GPU's {total}, so it spills into host memory,"


def _server_share(facts: LogFacts) -> str:
    """The share that was free, for vLLM, or what others leave, rounded down; at most 0.8 if neither
    is known exactly."""
    share = server_share(facts)
    if share is not None:
        return f"{max(int(share * 100), 1) / 100:.2f}"
    figures = figures_of(facts)
    others = (figures.others or 0) / (figures.total or 1)
    return f"{min(max(int((1 - others) * 10), 1), 8) / 10:.1f}"


def _unused_share(facts: LogFacts) -> str:
    figures = figures_of(facts)
    return f"{(figures.unused or 0) / (figures.held or 1):.0%}"


def _host_memory(facts: LogFacts) -> str:
    if facts.on_windows or "diffusion" in facts.signs:
        return "SystemPropertiesPerformance.exe   # Advanced, Virtual memory"
    return "free -h"


def _jax_needs(facts: LogFacts) -> str:
    total, asked = memory.jax_program_bytes(facts), facts.request.size_bytes
    if total is not None:
        return f"the compiled program needs {sized(total)} in total"
    return "what it needed is not known" if asked is None else f"{sized(asked)} was requested"


def _array_call(facts: LogFacts) -> str:
    return calls.keras_call(facts) or ("predict" if calls.only_infers(facts) else "fit")


def _array_names(facts: LogFacts) -> tuple[str, ...]:
    return ("x",) if _array_call(facts) == "predict" else ("x", "y")


def _array_batch(facts: LogFacts) -> str:
    return str(facts.batch_size or 32)


def _array_arguments(facts: LogFacts) -> str:
    batch = f", batch_size={_array_batch(facts)}" if _array_call(facts) == "fit" else ""
    return f"model, {', '.join(_array_names(facts))}{batch}"


def _signature(facts: LogFacts) -> str:
    names = _array_names(facts)
    specs = ", ".join(f"tf.TensorSpec((None, *{name}.shape[1:]), {name}.dtype)" for name in names)
    return f"({specs})" if len(names) > 1 else specs


def _picture_size(facts: LogFacts) -> str:
    """Height and width of the images in the failed array, or the default."""
    tensor = facts.request.tensor
    shape = tensor.shape if tensor is not None else ()
    is_pictures = len(shape) in (3, 4) and shape[-1] == _RGB
    return str((shape[-3], shape[-2]) if is_pictures else _PICTURE_SIZE)


def _stream_options(facts: LogFacts) -> str:
    # The outputs of predict must be in the order of the files.
    order = ", shuffle=False" if _array_call(facts) == "predict" else ""
    return order + (', scale="0-1"' if _SCALES.search(code_of(facts)) else "")


def _larger_share(facts: LogFacts) -> str:
    """Half as much again as HAMi allows, in MiB."""
    return str(int(facts.details.get("vgpu_limit", 0)) * 3 // 2 // MIB)


def _where(facts: LogFacts) -> str:
    frame = facts.user_code
    return f" ({frame.file}:{frame.line})" if frame is not None and frame.line else ""


def _full_folder(facts: LogFacts) -> str | None:
    folder = facts.details.get("full_folder")
    return None if folder is None else str(folder)


def _holding_folder(facts: LogFacts) -> str:
    folder = _full_folder(facts)
    return "" if folder is None else f" that holds {folder}"


def _folder(facts: LogFacts) -> str:
    folder = _full_folder(facts)
    return "" if folder is None else f" {shlex.quote(folder)}"


def _smaller_dtype(facts: LogFacts) -> tuple[str, int]:
    tensor = facts.request.tensor
    return SMALLER_DTYPES[tensor.dtype or "" if tensor is not None else ""]


FIGURES: dict[str, Callable[[LogFacts], str]] = {
    **INSTALLATION,
    # Batches and calls.
    "fits": lambda facts: str(_fit(facts).fits),
    "server_share": _server_share,
    "context_length": lambda facts: str(facts.details.get("cache_tokens", 4096)),
    "batch": _batch,
    "because": lambda facts: _fit(facts).because,
    "few": lambda facts: str(min(_fit(facts).fits, _NO_SLOWER)),
    "how_many": _how_many,
    "by_hand": _by_hand,
    "one_piece": _one_piece,
    "parts": _parts,
    "likely_call": calls.likely_call,
    "arrays": lambda facts: "x" if calls.likely_call(facts) == "predict" else "x, y",
    # Sizes.
    "asked": _asked,
    "request": lambda facts: sized(facts.request.size_bytes or 0),
    "limit": lambda facts: sized(memory.limit_of(facts) or 0),
    "card_total": lambda facts: sized(memory.card_total(facts) or 0),
    "card_free": lambda facts: sized(memory.card_free(facts) or 0),
    "free_then": lambda facts: (
        "" if (free := memory.card_free(facts)) is None else f"; {sized(free)} was"
    ),
    "larger_share": _larger_share,
    "vgpu_limit": lambda facts: sized(int(facts.details.get("vgpu_limit", 0))),
    "why_one": _why_one,
    "why_others": _why_others,
    "jax_needs": _jax_needs,
    "torch_asked": lambda facts: sized(figures_of(facts).asked or 0),
    "torch_free": lambda facts: sized(figures_of(facts).free or 0),
    "torch_held": lambda facts: sized(figures_of(facts).held or 0),
    "torch_total": lambda facts: sized(figures_of(facts).total or 0),
    "of_the_card": _of_the_card,
    "torch_others": _torch_others,
    "unused_share": _unused_share,
    # Arrays on the GPU and on the host.
    "array_call": _array_call,
    "array_batch": _array_batch,
    "array_arguments": _array_arguments,
    "shuffles": lambda facts: (
        "; fit no longer shuffles a data set, so shuffle the order"
        if _array_call(facts) == "fit"
        else ""
    ),
    "order": lambda facts: (
        "np.random.permutation(len(x))" if _array_call(facts) == "fit" else "np.arange(len(x))"
    ),
    "rows": lambda facts: ", ".join(f"{name}[rows]" for name in _array_names(facts)),
    "signature": _signature,
    "picture_size": _picture_size,
    "stream_options": _stream_options,
    "dtype": lambda facts: str(facts.request.tensor.dtype) if facts.request.tensor else "",
    "smaller_dtype": lambda facts: _smaller_dtype(facts)[0],
    "dtype_factor": lambda facts: str(_smaller_dtype(facts)[1]),
    # Settings and the disk.
    "growth": lambda _facts: _GROWTH,
    "late_setting": lambda facts: _LIMIT if _is_limit(facts) else _GROWTH,
    "where": _where,
    "host_memory": _host_memory,
    "holding_folder": _holding_folder,
    "folder": _folder,
    "quota": lambda facts: "; quota -s" if "quota" in (facts.exception or "").lower() else "",
    "unknown_file": lambda facts: (
        "the log does not name the file; " if _full_folder(facts) is None else ""
    ),
}
