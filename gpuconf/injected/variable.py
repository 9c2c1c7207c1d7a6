"""The plan of a `gpuconf run`, read from its variable, and the GPUs that this process may use.

Those are the run's GPUs that the program has left visible in CUDA_VISIBLE_DEVICES.
"""

import json
import os
import sys

_site = sys.modules["_gpuconf_injected_site"]
_FORMAT = 1
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_runs = []  # the Run of this process, once read


class PlanError(RuntimeError):
    """The variable cannot be read; ``hint`` says what to do."""

    hint = "start the program with `gpuconf run -- ...`, or `unset %s` to run it without limits" % (
        _site.VARIABLE,
    )


class Card(object):
    """The limits of one GPU for each process; sizes in bytes, None for no limit."""

    def __init__(self, planned):
        gpu = planned["gpu"]
        self.uuid = gpu.get("uuid")
        self.index = gpu.get("index")
        self.total_bytes = gpu.get("total_bytes")
        self.limit_bytes = planned["limit_bytes"]
        self.fraction = planned.get("fraction")
        self.growth = planned.get("allow_growth")
        self.logical_bytes = list(planned.get("logical_devices_bytes") or ())
        self._limits = planned.get("limits") or ()

    def fraction_of(self, framework):
        """Return the framework's limit as a fraction of the GPU's total; None without a limit."""
        for limit in self._limits:
            if limit["framework"] == framework:
                return limit["fraction"]
        return None

    @property
    def visible_name(self):
        """The GPU's name in CUDA_VISIBLE_DEVICES."""
        return self.uuid or str(self.index)


class Run(object):
    """The plan of a run.

    ``cards`` are in the framework's order. If the GPUs could not be read, ``unknown`` describes any
    GPU in the machine. ``growth`` is None if the framework decides.
    """

    def __init__(self, data):
        plan = data["plan"]
        self.version = data["version"]
        self.package = data["package"]
        self.processes = int(data["processes"])
        self.leases = dict(data["leases"])
        self.profile = plan["profile"]["name"]
        self.session = plan["profile"]["tensorflow"]["session"]
        self.hides_gpus = bool(plan["hides_gpus"])
        self.visible = plan["cuda_visible_devices"]
        self.cards = [Card(planned) for planned in plan["gpus"]]
        unknown = plan["unknown_gpu"]
        self.unknown = None if unknown is None else Card(unknown)
        planned = self.cards or ([self.unknown] if self.unknown else [])
        memory = plan["profile"]["memory"]
        self.growth = planned[0].growth if planned else memory.get("allow_growth")

    def cards_left(self):
        """Return the run's GPUs that the program has left visible, in the program's order.

        A program that selects a GPU outside the run gets the run's GPUs instead, as long as CUDA
        has not started; a message reports this. An old script that sets "0" does not intend to take
        memory leased by others.
        """
        value = os.environ.get(_VISIBLE)
        if not self.cards or value is None or value == self.visible:
            return self.cards
        asked = _entries(value)
        found = [_named(entry, self.cards) for entry in asked]
        left = [card for card in found if card is not None]
        if len(left) < len(asked):
            left = left or self.cards[: len(asked)]
            given = ",".join(card.visible_name for card in left)
            os.environ[_VISIBLE] = given
            _site.load("messages").say(
                "the program sets %s=%s, which is not a GPU of this run; it gets %s"
                % (_VISIBLE, value, given)
            )
        return left

    def take_places(self, indices=None, ranked=False):
        """Count this process on its GPUs; raises places.NoPlaceError if no place is left.

        ``indices`` are the GPUs that the process is about to use; the default is all of them. With
        ``ranked``, the process is counted only on the GPU of its local rank.
        """
        if self.hides_gpus or not self.leases:
            return
        uuids = [card.uuid for card in self.cards_left() if card.uuid]
        if indices is not None:
            uuids = [uuids[index] for index in indices if index < len(uuids)]
        places = _site.load("places")
        if ranked:
            uuids = places.card_of_rank(uuids)
        names = {card.uuid: "GPU %s" % (card.index,) for card in self.cards}
        places.take_places(self.leases, self.processes, uuids, names)


def _entries(value):
    """Return the entries before the first invalid one, which hides the rest in CUDA."""
    found = []
    for entry in map(str.strip, value.split(",")):
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            break
        found.append(entry)
    return found


def _named(entry, cards):
    for card in cards:
        if entry.isdigit():
            if card.index == int(entry):
                return card
        elif card.uuid and card.uuid.startswith(entry):
            return card
    return None


def current():
    """Return the Run of this process.  Raises PlanError if the variable cannot be read."""
    if not _runs:
        _runs.append(_parsed(_site.RUN))
    return _runs[0]


def _parsed(text):
    try:
        data = json.loads(text)
    except ValueError as error:
        raise PlanError("%s cannot be read: %s" % (_site.VARIABLE, error))
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise PlanError(
            "%s has the format %r, but this version of gpuconf reads %d"
            % (_site.VARIABLE, found, _FORMAT)
        )
    try:
        return Run(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanError("%s cannot be read: %s: %s" % (_site.VARIABLE, type(error).__name__, error))
