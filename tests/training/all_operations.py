"""Every comparison by its name."""

from __future__ import annotations

from tests.training.array_operations import ARRAY_OPERATIONS
from tests.training.dense_operations import DENSE_OPERATIONS
from tests.training.layer_operations import LAYER_OPERATIONS
from tests.training.training_operations import TRAINING_OPERATIONS

_ALL = (*DENSE_OPERATIONS, *ARRAY_OPERATIONS, *LAYER_OPERATIONS, *TRAINING_OPERATIONS)
OPERATIONS = {operation.name: operation for operation in _ALL}
assert len(OPERATIONS) == len(_ALL), "two operations have one name"
