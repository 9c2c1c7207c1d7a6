"""Checks of ``gpuconf.images.stream``, run by ``test_images_streams``, in one TensorFlow."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from gpuconf.errors import UsageError
from gpuconf.images import ImageError, stream
from tests.images.image_files import (
    CORNERS,
    broken_files,
    colors_at_corners,
    corners,
    every_kind,
    greys_of_16_bits,
    lacking_memory,
    noise,
    plain,
    plains,
    turned,
)
from tests.programs.card_clients import wait_until


def greys(dataset: Any) -> list[int]:
    """The greys of `plain` pictures without labels, in the order in which they come."""
    return [round(float(value)) for batch in dataset for value in batch.numpy()[:, 0, 0, 0]]


def pairs(dataset: Any) -> list[tuple[int, int]]:
    """(gray, label) of `plain` pictures, in the order in which they come."""
    return [
        (round(float(image[0, 0, 0])), int(label))
        for images, labels in dataset
        for image, label in zip(images.numpy(), labels.numpy(), strict=True)
    ]


def one(path: Any, side: int = 48, **options: Any) -> Any:
    """The only picture."""
    (batch,) = stream([path], size=(side, side), **options)
    return batch.numpy()[0]


def looks_right(picture: Any, tolerance: int = 6) -> None:
    """Each corner of `corners` is where it belongs, in its color."""
    for corner, color in colors_at_corners(picture).items():
        assert np.abs(color - CORNERS[corner]).max() <= tolerance, (corner, color)


def check_every_image_comes_once_in_each_epoch_the_last_batch_too(tmp_path: Path) -> None:
    """Ten images in batches of four: 4, 4, 2, and Keras is told that there are three.

    Eight are two batches, no empty one; and the rest of ten may be dropped.
    """
    paths = plains(tmp_path, 10)
    for count, is_dropped, batches in (
        (10, False, [4, 4, 2]),
        (8, False, [4, 4]),
        (10, True, [4, 4]),
    ):
        dataset = stream(paths[:count], size=(8, 8), batch_size=4, drop_remainder=is_dropped)
        assert int(dataset.cardinality()) == len(batches), batches
        for _ in range(3):
            assert [len(batch) for batch in dataset] == batches
        assert is_dropped or sorted(greys(dataset)) == list(range(count)), batches


def check_shuffled_anew_in_each_epoch_and_alike_with_a_seed(tmp_path: Path) -> None:
    """The whole list is shuffled, each epoch otherwise; the same seed gives the same epochs."""
    paths = plains(tmp_path, 60)
    options: dict[str, Any] = {"size": (8, 8), "batch_size": 7}
    first, second = (stream(paths, seed=5, **options) for _ in range(2))
    epochs = [greys(first) for _ in range(3)]
    assert [greys(second) for _ in range(3)] == epochs
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert greys(stream(paths, seed=6, **options)) != epochs[0]
    # Not within a buffer: the first batch has images from all of the list.
    assert max(epochs[0][:7]) - min(epochs[0][:7]) > 20
    assert greys(stream(paths, shuffle=False, **options)) == list(range(60))


def check_no_seed_is_drawn_from_keras_own(tmp_path: Path) -> None:
    """``keras.utils.set_random_seed`` makes a stream without a seed reproducible."""
    paths, found = plains(tmp_path, 30), []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        found.append(greys(stream(paths, size=(8, 8))))
    assert found[0] == found[1] != found[2]


def check_labels_stay_with_their_images(tmp_path: Path) -> None:
    """Whatever the order, the kinds of labels, and the files that are skipped."""
    paths: list[Any] = list(plains(tmp_path, 50))
    paths[7] = tmp_path / "missing.png"
    dataset = stream(paths, range(50), size=(8, 8), batch_size=8, seed=2, on_error="skip")
    for _ in range(2):
        found = pairs(dataset)
        assert len(found) == 49
        assert all(gray == label for gray, label in found)


def check_labels(tmp_path: Path) -> None:
    """Names as int32, as Keras gives them; any numbers as they are; or none."""
    paths = plains(tmp_path, 4)
    options: dict[str, Any] = {"size": (8, 8), "shuffle": False}
    names = ["cat", "dog", "cat", "eel"]
    rows: list[tuple[Any, Any, Any]] = [
        (names, np.int32, [0, 1, 0, 2]),
        ([True, False, True, True], np.int32, [1, 0, 1, 1]),
        ([0.5, 1.5, 2.5, -1.0], np.float32, [0.5, 1.5, 2.5, -1.0]),
        (np.arange(8).reshape(4, 2), np.int32, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ]
    for given, kind, wanted in rows:
        ((_, found),) = stream(paths, given, **options)
        assert (found.numpy().dtype, found.numpy().tolist()) == (kind, wanted), given
    assert stream(paths, names, **options).class_names == ("cat", "dog", "eel")
    assert stream(paths, names, label_mode=None, **options).element_spec.shape == (None, 8, 8, 3)


def check_a_folder_is_read_as_keras_reads_it(tmp_path: Path) -> None:
    """Same files, classes, labels and, without averaging, the same values, in each mode."""
    for number, name in enumerate(("b", "a", "c")):
        for index in range(3):
            path = tmp_path / name / f"{index}.jpg"
            path.parent.mkdir(exist_ok=True)
            noise(90 + 60 * index, 120 - 9 * number, number).save(path, quality=90)
    shapes: list[dict[str, Any]] = [
        {},
        {"crop_to_aspect_ratio": True},
        {"pad_to_aspect_ratio": True},
        {"interpolation": "nearest"},
        {"interpolation": "bicubic"},
    ]
    for options in shapes:
        theirs = keras.utils.image_dataset_from_directory(
            tmp_path, image_size=(48, 64), shuffle=False, verbose=False, **options
        )
        ours = stream(tmp_path, size=(48, 64), shuffle=False, antialias=False, **options)
        assert list(ours.class_names) == theirs.class_names
        assert list(ours.file_paths) == list(theirs.file_paths)
        assert ours.element_spec[0].shape == theirs.element_spec[0].shape
        assert ours.element_spec[1] == theirs.element_spec[1]
        ((images, labels),), ((expected, wanted),) = ours, theirs
        np.testing.assert_allclose(images, expected, atol=1e-4)
        np.testing.assert_array_equal(labels, wanted)


def check_averaging_comes_closer_to_what_a_person_sees(tmp_path: Path) -> None:
    """A large JPEG or PNG made small: nearer to Pillow's reduction than Keras's sampling is."""
    image = noise(1500, 1000, 3)
    sharp = np.asarray(image).astype(np.int16)
    stripes = np.where(np.arange(1500) % 3 == 0, 90, -45)[None, :, None]
    striped = Image.fromarray((sharp + stripes).clip(0, 255).astype(np.uint8))
    for kind in ("JPEG", "PNG"):
        path = tmp_path / f"large.{kind.lower()}"
        striped.save(path, kind, **({"quality": 95} if kind == "JPEG" else {}))
        with Image.open(path) as opened:
            wanted = np.asarray(opened.resize((64, 64), Image.Resampling.BILINEAR)).astype(float)
        errors = {
            antialias: np.sqrt(((one(path, 64, antialias=antialias) - wanted) ** 2).mean())
            for antialias in (True, False)
        }
        assert errors[True] < 0.4 * errors[False], (kind, errors)
        assert errors[True] < 12, (kind, errors)


def check_masks_are_never_averaged(tmp_path: Path) -> None:
    """With ``nearest`` only values that are in the file come out, however large it is."""
    mask = np.zeros((900, 900), np.uint8)
    mask[::2] = 7
    Image.fromarray(mask).save(tmp_path / "mask.png")
    found = one(tmp_path / "mask.png", 50, channels=1, interpolation="nearest")
    assert set(np.unique(found)) <= {0.0, 7.0}


def check_every_kind_of_file_looks_the_same(tmp_path: Path) -> None:
    """JPEG (also progressive, CMYK), PNG (palette, alpha), GIF, BMP, WebP, TIFF: by content."""
    kinds = every_kind(tmp_path)
    dataset = stream(list(kinds.values()), size=(48, 48), shuffle=False)
    for name, picture in zip(kinds, np.concatenate(list(dataset)), strict=True):
        tolerance = 12 if name in ("jpeg", "progressive", "cmyk") else 6
        looks_right(picture, tolerance)


def check_photographs_are_upright(tmp_path: Path) -> None:
    """All eight EXIF orientations, large and small, wide and high, with and without averaging."""
    paths = [
        turned(tmp_path / f"{width}-{orientation}.jpg", orientation, width=width, height=height)
        for orientation in range(1, 9)
        for width, height in ((96, 64), (640, 320))
    ]
    for size, antialias in (((48, 48), True), ((40, 80), True), ((40, 80), False)):
        ((pictures),) = stream(paths, size=size, antialias=antialias, shuffle=False)
        for picture in pictures.numpy():
            looks_right(picture, 12)


def check_a_png_may_have_an_orientation_too(tmp_path: Path) -> None:
    """In its chunk eXIf, as browsers heed it."""
    exif = Image.Exif()
    exif[0x0112] = 3
    upside_down = corners().transpose(Image.Transpose.ROTATE_180)
    upside_down.save(tmp_path / "turned.png", exif=exif)
    looks_right(one(tmp_path / "turned.png"))


def check_photographs_on_their_side_are_as_sharp_as_others(tmp_path: Path) -> None:
    """How far one may be reduced is asked of its upright sides."""
    image = noise(640, 320, 5)
    image.save(tmp_path / "upright.jpg", quality=95)
    exif = Image.Exif()
    exif[0x0112] = 6
    on_its_side = image.transpose(Image.Transpose.ROTATE_90)
    on_its_side.save(tmp_path / "on its side.jpg", quality=95, exif=exif)
    files = [tmp_path / "upright.jpg", tmp_path / "on its side.jpg"]
    for size in ((160, 40), (40, 160)):
        ((pictures),) = stream(files, size=size, shuffle=False)
        upright, turned_up = pictures.numpy()
        assert np.abs(upright - turned_up).mean() < 2


def check_large_jpegs_are_decoded_at_a_part_of_their_size(tmp_path: Path) -> None:
    """At the part, and no smaller one, that is still as large as the final size."""
    path = tmp_path / "large.jpg"
    noise(900, 700).save(path, quality=90)
    for side, ratio in ((88, 4), (87, 8), (400, 1)):
        decoded = tf.io.decode_jpeg(path.read_bytes(), channels=3, ratio=ratio)
        wanted = tf.image.resize(decoded, (side, side))
        np.testing.assert_allclose(one(path, side), wanted, atol=1e-3)


def check_bytes_that_only_look_like_an_orientation(tmp_path: Path) -> None:
    """Pillow is asked, and says that there is none."""
    path = tmp_path / "comment.jpg"
    fake = b"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00"
    corners().save(path, quality=95, comment=fake)
    assert fake in path.read_bytes()[:200]
    looks_right(one(path), 12)


def check_16_bits_are_scaled_and_not_clipped(tmp_path: Path) -> None:
    """A ramp of 16-bit greys stays a ramp, with one channel and with three."""
    path = greys_of_16_bits(tmp_path / "ramp.png")
    for channels in (1, 3):
        row = one(path, 64, channels=channels)[30, :, 0]
        np.testing.assert_allclose(row, np.linspace(0, 255, 64), atol=1.1)


def check_transparency_lies_on_white(tmp_path: Path) -> None:
    """RGBA, gray with alpha, palettes with a transparent color; with 4 channels alpha stays."""
    clear = Image.new("RGBA", (40, 40), (200, 0, 0, 0))
    clear.save(tmp_path / "rgba.png")
    Image.new("LA", (40, 40), (0, 0)).save(tmp_path / "la.png")
    Image.new("P", (40, 40), 0).save(tmp_path / "palette.png", transparency=0)
    Image.new("P", (40, 40), 0).save(tmp_path / "palette.gif", transparency=0)
    Image.new("RGB", (40, 40), (1, 2, 3)).save(tmp_path / "rgb.png", transparency=(1, 2, 3))
    for name in ("rgba.png", "la.png", "palette.png", "palette.gif", "rgb.png"):
        assert one(tmp_path / name).min() == 255, name
    assert one(tmp_path / "rgba.png", channels=4)[5, 5].tolist() == [200, 0, 0, 0]
    half = Image.new("RGBA", (40, 40), (0, 0, 0, 128))
    half.save(tmp_path / "half.png")
    np.testing.assert_allclose(one(tmp_path / "half.png"), 127, atol=1)


def check_channels(tmp_path: Path) -> None:
    """Grey pictures as three equal channels, colors as one gray, four with full alpha."""
    noise(60, 60).convert("L").save(tmp_path / "gray.jpg")
    gray = one(tmp_path / "gray.jpg")
    assert gray.shape == (48, 48, 3)
    assert (gray[..., 0] == gray[..., 2]).all()
    kinds = every_kind(tmp_path)
    for name in ("jpeg", "cmyk", "png", "palette", "webp"):
        made = one(kinds[name], channels=1)
        wanted = np.dot(CORNERS["lower left"], (0.299, 0.587, 0.114))
        assert made.shape == (48, 48, 1)
        np.testing.assert_allclose(made[36, 12, 0], wanted, atol=8, err_msg=name)
        assert one(kinds[name], channels=4)[5, 5, 3] == 255, name


def check_a_broken_file_is_named_at_once(tmp_path: Path) -> None:
    """``raise``: the error has name, reason and hint; what the disk knows, already in stream()."""
    good = plains(tmp_path, 40)
    for name, (path, word) in broken_files(tmp_path / "bad").items():
        paths = [*good, path]
        if word in ("empty", "folder", "broken link", "missing"):
            with pytest.raises(ImageError, match=name) as caught:
                stream(paths, size=(8, 8))
            assert word in caught.value.message, name
            assert 'on_error="skip"' in str(caught.value)
            continue
        dataset = stream(paths, size=(8, 8), batch_size=4)
        with pytest.raises(tf.errors.InvalidArgumentError, match=name) as failed:
            list(dataset)
        assert word in failed.value.message, (name, failed.value.message)
        assert 'on_error="skip"' in failed.value.message


def check_batches_before_a_broken_file_are_complete(tmp_path: Path) -> None:
    """In order, and none after it."""
    paths = plains(tmp_path, 12)
    paths[9].write_bytes(b"broken")
    iterator = iter(stream(paths, size=(8, 8), batch_size=4, shuffle=False))
    assert [greys([next(iterator)]) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"009\.png"):
        next(iterator)


def check_the_first_the_last_and_all_but_one_may_be_broken(tmp_path: Path) -> None:
    """Wherever a file is broken, it is found, in the right order of the epoch."""
    for bad in ({0, 3, 4}, {0, 1, 2, 3, 8, 9, 10, 11}, set(range(11))):
        paths = plains(tmp_path, 12)
        for number in bad:
            paths[number].write_bytes(b"broken")
        for shuffle in (True, False):
            dataset = stream(
                paths, size=(8, 8), batch_size=4, seed=3, shuffle=shuffle, on_error="skip"
            )
            assert sorted(greys(dataset)) == sorted(set(range(12)) - bad)
            assert {failure.path for failure in dataset.skipped} == {
                str(paths[number]) for number in bad
            }


def check_skipped_files_are_counted_listed_and_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line at the end of each epoch; the list has each file once, with its reason."""
    bad = broken_files(tmp_path / "bad")
    paths = [*plains(tmp_path, 20), *(path for path, _ in bad.values())]
    random.Random(1).shuffle(paths)
    dataset = stream(paths, size=(8, 8), batch_size=8, on_error="skip")
    for _ in range(2):
        assert len(greys(dataset)) == 20
        shown = [line for line in capfd.readouterr().err.splitlines() if "gpuconf: " in line]
        assert len(shown) == 1
        assert f"skipped {len(bad)} of {len(paths)}" in shown[0]
    assert len(dataset.skipped) == len(bad)
    reasons = {Path(path).name: reason for path, reason in dataset.skipped}
    for name, (_, word) in bad.items():
        assert word in reasons[name], (name, reasons[name])
    assert str(dataset.skipped).count("\n") == len(bad)


