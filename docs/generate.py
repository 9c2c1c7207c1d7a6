"""Write what is made from the profile schema: the key reference and the JSON Schema.

`make generated`; tests/profile holds the files against it.
"""

from __future__ import annotations

from pathlib import Path

from gpuconf.profile import key_reference
from gpuconf.profile.documentation import schema_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "profiles.md"
SCHEMA = ROOT / "configs" / "profile.schema.json"
MARK = "<!-- From here on made by `make generated` from gpuconf/profile/schema.py. -->\n"


def page_text(current: str) -> str:
    """The page with its generated part anew."""
    written_by_hand = current.partition(MARK)[0].rstrip()
    return f"{written_by_hand}\n\n{MARK}\n{key_reference().strip()}\n"


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
