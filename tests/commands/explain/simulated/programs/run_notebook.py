"""A notebook's cells, run by IPython as its kernel would, and the notebook that it then saves."""

import contextlib
import json
import os
import sys
import zlib

from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell

CELLS = (
    "import keras\nimport numpy as np\nimport tensorflow as tf\n\n"
    'print("GPUs:", tf.config.list_physical_devices("GPU"))',
    "model = keras.Sequential(\n"
    "    [\n"
    "        keras.layers.Input((128, 128, 3)),\n"
    '        keras.layers.Conv2D(128, 3, padding="same", activation="relu"),\n'
    "        keras.layers.GlobalAveragePooling2D(),\n"
    "        keras.layers.Dense(10),\n"
    "    ]\n"
    ")\n"
    'model.compile("adam", "mse")\n'
    'images = np.ones((96, 128, 128, 3), "float32")\n'
    'targets = np.ones((96, 10), "float32")',
    "history = model.fit(images, targets, batch_size=96, epochs=2)",
)


class Compiler(CachingCompiler):
    """Names the code of a cell as Jupyter does."""

    def get_code_name(self, raw_code, *_rest):
        return f"/tmp/ipykernel_4242/{zlib.crc32(raw_code.encode())}.py"


class Kernel(InteractiveShell):
    """IPython that keeps an error's colored traceback instead of printing it."""

    compiler_class = Compiler
    failure = None

    def _showtraceback(self, etype, evalue, stb):
        self.failure = {
            "output_type": "error",
            "ename": etype.__name__,
            "evalue": str(evalue),
            "traceback": list(stb),
        }


@contextlib.contextmanager
def captured(outputs):
    """What the process writes to its stdout and stderr meanwhile, C++ included, as streams."""
    kept = []
    for number, name in ((1, "stdout"), (2, "stderr")):
        memory = os.memfd_create(name)
        kept.append((number, name, os.dup(number), memory))
        os.dup2(memory, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, name, before, memory in kept:
            os.dup2(before, number)
            with open(memory, errors="replace") as file:
                file.seek(0)
                text = file.read()
            lines = text.splitlines(keepends=True)
            lines = [line for line in lines if not line.startswith("gpuconf: ")]  # the GPU's own
            if lines:
                outputs.append({"output_type": "stream", "name": name, "text": lines})


def run(shell, source):
    """Run one cell; return it with its outputs, and whether it went well."""
    outputs = []
    with captured(outputs):
        result = shell.run_cell(source, store_history=True)
    if shell.failure is not None:
        outputs.append(shell.failure)
    cell = {
        "cell_type": "code",
        "execution_count": result.execution_count,
        "id": f"cell-{result.execution_count}",
        "metadata": {},
        "outputs": outputs,
        "source": source.splitlines(keepends=True),
    }
    return cell, result.success


def main():
    """Run the cells up to the one that fails, and save ``notebook.ipynb``."""
    shell = Kernel.instance()
    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Training"]}]
    for source in CELLS:
        cell, well = run(shell, source)
        cells.append(cell)
        if not well:
            break
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": sys.version.split()[0]},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    with open("notebook.ipynb", "w") as file:
        json.dump(notebook, file, indent=1)
        file.write("\n")


main()