def check_an_epoch_without_any_image_is_an_error(tmp_path: Path) -> None:
    """Skipping all of them would be a training on nothing."""
    paths = [path for path, _ in broken_files(tmp_path).values()]
    dataset = stream(paths, size=(8, 8), on_error="skip")
    words = rf"none of the {len(paths)} images could be read; the first is {tmp_path}/\w+\.\w+: \w+"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        list(dataset)


def check_a_lack_of_memory_is_raised_and_never_skipped(tmp_path: Path) -> None:
    """Though it is over when the file is looked at again; and then the next epoch is complete."""
    for seed in range(2):
        paths = [*plains(tmp_path, 6), lacking_memory(tmp_path / "a.jpg", 1)]
        dataset = stream(paths, size=(8, 8), batch_size=2, on_error="skip", seed=seed)
        with pytest.raises(
            tf.errors.ResourceExhaustedError, match=r"MemoryError: .*a\.jpg: "
        ) as found:
            list(dataset)
        assert "no memory left" in found.value.message
        assert sum(len(batch) for batch in dataset) == 7
        assert not list(dataset.skipped)
    # A file that is broken by then is a broken file, and is skipped.
    lacking = lacking_memory(tmp_path / "a.jpg", 1)
    dataset = stream(
        [*plains(tmp_path, 3), lacking], size=(8, 8), batch_size=2, on_error="skip", shuffle=False
    )
    with pytest.raises(tf.errors.ResourceExhaustedError):
        list(dataset)
    lacking.write_bytes(b"")
    assert sum(len(batch) for batch in dataset) == 3
    assert [failure.reason for failure in dataset.skipped] == ["is empty (0 bytes)"]


