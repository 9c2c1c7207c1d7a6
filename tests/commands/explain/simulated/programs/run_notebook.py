"""A notebook's cells, run by Jupyter up to the one that fails, and saved as Jupyter does."""

import contextlib

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

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
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
made = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
made.cells = [nbformat.v4.new_markdown_cell("# Training", id="title")]
for number, source in enumerate(CELLS, start=1):
    made.cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{number}"))
with contextlib.suppress(CellExecutionError):
    NotebookClient(made, record_timing=False).execute()
for cell in made.cells[1:]:
    for output in [each for each in cell.outputs if "text" in each]:  # less what is the GPU's own
        lines = output.text.splitlines(keepends=True)
        output.text = "".join(line for line in lines if not line.startswith("gpuconf: "))
        if not output.text:
            cell.outputs.remove(output)
nbformat.write(made, "notebook.ipynb")
