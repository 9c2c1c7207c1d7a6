"""display() and matplotlib's figures in the process are shown in the caller's notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def forward_displays(send: Callable[[Any], object]) -> None:
    """Pass what this process displays to ``send``, as arguments of :func:`show`."""
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Forwarding(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
            send((data, metadata, options))

    config = Config({"HistoryManager": {"enabled": False}})
    InteractiveShell.instance(config=config, display_pub_class=Forwarding)


def show_figures() -> None:
    """Display the figures that are still open, as IPython does at the end of a cell."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None:
        inline.flush_figures()


def show(shown: Any) -> None:
    """Display here what the other process has displayed."""
    from IPython.display import publish_display_data

    data, metadata, options = shown
    publish_display_data(data, metadata, **options)  # type: ignore[no-untyped-call]
