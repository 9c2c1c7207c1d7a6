"""Run the operations named on the command line on this process's side; see ``on_device``."""

from __future__ import annotations

from benchmarks.training.on_device import PlacedGraphs, Seen, check_device, run_cases
from tests.training.all_operations import OPERATIONS
from tests.training.operation_case import SEED, Operation


def run(name: str) -> Seen:
    """Run one operation; its outputs must be where the side says."""
    import tensorflow as tf

    operation: Operation = OPERATIONS[name]
    tf.random.set_seed(SEED)
    with PlacedGraphs() as graphs:
        outputs = operation.run()
    tensors = {key: value for key, value in outputs.items() if tf.is_tensor(value)}
    if not operation.on_host:
        assert tensors, "it gave no tensor whose device could be seen"
        for key, tensor in tensors.items():
            check_device(key, tensor)
    arrays = {key: tensors[key].numpy() if key in tensors else outputs[key] for key in outputs}
    return Seen(arrays, {"elsewhere": sorted(graphs.others), "nodes": graphs.on_device})


if __name__ == "__main__":
    run_cases(run)
