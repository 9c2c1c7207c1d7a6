"""PyTorch: a cap on its caching allocator, once torch starts CUDA."""

import sys

_site = sys.modules["_gpuconf_carried_site"]
_words = _site.load("words")
_wrap = _site.load("wrapping").wrap


def hold(torch, run):
    """Hold the imported torch to ``run`` when it starts CUDA, now if it has."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not isinstance(getattr(torch, "__version__", None), str):
        return  # a stub, or a folder of that name
    if getattr(getattr(torch, "version", None), "cuda", None) is None:
        return  # built without CUDA
    if not hasattr(cuda, "set_per_process_memory_fraction"):
        _words.say("torch %s cannot be limited: that came with 1.8" % (torch.__version__,))

    def before(original, *args, **kwargs):
        # The queue of _lazy_call runs within, when torch has half begun: then this is the 2nd call.
        if not _is_started(cuda) and not run.hides_gpus:
            run.take_places(ranked=True)
        return original(*args, **kwargs)

    if not hasattr(getattr(cuda, "_lazy_init", None), "_of_gpuconf_run"):
        cuda._lazy_call(lambda: _cap(torch, run))  # at once where CUDA has been started
    _wrap(cuda, "_lazy_init", before, "torch")


def _is_started(cuda):
    started = getattr(cuda, "is_initialized", None)
    if started is not None:
        return started()
    return bool(getattr(cuda, "_initialized", False))


def _cap(torch, run):
    """Cap torch's caching allocator on every card; CUDA has been started."""
    limit = getattr(torch.cuda, "set_per_process_memory_fraction", None)
    cards = [] if limit is None or run.hides_gpus else run.cards_left()
    count = torch.cuda.device_count()
    shares = [card.fraction_of("torch") for card in cards]
    known = [share for share in shares if share is not None]
    if len(shares) != count and known:
        shares = [min(known)] * count
    for number, share in enumerate(shares):
        if share is not None:
            limit(share, number)
