"""All images of a data set, read into one list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuconf.commands.doctor.source.flow import Function
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, imports_tensorflow

_READERS = {"imread", "load_img"}  # by last name: cv2, skimage, imageio, matplotlib, Keras
_OPENERS = {"PIL.Image.open", "Image.open"}
_ARRAYS = {"array", "asarray", "stack", "vstack", "concatenate", "convert_to_tensor", "constant"}
_FEW = 64
_STREAM = (
    "import gpuconf.images\n"
    'data = gpuconf.images.stream(paths, labels, size=(224, 224), host_limit="2GiB")\n'
    "# sequence(...) in place of stream(...) where Keras is not on TensorFlow\n"
    "# or without gpuconf: keras.utils.image_dataset_from_directory, with a folder for each class"
)
_IN_PIECES = re.compile("batch|generat|chunk", re.IGNORECASE)
_LOADERS = ("Sequence", "Dataset", "Generator", "DataLoader")
# Calls that reduce an image to a few numbers, so that the list holds those instead of images.
_SHRINK: tuple[str, ...] = (
    "predict",
    "extract",
    "embed",
    "encod",
    "feature",
    "hog",
    "hist",
    "hash",
    "describe",
)
_SHRINK += ("mean", "std", "sum", "shape", "size", "len", "detect", "mode", "info", "name", "count")


def images_in_a_list(script: Script) -> Iterator[ScriptProblem]:
    """``source.images_in_list``: host memory for all decoded images, and again for the array."""
    if not any(imports_tensorflow(node) for node in ast.walk(script.tree)):
        return
    reading = _Reading(script)
    for node in ast.walk(script.tree):
        if isinstance(node, ast.For) and (found := reading.filled_list(node)) is not None:
            name, call = found
            if reading.becomes_array(name, node):
                yield _problem(call)
        elif isinstance(node, ast.ListComp) and reading.is_list_of_all(node):
            yield _problem(node)


def _problem(node: ast.AST) -> ScriptProblem:
    return ScriptProblem(
        "source.images_in_list",
        "warn",
        node,
        "every image is read into one list, and then into one array",
        (
            "both are in host memory at once, decoded: 10000 images of 224 × 224 in float32 "
            "are 6 GB; and fit() copies a whole array to the GPU",
        ),
        _STREAM,
    )


class _Reading:
    """Finds the expressions in a script that are images read from files."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._readers: set[str] = set()
        for node in ast.walk(script.tree):
            if isinstance(node, Function) and self._returns_image(node):
                self._readers.add(node.name)

    def _returns_image(self, function: Function) -> bool:
        images: set[str] = set()
        for each in ast.walk(function):
            if isinstance(each, ast.For | ast.ListComp | ast.Yield):
                return False
            if isinstance(each, ast.Assign) and self.reads_images(each.value, images):
                images |= {part.id for part in each.targets if isinstance(part, ast.Name)}
        returned = [each.value for each in ast.walk(function) if isinstance(each, ast.Return)]
        return any(each is not None and self.reads_images(each, images) for each in returned)

    def reads_images(self, node: ast.expr, images: set[str]) -> bool:
        """Whether the value is an image that was read, or derives from a name in ``images``."""
        if isinstance(node, ast.Name):
            return node.id in images
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            last = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
            if self._is_reader(node, last):
                return True
            if not any(word in last.lower().replace("resize", "") for word in _SHRINK):
                owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                parts = [*owner, *node.args]
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        return any(self.reads_images(each, images) for each in parts)

    def _is_reader(self, call: ast.Call, last: str) -> bool:
        is_local = isinstance(call.func, ast.Name) and last in self._readers
        return last in _READERS or self._script.names.of(call.func) in _OPENERS or is_local

    def filled_list(self, loop: ast.For) -> tuple[str, ast.Call] | None:
        """The list that the loop fills with images, and the call that appends them."""
        if _is_few(loop.iter) or self._is_piecewise(loop):
            return None
        images: set[str] = set()
        for node in _in_order(loop):
            if isinstance(node, ast.Assign) and self.reads_images(node.value, images):
                images |= {part.id for part in node.targets if isinstance(part, ast.Name)}
            name = _appended_to(node)
            if name and isinstance(node, ast.Call) and self.reads_images(node.args[0], images):
                return None if self._is_emptied(name, loop) else (name, node)
        return None

    def _is_emptied(self, name: str, loop: ast.For) -> bool:
        """Whether a loop recreates the list, so that it holds one part at a time."""
        loops = [each for each in self._script.above(loop) if isinstance(each, ast.For | ast.While)]
        return any(self._script.is_bound_in(name, each) for each in (loop, *loops))

    def _is_piecewise(self, node: ast.AST) -> bool:
        """Whether it is in a generator, or in code that handles one batch."""
        for each in self._script.above(node):
            if isinstance(each, ast.For | ast.While) and _is_endless_or_few(each):
                return True
            if isinstance(each, Function):
                words = [each.name, *(argument.arg for argument in each.args.args)]
                has_yield = any(isinstance(part, ast.Yield) for part in ast.walk(each))
                is_item = each.name in ("__getitem__", "__next__")
                if has_yield or is_item or any(_IN_PIECES.search(word) for word in words):
                    return True
            if isinstance(each, ast.ClassDef):
                return any(ast.unparse(base).endswith(_LOADERS) for base in each.bases)
        return False

    def becomes_array(self, name: str, loop: ast.AST) -> bool:
        """Whether ``name`` is converted to an array, or returned, in the function that fills it."""
        place: ast.AST = self._script.function_of(loop) or self._script.tree
        for node in ast.walk(place):
            used: list[ast.expr] = []
            if isinstance(node, ast.Call) and _makes_array(node):
                used = node.args
            elif isinstance(node, ast.Return) and node.value is not None:
                used = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if any(isinstance(each, ast.Name) and each.id == name for each in used):
                return True
        return False

    def is_list_of_all(self, node: ast.ListComp) -> bool:
        """Whether a comprehension reads all images, and its list becomes an array."""
        if not self.reads_images(node.elt, set()) or _is_few(node.generators[0].iter):
            return False
        if self._is_piecewise(node):
            return False
        for each in self._script.above(node):
            if isinstance(each, ast.Call) and _makes_array(each):
                return True
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                return self.becomes_array(each.targets[0].id, node)
        return False


def _appended_to(node: ast.AST) -> str | None:
    """``images`` of ``images.append(image)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    is_append = node.func.attr == "append" and len(node.args) == 1
    return owner.id if is_append and isinstance(owner, ast.Name) else None


def _makes_array(call: ast.Call) -> bool:
    return str(getattr(call.func, "attr", "")) in _ARRAYS


def _in_order(loop: ast.For) -> Iterator[ast.AST]:
    """The nodes of the loop's body, in source order."""
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    return iter(sorted(nodes, key=lambda node: getattr(node, "lineno", 0)))


def _is_few(iterated: ast.expr) -> bool:
    """Whether a loop iterates over a slice, a sample or a batch."""
    if isinstance(iterated, ast.Subscript) and isinstance(iterated.slice, ast.Slice):
        return True
    if isinstance(iterated, ast.List | ast.Tuple):
        return True
    words = ast.unparse(iterated).lower()
    counts = [int(number) for number in re.findall(r"\d{1,9}", words)]
    is_counted = words.startswith("range(") and bool(counts) and max(counts) <= _FEW
    return is_counted or any(word in words for word in ("sample", "batch", "choice", "chunk"))


def _is_endless_or_few(loop: ast.For | ast.While) -> bool:
    if isinstance(loop, ast.While):
        return True
    return _is_few(loop.iter)
