"""PyTorch: caps its caching allocator when torch starts CUDA."""

import operator
import sys

_site = sys.modules["_gpuconf_injected_site"]
_sizes = _site.load("sizes")
_messages = _site.load("messages")
_wrap = _site.load("wrapping").wrap


def hold(torch, run):
    """Apply ``run`` to the imported torch when it starts CUDA, or now if it already has."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not isinstance(getattr(torch, "__version__", None), str):
        return  # a stub, or a folder of that name
    if getattr(getattr(torch, "version", None), "cuda", None) is None:
        return  # built without CUDA
    if not hasattr(cuda, "set_per_process_memory_fraction"):
        _messages.say("torch %s cannot be limited: that requires 1.8" % (torch.__version__,))

    def before(original, *args, **kwargs):
        # _lazy_init runs the queue of _lazy_call while torch is half initialized; this is then the
        # second call.
        if not _is_started(cuda) and not run.hides_gpus:
            run.take_places(ranked=True)
        return original(*args, **kwargs)

    if not hasattr(getattr(cuda, "_lazy_init", None), "_of_gpuconf_run"):
        cuda._lazy_call(lambda: _cap(torch, run))  # runs immediately if CUDA has been started
    _wrap(cuda, "_lazy_init", before, "torch")


def _is_started(cuda):
    started = getattr(cuda, "is_initialized", None)
    if started is not None:
        return started()
    return bool(getattr(cuda, "_initialized", False))


def _cap(torch, run):
    """Cap torch's caching allocator on every GPU permanently; CUDA must have been started."""
    limits = {}
    for number, limit_bytes in enumerate(_limits(torch.cuda.device_count(), run)):
        if limit_bytes is None or not hasattr(torch.cuda, "set_per_process_memory_fraction"):
            continue
        total_bytes = torch.cuda.get_device_properties(number).total_memory
        limits[number] = _sizes.exact_share(limit_bytes, total_bytes)
        if _fraction(torch, number) >= limits[number]:  # PYTORCH_ALLOC_CONF may request less
            torch.cuda.set_per_process_memory_fraction(limits[number], number)
    if limits:
        _hold_to(limits, torch._C)


def _fraction(torch, number):
    """Return the active fraction; 1.0 if torch does not report it (backend:cudaMallocAsync)."""
    read = getattr(torch._C, "_cuda_getMemoryFraction", None)
    try:
        return 1.0 if read is None else read(number)
    except (RuntimeError, NotImplementedError):
        return 1.0


def _limits(count, run):
    """Return the limit of each of torch's ``count`` devices in bytes; None for no limit."""
    cards = [] if run.hides_gpus else run.cards_left()
    if len(cards) == count:
        return [card.limit_bytes for card in cards]
    known = [card.limit_bytes for card in cards if card.limit_bytes is not None]
    return [min(known)] * count if known else []


def _hold_to(limits, functions):
    """Keep the program's own caps within ``limits``; torch.cuda calls these functions."""

    def held(original, fraction, number):
        try:  # torch's C++ code also takes 1, numpy.float32(1) and a tensor
            fraction, number = float(fraction), operator.index(number)
        except (TypeError, ValueError, RuntimeError):
            return original(fraction, number)  # raises torch's error
        limit = limits.get(number)
        if limit is None or not fraction > limit:
            return original(fraction, number)
        _messages.say(
            "set_per_process_memory_fraction of cuda:%d: requested %.4g, got %.4g: the run allows "
            "no more" % (number, fraction, limit)
        )
        return original(limit, number)

    def left_on(original, value=True):
        if value:
            return original(value)
        _messages.say("caching_allocator_enable: requested off, which has no limit, got on")
        return None

    _wrap(functions, "_cuda_setMemoryFraction", held, "torch")
    if hasattr(functions, "_cuda_cudaCachingAllocator_enable"):
        _wrap(functions, "_cuda_cudaCachingAllocator_enable", left_on, "torch")