def check_names_of_every_kind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Umlauts, blanks, brackets, emoji, bytes that are not text, links; str, bytes and Path."""
    names = ["größe.png", "with blank.png", "a[1]*?.png", "漢字😀.png", "%s{0}.png"]
    paths: list[Any] = [plain(tmp_path / name, place) for place, name in enumerate(names)]
    raw = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.png")
    Path(os.fsdecode(raw)).write_bytes(plain(tmp_path / "x.png", 5).read_bytes())
    link = tmp_path / "link.png"
    link.symlink_to(plain(tmp_path / "target.png", 6))
    paths += [raw, str(link)]
    dataset = stream(paths, list(range(7)), size=(8, 8), seed=1)
    assert sorted(pairs(dataset)) == [(number, number) for number in range(7)]
    assert dataset.file_paths[5] == os.fsdecode(raw)
    Path(os.fsdecode(raw)).write_bytes(b"broken")
    broken = stream(paths, size=(8, 8), on_error="skip")
    assert len(greys(broken)) == 6
    assert [failure.path for failure in broken.skipped] == [os.fsdecode(raw)]
    assert [failure.reason for failure in broken.skipped] == [
        "is not an image; it begins with b'broken'"
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"udcff.*not an image"):
        list(stream(paths, size=(8, 8)))
    assert "udcff" in capfd.readouterr().err
    os.unlink(raw)
    missing = stream(paths, size=(8, 8), on_error="skip")
    assert len(greys(missing)) == 6
    assert [failure.reason for failure in missing.skipped] == ["is missing"]


def check_augmentation_comes_before_scaling_and_not_to_validation(tmp_path: Path) -> None:
    """Layers see 0 to 255 and ``training=True``, in the order of the list; a function that takes no
    ``training`` is given none; the validation set is as it is on disk.
    """
    seen = []

    def note(images: Any) -> Any:
        seen.append(1)
        return images * 1.5

    class Brighter(keras.layers.Layer):  # type: ignore[misc]
        """Adds 100, in training only."""

        def call(self, images: Any, training: bool = False) -> Any:
            return images + 100 if training else images

    paths = [plain(tmp_path / f"{number}.png", 51) for number in range(10)]
    made: Any = stream(
        paths,
        size=(8, 8),
        augment=[Brighter(), note],
        scale="0-1",
        validation_split=0.2,
        subset="both",
        seed=1,
    )
    training, validation = (np.concatenate(list(part)) for part in made)
    assert (len(training), len(validation)) == (8, 2)
    np.testing.assert_allclose(training, (51 + 100) * 1.5 / 255, rtol=1e-5)
    np.testing.assert_allclose(validation, 51 / 255, rtol=1e-5)
    assert seen


def check_two_subsets_share_no_image(tmp_path: Path) -> None:
    """Training and validation of one seed are all images, once, asked for alone or as both.

    Each image keeps its label; another seed is another division.
    """
    paths = plains(tmp_path, 30)
    options: dict[str, Any] = {"size": (8, 8), "validation_split": 0.3, "seed": 4}
    parts = [
        stream(paths, range(30), subset=name, **options) for name in ("training", "validation")
    ]
    training, validation = map(pairs, parts)
    assert (len(training), len(validation)) == (21, 9)
    assert sorted(training + validation) == [(number, number) for number in range(30)]
    assert validation == sorted(validation)
    both: Any = stream(paths, range(30), subset="both", **options)
    assert [sorted(pairs(part)) for part in both] == [sorted(training), validation]
    other = stream(paths, range(30), subset="validation", **{**options, "seed": 5})
    assert pairs(other) != validation
    with pytest.raises(UsageError, match="leaves one side empty"):
        stream(paths[:1], subset="both", **options)


def check_an_image_beyond_the_limit_is_refused_by_name(tmp_path: Path) -> None:
    """What one worker may not decode is decoded alone; what no limit allows is an ImageError."""
    noise(900, 700).save(tmp_path / "large.jpg")
    noise(900, 700).save(tmp_path / "large.png")
    for name in ("large.jpg", "large.png"):
        options: dict[str, Any] = {"batch_size": 1, "side": 32}
        small = one(tmp_path / name, host_limit="24MiB", **options)
        np.testing.assert_allclose(small, one(tmp_path / name, **options), atol=12)
        with pytest.raises(tf.errors.InvalidArgumentError, match=name) as caught:
            one(tmp_path / name, host_limit="4MiB", **options)
        assert "900 × 700 pixels" in caught.value.message
        assert " host_limit leaves " in caught.value.message


def check_fit_evaluate_and_predict(tmp_path: Path) -> None:
    """A model learns from a folder of two kinds of pictures, and keras knows the steps."""
    rng = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 150)):
        for number in range(20):
            plain(tmp_path / name / f"{number}.png", low + int(rng.integers(100)))
    training = stream(tmp_path, size=(8, 8), batch_size=8, scale="-1-1", seed=1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Flatten(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(training, validation_data=training, epochs=4, shuffle=False, verbose=0)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    assert model.evaluate(training, verbose=0)[1] == 1.0
    ordered = stream(tmp_path, size=(8, 8), scale="-1-1", label_mode=None, shuffle=False)
    predicted = model.predict(ordered, verbose=0)[:, 0] > 0.5
    assert predicted.tolist() == ["light" in path for path in ordered.file_paths]


def check_tf_keras_too(tmp_path: Path) -> None:
    """The Keras 2 beside TensorFlow takes it as well, labels and steps included."""
    tf_keras = pytest.importorskip("tf_keras")
    dataset = stream(plains(tmp_path, 10), range(10), size=(8, 8), batch_size=4, scale="0-1")
    model = tf_keras.Sequential([tf_keras.layers.Flatten(), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert len(model.fit(dataset, epochs=2, verbose=0).history["loss"]) == 2


def check_the_plan_is_the_limit_and_more_is_not_held(tmp_path: Path) -> None:
    """No more pictures are decoded ahead than the plan says, however slow the reader is."""
    paths = plains(tmp_path, 200)
    opened: list[int] = []

    def note(images: Any) -> Any:
        tf.py_function(lambda count: opened.append(int(count)), [tf.shape(images)[0]], [])
        return images

    dataset = stream(paths, size=(8, 8), batch_size=2, augment=note, host_limit="64MiB")
    plan = dataset.memory_plan
    iterator = iter(dataset)
    next(iterator)
    ahead = 1 + plan.batches_waiting
    wait_until(lambda: len(opened) >= ahead)
    time.sleep(0.1)  # for one more, which must not come
    assert ahead <= len(opened) <= ahead + 1, opened
    assert plan.held_bytes <= 64 * 2**20
