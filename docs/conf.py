"""The documentation site, as Sphinx builds it: `make site`.

The pages stay plain Markdown that a forge and `gpuconf docs` show too.  What only the site needs is
here: the navigation, and what becomes of the transcripts' marks.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
import command_pages  # next to this file, which no package holds
from fences import marked_for_readers

from gpuconf import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent

project, author, release = "gpuconf", "The gpuconf developers", __version__
project_copyright = "the gpuconf developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "examples", "**/README.md"]

html_theme = "furo"
html_title = f"gpuconf {release}"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Nothing is fetched when a page is read: the theme's fonts are those of the reader's system.
html_theme_options = {"navigation_with_keys": True}
highlight_language = "text"
pygments_style, pygments_dark_style = "friendly", "github-dark"

# Of a block with prompts the commands are copied, without prompts and outputs; of others all.
copybutton_prompt_text = r"\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
copybutton_copy_empty_lines = False

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
nitpicky = True

# Else a default such as os.environ would be printed with all that it holds.
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
default_role = "code"
# Types of the standard library and of frameworks, for which no reference is built.
nitpick_ignore_regex = [("py:.*", r"(?!gpuconf\.\w+$).*")]

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("get-started",),
    "How to": (
        "howto/desktop-freezes",
        "howto/slow-but-no-error",
        "howto/two-jobs-on-one-card",
        "howto/a-colleagues-job-died",
        "howto/out-of-memory-at-evaluate",
        "howto/out-of-memory-at-start",
        "howto/keras-2018",
        "howto/notebook-kernels",
        "howto/hyper-parameter-search",
        "howto/lab-machine",
        "howto/lab-policy",
        "howto/ray",
        "howto/slurm",
        "howto/ci-without-a-gpu",
    ),
    "Guides": (
        "run",
        "profiles",
        "sharing",
        "doctor",
        "explain",
        "estimate",
        "rehearse",
        "batching",
        "images",
        "notebooks",
        "frameworks",
        "clusters",
    ),
    "Reference": (
        "reference/commands",
        "reference/doctor",
        "reference/estimate",
        "reference/explain",
        "reference/rehearse",
        "reference/batching",
        "reference/images",
        "reference/sharing",
        "reference/profile-keys",
        "reference/profiles",
        "reference/python",
        "causes/index",
        "reference/stability",
    ),
    "Explanation": ("how-a-limit-is-planned", "simulated-card", "design"),
    "Evidence": (
        "proved",
        "evidence/estimate",
        "evidence/explain",
        "evidence/rehearse",
        "real-gpu",
        "real-gpu-estimates",
        "matrix",
        "trained-models",
        "evidence/batching",
        "evidence/clusters",
        "evidence/images",
        "evidence/isolated",
        "evidence/run",
        "evidence/sharing",
    ),
}
# Shorter than the pages' own titles.
TITLES = {
    "run": "gpuconf run",
    "sharing": "Reservations, gpuconf ps",
    "doctor": "gpuconf doctor",
    "explain": "gpuconf explain",
    "estimate": "gpuconf estimate",
    "rehearse": "gpuconf rehearse",
    "batching": "Batches that fit",
    "images": "Images from paths",
    "notebooks": "In notebooks",
    "frameworks": "TensorFlow, JAX, PyTorch",
    "clusters": "Ray, Slurm, containers",
    "reference/doctor": "What doctor checks",
    "reference/estimate": "What estimate reports",
    "reference/explain": "How explain decides",
    "reference/rehearse": "What rehearse runs",
    "causes/index": "Causes of a failure",
    "proved": "What has been proved",
    "evidence/estimate": "Accuracy of estimate",
    "evidence/explain": "Accuracy of explain",
    "evidence/rehearse": "Accuracy of rehearse",
    "matrix": "Versions",
    "trained-models": "Trained models",
    "evidence/batching": "Batches: evidence",
    "evidence/clusters": "Ray, Slurm, containers: evidence",
    "evidence/images": "Images: evidence",
    "evidence/isolated": "Isolated trials: evidence",
    "evidence/run": "gpuconf run: evidence",
    "evidence/sharing": "Reservations: evidence",
    "reference/batching": "Batches: the rules",
    "reference/images": "gpuconf.images",
    "reference/sharing": "Reservations: the rules",
}


def _navigation() -> str:
    """The table of contents of every section, of the pages that are there."""
    trees = []
    for caption, names in SECTIONS.items():
        there = [_entry(name) for name in names if any(HERE.glob(f"{name}.*"))]
        trees.append(
            f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(there) + "\n```\n"
        )
    return "\n".join(trees)


def _entry(name: str) -> str:
    return f"{TITLES[name]} <{name}>" if name in TITLES else name


def _of_the_site(_app: Sphinx, page: str, source: list[str]) -> None:
    """What only the site needs, put into a page as it is read."""
    if page == "index":
        source[0] += "\n" + _navigation()
    if page == "reference/commands":
        source[0] += "\n" + command_pages.made_part()
    if page == "causes/index":
        names = sorted(file.stem for file in (HERE / "causes").glob("*.md") if file.stem != "index")
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
    text = marked_for_readers(source[0])
    if page == "matrix":  # it is written in parts, each with a title
        first, *others = re.split(r"^(?=# )", text.lstrip(), flags=re.MULTILINE)[1:]
        text = first + "".join(f"#{other}" for other in others)
    text = re.sub(r"^```\n(?=\$ )", "```console\n", text, flags=re.MULTILINE)
    # Markdown files and folders that are no pages of the site.
    text = re.sub(r"\]\(((?:\.\./)+(?:CONTRIBUTING|tests/[\w/]+)\.md)\)", r"](path:\1)", text)
    source[0] = re.sub(r"\[([^]]+)\]\(examples/\w+\)", r"`\1`", text)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", _of_the_site)
