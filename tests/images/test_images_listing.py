"""Which files, with which labels: folders, lists in files, sequences, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped,unused-ignore]
import pytest

from gpuconf.errors import UsageError
from gpuconf.images import ImageError
from gpuconf.images.labels import make_labels
from gpuconf.images.listing import ImageList, check_files, list_images
from tests.images.image_files import plain


def names(images: ImageList) -> list[str]:
    """The files' names, without their folders."""
    return [os.path.basename(os.fsdecode(path)) for path in images.paths]


def values(images: ImageList) -> list[Any]:
    """The labels."""
    assert images.labels is not None
    made: list[Any] = images.labels.values.tolist()
    return made


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Two classes, one with a folder in it, an empty class, and what is not an image."""
    for name in ("dog/2.PNG", "dog/1.png", "cat/deep/er/3.jpeg", "cat/.hidden.png"):
        plain(tmp_path / name, 1)
    (tmp_path / "eel").mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / "dog" / "notes.txt").write_text("no image", encoding="utf-8")
    plain(tmp_path / "beside.png", 1)
    return tmp_path


def test_a_folder_of_classes(classes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes in the order of their names, files below them; what is left out is said."""
    images = list_images(classes)
    assert names(images) == ["3.jpeg", "1.png", "2.PNG"]
    assert values(images) == [0, 1, 1]
    assert images.labels is not None
    assert images.labels.class_names == ("cat", "dog", "eel")
    shown = capsys.readouterr().err
    assert "left out 1 files" in shown
    assert ".txt 1" in shown
    assert "1 images" in shown
    assert "'eel'" in shown


def test_class_names_choose_and_order(classes: Path) -> None:
    """Only these, in this order; one that is not a folder is refused with those that are."""
    images = list_images(classes, class_names=["dog", "cat"])
    assert values(images) == [0, 0, 1]
    assert names(list_images(classes, class_names=["dog"])) == ["1.png", "2.PNG"]
    with pytest.raises(UsageError, match="cat, dog, eel"):
        list_images(classes, class_names=["dog", "cow"])


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    """In the order of the names; labels may be given."""
    for name in ("b.png", "a.jpg", "c.webp"):
        plain(tmp_path / name, 1)
    images = list_images(tmp_path)
    assert (names(images), images.labels) == (["a.jpg", "b.png", "c.webp"], None)
    assert values(list_images(str(tmp_path), [5, 6, 7])) == [5, 6, 7]


def test_linked_folders_are_followed_only_if_asked(tmp_path: Path) -> None:
    """As in Keras: a link to a class folder counts with ``follow_links=True``."""
    plain(tmp_path / "elsewhere" / "1.png", 1)
    plain(tmp_path / "data" / "a" / "2.png", 1)
    (tmp_path / "data" / "b").symlink_to(tmp_path / "elsewhere")
    assert names(list_images(tmp_path / "data")) == ["2.png"]
    assert names(list_images(tmp_path / "data", follow_links=True)) == ["2.png", "1.png"]


def test_a_csv_list(tmp_path: Path) -> None:
    """Paths relative to the list itself; numbers are numbers, names are classes, or no labels."""
    file = tmp_path / "list.csv"
    file.write_text('\ufeffpath,label,n\n"a, b.png",dog,1\n/x/c.png,cat,2\n', encoding="utf-8")
    images = list_images(file)
    assert images.paths == [os.fsencode(tmp_path / "a, b.png"), b"/x/c.png"]
    assert values(images) == [1, 0]
    assert values(list_images(str(file), label_column="n")) == [1, 2]
    assert values(list_images(file, [8, 9])) == [8, 9]
    file.write_text("path\na.png\n", encoding="utf-8")
    assert list_images(file).labels is None
    file.write_text("path,label\n001,1\n002,2\n", encoding="utf-8")
    assert names(list_images(file)) == ["001", "002"]


