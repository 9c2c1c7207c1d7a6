"""Smaller batches: through gpuconf's calls, which split what does not fit, or by hand.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import (
    WHOLE_DATA_SET,
    Fit,
    batch_of,
    fitting_batch,
    is_of_a_batch,
)
from gpuconf.commands.explain.proposals.wording import (
    HALF_THE_BATCH,
    by_gpuconf,
    by_keras,
    evaluates_graph,
    gpuconf_serves,
    is_keras,
    is_old_stack,
    keras_call,
    runs_graph,
)
from gpuconf.support.failures.reading import LogFacts

_MEASURE = "more may be asked for later: `gpuconf rehearse` measures it"
# What each gpuconf call does, and what stays the same.
_WAYS = {
    "fit": (
        "let gpuconf take the batch in parts that fit",
        "gradients are added up over the parts, so the weights learn from the same batch as before",
    ),
    "evaluate": (
        "let gpuconf evaluate in batches that fit",
        "what does not fit is halved, and the metrics are those of one pass",
    ),
    "predict": (
        "let gpuconf predict in batches that fit",
        "what does not fit is halved, and outputs leave the card after each batch",
    ),
    "session_evaluate": (
        "let gpuconf feed the graph in batches that fit",
        "what does not fit is halved, and a mean over the batch becomes one over all samples; it "
        "is for evaluating: a training operation would run once for each batch",
    ),
    "oom_safe": (
        "let gpuconf compute it in pieces that fit",
        "rows are cut, and halved where they do not fit; results are joined in the computer's "
        "memory",
    ),
}


def smaller_batch(facts: LogFacts) -> Iterator[Proposal]:
    """gpuconf first if it applies, then by hand, with the batch that may fit."""
    fit = fitting_batch(facts)
    if fit is None:
        yield from _of_unknown_size(facts)
        return
    ours, by_hand = _by_gpuconf(facts, fit), _by_hand(facts, fit)
    if ours is None:
        yield by_hand
        return
    yield ours
    learns = f"; the weights then learn from {fit.fits} at a time" if _is_fit(facts, fit) else ""
    yield by_hand._replace(reason=f"without gpuconf{learns}; {_MEASURE}")


def accumulated_gradients(facts: LogFacts) -> Iterator[Proposal]:
    """Gradient accumulation in Keras for the same effective batch, if the log shows a training."""
    if keras_call(facts) != "fit" or is_old_stack(facts) or batch_of(facts) == 1:
        return
    fit = fitting_batch(facts)
    parts = 4 if fit is None else -(-fit.batch // fit.fits)
    yield Proposal(
        "without gpuconf, keep the effective batch with gradient accumulation",
        "a smaller batch on the card, and the optimizer acts on the mean of several (Keras 3)",
        "code",
        f"optimizer = keras.optimizers.Adam(gradient_accumulation_steps={parts})",
    )


def _of_unknown_size(facts: LogFacts) -> Iterator[Proposal]:
    tensor = facts.request.tensor
    is_one = tensor is not None and tensor.shape[0] == 1
    if batch_of(facts) is not None or not is_of_a_batch(facts) or is_one:
        return
    call = "session_evaluate" if evaluates_graph(facts) else keras_call(facts)
    if call is not None and gpuconf_serves(facts):
        title, reason = _WAYS[call]
        yield Proposal(title, reason, "code", by_gpuconf(call, "batch_size"))
    yield HALF_THE_BATCH


def _by_gpuconf(facts: LogFacts, fit: Fit) -> Proposal | None:
    call = _our_call(facts, fit)
    if call is None or not gpuconf_serves(facts):
        return None
    title, reason = _WAYS[call]
    looks = f"{_looks_whole(fit)}; " if _is_whole(facts, fit) else ""
    about = f"about {fit.fits} at once: {fit.because}"
    return Proposal(title, f"{looks}{about}; {reason}", "code", by_gpuconf(call, fit.batch))


def _our_call(facts: LogFacts, fit: Fit) -> str | None:
    """The gpuconf call that applies; None if the code may be a custom training step."""
    if evaluates_graph(facts):
        return "session_evaluate"
    if is_keras(facts):
        return _keras_call(facts, fit)
    return "oom_safe" if _is_whole(facts, fit) and not runs_graph(facts) else None


def _by_hand(facts: LogFacts, fit: Fit) -> Proposal:
    call = _keras_call(facts, fit)
    if not _is_whole(facts, fit):
        return Proposal(
            f"a batch of {fit.fits} instead of {fit.batch}",
            f"{fit.because}; {_MEASURE}",
            "batch",
            by_keras(call, fit.fits) if is_keras(facts) else f"batch_size = {fit.fits}",
        )
    because = f"{_looks_whole(fit)}; {fit.because}"
    if is_keras(facts):
        batch = min(fit.fits, 128)  # no slower than larger ones
        return Proposal(f"{call} in batches of {batch}", because, "batch", by_keras(call, batch))
    rows = f"x[start:start + {fit.fits}]"
    one = f"session.run(tensors, {{images: {rows}}})" if runs_graph(facts) else f"compute({rows})"
    return Proposal(
        f"compute it in pieces of at most {fit.fits} rows",
        because,
        "code",
        f"parts = [{one} for start in range(0, len(x), {fit.fits})]",
    )


def _is_whole(facts: LogFacts, fit: Fit) -> bool:
    """Whether the batch looks like a whole data set."""
    return fit.batch >= WHOLE_DATA_SET and facts.batch_size is None


def _looks_whole(fit: Fit) -> str:
    return f"the first dimension, {fit.batch}, looks like a whole data set given at once"


def _keras_call(facts: LogFacts, fit: Fit) -> str:
    """The Keras call in the user's line, otherwise the likely one."""
    return keras_call(facts) or ("evaluate" if _is_whole(facts, fit) else "fit")


def _is_fit(facts: LogFacts, fit: Fit) -> bool:
    return is_keras(facts) and _keras_call(facts, fit) == "fit"
