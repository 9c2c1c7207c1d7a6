"""Write what is made: the profile keys, the causes' pages and JSON Schemas.

`make generated`; tests/profile and tests/documents hold the files to it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuconf.commands.cli import documents
from gpuconf.commands.doctor.report import Report
from gpuconf.commands.estimate.document import EstimateDocument
from gpuconf.commands.explain import Diagnosis
from gpuconf.commands.ps.document import Holdings
from gpuconf.commands.rehearse.document import InterruptedDocument, RehearsalDocument
from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.reporting.problems import ErrorDocument

sys.path.insert(0, str(Path(__file__).parent))
import cause_pages  # next to this file, which no package holds
from key_tables import key_reference
from profile_schema import build_schema
from schemas import schema_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "profile-keys.md"
MARK = "<!-- From here on made by `make generated` from gpuconf/profile/schema.py. -->\n"
# What each command prints with --json; every one may print an error instead.
DOCUMENTS: dict[str, tuple[type, ...]] = {
    "doctor": (Report, documents.ChecksDocument),
    "estimate": (EstimateDocument,),
    "explain": (Diagnosis,),
    "plan": (documents.PlanDocument,),
    "profiles": (
        documents.ProfilesDocument,
        documents.ShownProfile,
        documents.CheckedProfile,
    ),
    "ps": (Holdings,),
    "rehearse": (RehearsalDocument, InterruptedDocument),
    "trust": (
        documents.TrustDocument,
        documents.TrustListDocument,
        documents.RevokedDocument,
    ),
}


def page_text(current: str) -> str:
    """The page with its generated part again."""
    written_by_hand = current.partition(MARK)[0].rstrip()
    return f"{written_by_hand}\n\n{MARK}\n{key_reference().strip()}\n"


def made_pages() -> Iterator[tuple[Path, str]]:
    """Every page with a part that is made, and the text that belongs into it."""
    yield PAGE, page_text(PAGE.read_text(encoding="utf-8"))
    for name in (*CAUSES, "index"):
        page = ROOT / "docs" / "causes" / f"{name}.md"
        text = page.read_text(encoding="utf-8") if page.exists() else cause_pages.heading(name)
        by_hand = text.partition(cause_pages.MARK)[0].rstrip()
        part = cause_pages.index_part() if name == "index" else cause_pages.made_part(name)
        yield page, f"{by_hand}\n\n{cause_pages.MARK}\n{part}"


def schemas() -> Iterator[tuple[Path, str]]:
    """Every schema's file, and the text that belongs into it."""
    folder = ROOT / "configs"
    yield folder / "profile.schema.json", json.dumps(build_schema(), indent=2) + "\n"
    for command, printed in DOCUMENTS.items():
        schema = schema_of(command, *printed, ErrorDocument)
        yield folder / f"{command}.schema.json", json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for file, text in (*made_pages(), *schemas()):
        file.write_text(text, encoding="utf-8")
