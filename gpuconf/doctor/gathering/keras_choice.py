"""Which backend Keras 3 will take, read as keras/src/backend/config.py reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from gpuconf.doctor.facts import KerasChoice
from gpuconf.doctor.gathering.files import read_text


def read_keras_choice(environ: Mapping[str, str]) -> KerasChoice:
    """KERAS_BACKEND where it is not empty, else keras.json, else tensorflow."""
    named = environ.get("KERAS_BACKEND")
    if named:
        return KerasChoice(named, "KERAS_BACKEND")
    path = os.path.join(_folder(environ), "keras.json")
    text = read_text(path)
    if text is None:
        return KerasChoice()
    try:
        config = json.loads(text)
        backend = config.get("backend", "tensorflow")
    except (ValueError, AttributeError) as error:
        # Keras goes on with its defaults where the file is no JSON, and says nothing.
        problem = f"{path} cannot be read ({error}), and Keras passes over it"
        return KerasChoice(set_by=path, problem=problem)
    return KerasChoice(str(backend), path if "backend" in config else "Keras's default")


def _folder(environ: Mapping[str, str]) -> str:
    if "KERAS_HOME" in environ:
        return environ["KERAS_HOME"]
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
