"""The probe's child: ``python -m gpuconf.commands.estimate.probe.program ORDER --record FD``.

ORDER is an `Order` as JSON; what is found goes to the descriptor, by default stdout.  As in a
user's script, `import gpuconf.auto` comes before TensorFlow: on a shared GPU the probe keeps to
$GPUCONF_PROFILE.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os

from gpuconf.basics.environment import switched_off
from gpuconf.basics.json_values import plain
from gpuconf.commands.estimate.probe.order import Order, ProbeError
from gpuconf.errors import GpuconfError
from gpuconf.support.children.signals import end_with_parent

_LONGEST_MESSAGE = 20_000


def main() -> None:
    """Run the measurement; errors go into the record and are not raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("order")
    parser.add_argument("--record", type=int, default=1, metavar="FD")
    options = parser.parse_args()
    end_with_parent()
    faulthandler.enable()  # after a crash in C++, prints the Python line to stderr

    def report(event: str, **facts: object) -> None:
        os.write(options.record, (json.dumps({"event": event, **facts}) + "\n").encode())

    try:
        _apply_profile()
        from gpuconf.commands.estimate.probe.steps import measure

        measure(Order.from_json(options.order), report)
    except BaseException as error:  # user code may raise anything, even SystemExit
        report("error", error=plain(_described(error)))


def _apply_profile() -> None:
    import gpuconf

    if switched_off(os.environ) is None:
        gpuconf.plan()  # fails immediately, where TensorFlow's import would wait for memory
    import gpuconf.auto


def _described(error: BaseException) -> ProbeError:
    is_ours = isinstance(error, GpuconfError)
    message = error.message if isinstance(error, GpuconfError) else str(error)
    hint = error.hint if isinstance(error, GpuconfError) else None
    return ProbeError(type(error).__name__, message[-_LONGEST_MESSAGE:], hint, is_ours)


if __name__ == "__main__":
    main()
