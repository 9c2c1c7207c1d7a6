"""Regular expressions that are compiled, and import `re`, only when first used.

`import gpuconf.auto` declares some, but needs them only for errors or rare values.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    import re


class Pattern:
    """Like ``re.compile(pattern)``, with only the methods used here."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, multiline: bool = False) -> None:
        self.pattern = pattern
        self._ignore_case = ignore_case
        self._multiline = multiline
        self._compiled: re.Pattern[str] | None = None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Match all of ``text``."""
        return self._ready().fullmatch(text)

    def match(self, text: str) -> re.Match[str] | None:
        """Match at the beginning of ``text``."""
        return self._ready().match(text)

    def search(self, text: str) -> re.Match[str] | None:
        """Find the first match in ``text``."""
        return self._ready().search(text)

    def _ready(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            flags = re.IGNORECASE if self._ignore_case else 0
            flags |= re.MULTILINE if self._multiline else 0
            self._compiled = re.compile(self.pattern, flags)
        return self._compiled
