"""What is read of a saved model's file, and what is refused, without any TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.estimate.targets.saved_models import SavedModel, read_saved_model
from gpuconf.errors import UsageError

CONFIG: dict[str, Any] = {"class_name": "Sequential", "config": {"name": "net", "layers": []}}
LAMBDA_3 = {"class_name": "__lambda__", "config": {"code": "4wEA"}}
LAMBDA_2 = ["4wEAAAAA", None, None]


def archive(path: Path, members: dict[str, Any]) -> None:
    """A zip file; what is not text is written as JSON."""
    with zipfile.ZipFile(path, "w") as file:
        for name, value in members.items():
            file.writestr(name, value if isinstance(value, str) else json.dumps(value))


def model_file(path: Path, config: Any = CONFIG, version: str = "3.15.1") -> None:
    """A ``.keras`` file that has no weights at all."""
    archive(path, {"config.json": config, "metadata.json": {"keras_version": version}})


def hdf5(path: Path, **attributes: str) -> None:
    """A legacy file with these attributes."""
    h5py = pytest.importorskip("h5py", reason="h5py, which comes with Keras, is not installed")
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        file.create_group("model_weights")


def holding_layer(name: str, function: Any) -> dict[str, Any]:
    """A config in which a layer of a nested model holds that function."""
    layer = {"class_name": "Lambda", "config": {"name": name, "function": function}}
    inner = {"class_name": "Functional", "config": {"name": "inner", "layers": [layer]}}
    return {"class_name": "Sequential", "config": {"name": "outer", "layers": [inner]}}


def test_an_archive(tmp_path: Path) -> None:
    """Its config and the version of Keras; weights need not even be there."""
    model_file(tmp_path / "a.keras")
    assert read_saved_model(tmp_path / "a.keras") == SavedModel(CONFIG, "3.15.1")
    archive(tmp_path / "old.keras", {"config.json": CONFIG})
    assert read_saved_model(tmp_path / "old.keras").keras_version is None


def test_what_it_is_tells_the_content_not_the_name(tmp_path: Path) -> None:
    """An archive named .h5, HDF5 named .keras, a folder as Keras 3 writes it too."""
    model_file(tmp_path / "a.h5")
    assert not read_saved_model(tmp_path / "a.h5").is_legacy
    hdf5(tmp_path / "b.keras", model_config=json.dumps(CONFIG), keras_version="2.15.0")
    assert read_saved_model(tmp_path / "b.keras") == SavedModel(CONFIG, "2.15.0", is_legacy=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert read_saved_model(tmp_path / "folder").config == CONFIG


def test_a_legacy_file(tmp_path: Path) -> None:
    """Its config, and how it was compiled; a broken one of those is none."""
    told = {"optimizer_config": {"class_name": "Adam"}}
    config = json.dumps(CONFIG)
    hdf5(tmp_path / "a.h5", model_config=config, training_config=json.dumps(told))
    assert read_saved_model(tmp_path / "a.h5").training == told
    hdf5(tmp_path / "b.h5", model_config=config, training_config="{")
    assert read_saved_model(tmp_path / "b.h5").training is None


@pytest.mark.parametrize("function", [LAMBDA_3, LAMBDA_2], ids=["Keras 3", "Keras 2"])
def test_code_in_a_file_is_not_run(tmp_path: Path, function: Any) -> None:
    """Whichever Keras wrote it, however deep it stands; the layer is named.

    A Lambda layer that names a registered function has none.
    """
    model_file(tmp_path / "a.keras", holding_layer("twice", function))
    registered = {"class_name": "function", "config": "twice"}
    model_file(tmp_path / "b.keras", holding_layer("twice", registered))
    assert read_saved_model(tmp_path / "b.keras").config["class_name"] == "Sequential"
    with pytest.raises(UsageError, match="the Python code stored in layer 'twice' is not run"):
        read_saved_model(tmp_path / "a.keras")


def test_code_is_found_at_any_depth(tmp_path: Path) -> None:
    """A file decides how deep it is, and must not exhaust the stack."""
    config: Any = LAMBDA_3
    for _ in range(300):
        config = [config]
    model_file(tmp_path / "a.keras", {**CONFIG, "more": config})
    with pytest.raises(UsageError, match="the Python code stored in layer 'net'"):
        read_saved_model(tmp_path / "a.keras")


def damaged(
    make: Callable[[Path], None], change: Callable[[bytes], bytes]
) -> Callable[[Path], None]:
    """What ``make`` writes, with its bytes changed."""

    def write(path: Path) -> None:
        make(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def legacy(path: Path) -> None:
    """A whole file of HDF5."""
    hdf5(path, model_config=json.dumps(CONFIG))


def containing(data: bytes) -> Callable[[Path], None]:
    """A file with this in it."""

    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def holding(**members: Any) -> Callable[[Path], None]:
    """An archive with these members, ``__`` standing for a dot."""

    def make(path: Path) -> None:
        archive(path, {name.replace("__", "."): value for name, value in members.items()})

    return make


REFUSED: tuple[tuple[str, Callable[[Path], None], str], ...] = (
    ("nosuch.keras", lambda _: None, "No such file"),
    ("a.keras", containing(b""), "not a zip file"),
    ("a.keras", damaged(model_file, lambda data: data[:-30]), "not a zip file"),
    ("a.keras", damaged(model_file, lambda data: data.replace(b"Seq", b"Sfq", 1)), "Bad CRC"),
    ("a.keras", containing(b"PK\x03\x04 and no more"), "not a zip file"),
    ("a.keras", holding(config__json="{"), "Expecting property name"),
    ("a.keras", holding(config__json="[" * 100_000), "recursion"),
    ("a.keras", holding(config__json=[]), "its configuration names no class"),
    ("a.pt", holding(archive_data__pkl="", x__data__pkl=""), "it contains no config.json"),
    ("a.tflite", containing(b"\x1c\0\0\0TFL3"), "not a zip file"),
    ("a.weights.h5", hdf5, "it contains only weights"),
    ("a.h5", damaged(legacy, lambda data: data[:600]), "truncated"),
    ("a.h5", lambda path: hdf5(path, model_config="{"), "Expecting property name"),
    ("folder", Path.mkdir, "it contains no config.json"),
    ("a.keras/b", lambda path: path.parent.touch(), "Not a directory"),
)


@pytest.mark.parametrize(
    ("name", "make", "said"), REFUSED, ids=[f"{name}: {said}" for name, _, said in REFUSED]
)
def test_what_is_refused(
    tmp_path: Path, name: str, make: Callable[[Path], None], said: str
) -> None:
    """One error that says why, with a hint of what to give."""
    path = tmp_path / name
    make(path)
    with pytest.raises(UsageError) as caught:
        read_saved_model(path)
    assert said in caught.value.message
    assert f"{path} is not a saved Keras model (.keras, .h5): " in caught.value.message
    assert "my_module:make_model" in (caught.value.hint or "")