CSV_FAULTS: list[tuple[str, str, str, dict[str, Any]]] = [
    # What is in the file, words of the error and of its hint, options of the call.
    ("file,label\na.png,1\n", "columns are: file, label", 'path_column="NAME"', {}),
    ("file;label\na.png;1\n", "columns are: file, label", 'path_column="NAME"', {}),
    ("path,klass\na.png,1\n", "no column 'paths'", 'label_column="NAME"',
     {"label_column": "paths"}),
    ("path,label\na.png,1\n", "no column 0; its columns are: path, label", "",
     {"path_column": 0}),
    ("path|label\na.png|1\n", "are: path|label", "in the file's first line: path,label", {}),
    ("a.png,1\nb.png,2\n", "are: a.png, 1", "in the file's first line: path,label", {}),
    ("", "no column 'path'; its columns are: none", "in the file's first line: path,label", {}),
    ("path,label\n", "no image in", "", {}),
    ("path,path,label\na.png,b.png,1\n", "2 columns 'path'", "", {}),
    ("path,label\na.png,1,2\n", "list.csv has 3 cells, but the header line has 2", "", {}),
    ("path;label\na.png;1;2\n", "line 2 of", "contains ';' in quotation marks", {}),
    ("path,label\na.png,1\n\nb.png,\n", "1 labels are missing: line 4 (", "", {}),
    ("path;label\na.png;1\nb.png;0,5\n", "'0,5' is not a number: line 3 of", "decimal point", {}),
    ('path,label\n"a\nb",1\nb.png,x\n,1\n', "expected a file name, got '': line 5 of", "", {}),
]  # fmt: skip


def test_a_csv_list_at_fault(tmp_path: Path) -> None:
    """Columns, cells, labels and paths are named."""
    file = tmp_path / "list.csv"
    for text, words, hint, options in CSV_FAULTS:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError) as caught:
            list_images(file, **options)
        assert words in caught.value.message, text
        assert hint in str(caught.value.hint), text


def test_a_csv_list_with_semicolons_or_tabs(tmp_path: Path) -> None:
    """Told by the line of names, in which the column of paths is; a comma in a cell is one."""
    for name, separator in (("a.csv", ";"), ("b.csv", "\t"), ("c.tsv", "\t"), ("d.tsv", ",")):
        lines = (["path", "label"], ['"a, b.png"', "dog"], ["c_d.png", "cat"])
        text = "".join(separator.join(line) + "\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8")
        images = list_images(tmp_path / name)
        assert (names(images), values(images)) == (["a, b.png", "c_d.png"], [1, 0]), name
    (tmp_path / "e.csv").write_text("file;class\na.png;0.5\n", encoding="utf-8")
    assert values(list_images(tmp_path / "e.csv", path_column="file", label_column="class")) == [
        0.5
    ]


def test_a_list_in_another_encoding(tmp_path: Path) -> None:
    """It is refused, not read with wrong letters."""
    file = tmp_path / "list.csv"
    for encoding in ("cp1252", "utf-16"):
        file.write_text("path,label\ngröße.png,1\n", encoding=encoding)
        with pytest.raises(UsageError, match="not a UTF-8 CSV file") as caught:
            list_images(file)
        assert caught.value.hint


def test_labels_of_a_list_at_fault_are_found_in_it(tmp_path: Path) -> None:
    """Five lines of the file with their paths, and how many more; in a DataFrame rows."""
    names = ["cat", *["dug"] * 7]
    frame = pandas.DataFrame({"path": [f"{n}.png" for n in range(8)], "label": names})
    file = tmp_path / "list.csv"
    frame.to_csv(file, index=False)
    for given, folder, first, fifth in (
        (file, f"{tmp_path}/", "line 3", "line 7"),
        (frame, "", "row 1", "row 5"),
    ):
        with pytest.raises(UsageError, match=r"7 labels are not in .*\('dug'\)") as caught:
            list_images(given, class_names=["cat", "dog"])
        assert f"{first} ({folder}1.png), " in caught.value.message
        assert f"{fifth} ({folder}5.png) and 2 more of " in caught.value.message
        assert "6.png" not in caught.value.message


def test_a_table_in_memory() -> None:
    """A DataFrame, a dict of columns: the same columns as those of a file."""
    columns = {"file": ["b.png", "ü.png"], "path": ["a.png", "ü.png"], "label": ["x", "w"]}
    frame = pandas.DataFrame(columns, index=[7, 3])
    for table in (frame, columns):
        images = list_images(table)
        assert images.paths == [b"a.png", "ü.png".encode()]
        assert values(images) == [1, 0]
        assert list_images(table, path_column="file").paths[0] == b"b.png"
        assert values(list_images(table, [4, 5])) == [4, 5]
    assert list_images(frame[["path"]]).labels is None


def test_sequences_of_paths() -> None:
    """Lists, arrays, Series, generators; str, bytes and Path; each as the bytes of its name."""
    wanted = [b"a.png", "ü.png".encode()]
    for given in (
        ["a.png", "ü.png"],
        (Path("a.png"), Path("ü.png")),
        np.array(["a.png", "ü.png"]),
        pandas.Series(["a.png", "ü.png"], index=[7, 3]),
        wanted,
        (name for name in ("a.png", "ü.png")),
    ):
        assert list_images(given).paths == wanted
    labels = pandas.Series(["x", "w"], index=[9, 1], dtype="category")
    assert values(list_images(["a.png", "b.png"], labels)) == [1, 0]


