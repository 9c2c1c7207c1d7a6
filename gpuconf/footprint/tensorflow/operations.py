"""What TensorFlow's kernels do with their inputs' memory, by the kind of operation.

Sources, in ``tensorflow/core/kernels``: ``forward_input_or_allocate_output`` in
``cwise_ops_common.h``, ``bias_op.cc``, ``aggregate_ops.cc``, ``softmax_op.cc`` and others;
``set_output(0, input)`` and ``CopyFrom`` in ``reshape_op.h``, ``identity_op.h``, ``shape_ops.h``.
"""

from __future__ import annotations

_ALIASES = """
    Identity IdentityN Reshape ExpandDims Squeeze StopGradient Snapshot PreventGradient
    CheckNumerics EnsureShape Bitcast OptimizationBarrier
"""
_ON_HOST = """
    NoOp Shape ShapeN Rank Size BroadcastGradientArgs ConcatOffset Assert VarHandleOp
    InvertPermutation TensorListLength TensorListElementShape VarIsInitializedOp VariableShape
    StringFormat PrintV2
"""
_ELEMENTWISE = """
    Abs Neg Inv Reciprocal Square Sqrt Rsqrt Round Exp Expm1 Log Log1p Sin Cos Tan Sinh Cosh Tanh
    Asin Acos Atan Asinh Acosh Atanh Erf Erfc Erfinv Ndtri Lgamma Digamma Sigmoid Floor Ceil Rint
    Sign LogicalNot IsNan IsInf IsFinite Relu Relu6 Elu Selu LeakyRelu Softplus Softsign
    Softmax LogSoftmax ClipByValue Invert
    Add AddV2 Sub Mul Div RealDiv TruncateDiv FloorDiv FloorMod Mod Maximum Minimum Pow Atan2
    SquaredDifference DivNoNan MulNoNan Xdivy Xlogy Xlog1py LogicalAnd LogicalOr Greater
    GreaterEqual Less LessEqual Equal NotEqual BitwiseAnd BitwiseOr
    ReluGrad Relu6Grad EluGrad SeluGrad LeakyReluGrad SoftplusGrad SoftsignGrad TanhGrad
    SigmoidGrad SqrtGrad RsqrtGrad InvGrad ReciprocalGrad
    AddN AccumulateNV2
"""

# The output is the input under another shape or name.
ALIASES = frozenset(_ALIASES.split())
# Shapes and the like: a few numbers, on a GPU in host memory.
ON_HOST = frozenset(_ON_HOST.split())
# The output may take over an input's memory, if nobody else needs it and the sizes agree: which
# inputs; None stands for all of them.
TAKES: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(_ELEMENTWISE.split()),
    "BiasAdd": (0,),
    "FusedBatchNormV3": (0,),
    "Select": (1, 2),
    "SelectV2": (1, 2),
    "TensorScatterUpdate": (0,),
    "TensorScatterAdd": (0,),
}
# Outputs of unknown shape that are empty: what cuDNN reserves for the backward pass is nothing or a
# bit for each element in half precision.
EMPTY = {"FusedBatchNormV3": (5,), "CudnnRNNV3": (4,)}
# Outputs of unknown shape that are a number of times as large as the first one, by ``rnn_mode``:
# what a recurrent layer keeps of its gates and cells for the backward pass.
RESERVED = {"CudnnRNNV3": (3, {"lstm": 5, "gru": 4})}
# ... into another output than the first.
TAKES_INTO = {
    "SoftmaxCrossEntropyWithLogits": {1: (0,)},
    "SparseSoftmaxCrossEntropyWithLogits": {1: (0,)},  # sparse_xent_op.cc
}

# From the first of these on, every reading of that variable is a copy (in TensorFlow's source:
# EnsureSparseVariableAccess).
SPARSE_PREFIXES = ("ResourceScatter", "ResourceSparseApply")
# In place on a variable, which is copied first while somebody still reads it.
_UPDATES = ("AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply", *SPARSE_PREFIXES)

# With a scalar of that value beside it, the result is the other input: grappler's constant folding
# takes such an operation out (``SimplifyArithmeticOperations`` in constant_folding.cc).
NEUTRAL = {
    "Mul": 1,
    "Div": 1,
    "RealDiv": 1,
    "Add": 0,
    "AddV2": 0,
    "Sub": 0,
}
# Of these only the second input may be the scalar.
ONE_SIDED = frozenset({"Div", "RealDiv", "Sub"})

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})


def updates_variable(kind: str) -> bool:
    """Whether the operation changes variables in place."""
    return kind.startswith(_UPDATES)