def table(columns: dict[str, Any]) -> Any:
    """A DataFrame of objects."""
    return pandas.DataFrame(columns, dtype=object)


THREE = ["a.png", "b.png", "c.png"]
FAULTS: list[tuple[Any, Any, dict[str, Any], str]] = [
    # Paths and labels as they are given, options, and the words of the error.
    (["a.png", float("nan")], None, {}, "expected a file name, got .*: image 1, counted from 0"),
    (["a.png", None], None, {}, "expected a file name, got .*: image 1, counted from 0"),
    (["a.png", ""], None, {}, "expected a file name, got .*: image 1, counted from 0"),
    (7, None, {}, "paths=7"),
    ([], None, {}, "no image in the list"),
    ("no/such/folder", None, {}, "there is no file or folder no/such/folder"),
    (__file__, None, {}, "neither a folder nor a list"),
    ("no/such.csv", None, {}, "there is no file"),
    (table({"image": ["a.png"]}), None, {},
     r"the DataFrame has no column 'path'.*: image\n.*path_column="),
    (table({"path": ["a.png", None]}), None, {},
     "expected a file name, got .*: row 1 of the DataFrame, counted from 0"),
    (table({"path": ["a.png", "b.png"], "label": ["x", None]}), None, {},
     r"missing: row 1 \(b.png\) of the DataFrame, counted from 0"),
    (table({"path": []}), None, {}, "no image in the DataFrame"),
    (THREE, [1, 2], {}, "2 labels for 3 images"),
    (THREE, 5, {}, "0 labels for 3 images"),
    (THREE, [1.0, float("nan"), 2.0], {}, r"infinite: image 1 \(b.png\), counted from 0"),
    (THREE, ["a", None, "b"], {}, r"missing: image 1 \(b.png\), counted from 0"),
    (THREE, ["a", pandas.NA, "b"], {}, r"missing: image 1 \(b.png\), counted from 0"),
    (THREE, ["a", float("nan"), "b"], {}, r"missing: image 1 \(b.png\)"),
    (THREE, ["a", "b", 3], {},
     r"several types.*'a', 3: image 0 \(a.png\), image 2 \(c.png\)"),
    (THREE, ["a", "b", "c"], {"class_names": ["a", "b"]}, r"\('c'\): image 2 \(c.png\)"),
    (THREE, [0, -1, 1], {"class_names": ["a", "b"]}, "not among the classes 0 to 1"),
    (THREE, [1, 2, 3], {"class_names": ["a", "b"]}, "not among the classes 0 to 1"),
    (THREE, [[1], [1, 2], [3]], {}, "not an array"),
    (THREE, [1 + 1j, 2, 3], {}, "neither numbers nor names"),
]  # fmt: skip


def test_paths_and_labels_at_fault() -> None:
    """What is no path, and labels that are none; each is named by its place, from 0."""
    for paths, labels, options, words in FAULTS:
        with pytest.raises(UsageError) as caught:
            list_images(paths, labels, **options)
        assert re.search(words, str(caught.value)), (words, str(caught.value))
        assert caught.value.hint, words


def test_labels_keep_the_types_of_keras() -> None:
    """int32 where it suffices, int64 beyond, float32; numbers in an array of objects too."""
    for given, kind in (
        ([0, 1], np.int32),
        ([0, 2**40], np.int64),
        ([0.0, 1.5], np.float32),
        ([True, False], np.int32),
        (np.array([0, 1], dtype=object), np.int32),
        (pandas.Series([1, 2], dtype="Int64"), np.int32),
    ):
        assert make_labels(given, 2).values.dtype == kind


def test_files_that_the_disk_knows_to_be_wrong(tmp_path: Path) -> None:
    """All are counted, five are named, with the hint; names such as gs:// are not."""
    bad = [os.fsencode(tmp_path / f"{number}.png") for number in range(7)]
    good = os.fsencode(plain(tmp_path / "good.png", 1))
    with pytest.raises(ImageError, match="7 of 8 files") as caught:
        check_files([good, *bad])
    assert "4.png" in caught.value.message
    assert "5.png" not in caught.value.message
    assert "and 2 more" in caught.value.message
    assert caught.value.path == os.fsdecode(bad[0])
    check_files([good, b"gs://bucket/a.png"])
