"""How TensorFlow's kernels use their inputs' memory, by the type of operation.

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

# The output is the input with another shape or name.
ALIASES = frozenset(_ALIASES.split())
# Shapes and other small results, which a GPU kernel keeps in host memory.
ON_HOST = frozenset(_ON_HOST.split())
# The inputs whose memory the output may reuse, if it is not needed elsewhere and the sizes agree.
# None means all inputs.
TAKES: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(_ELEMENTWISE.split()),
    "BiasAdd": (0,),
    "FusedBatchNormV3": (0,),
    "Select": (1, 2),
    "SelectV2": (1, 2),
    "TensorScatterUpdate": (0,),
    "TensorScatterAdd": (0,),
}
# Outputs of unknown shape that are taken as empty: cuDNN reserves nothing for the backward pass, or
# one bit per element in half precision.
EMPTY = {"FusedBatchNormV3": (5,), "CudnnRNNV3": (4,)}
# Outputs of unknown shape whose size is a multiple of the first output's, by ``rnn_mode``.  They
# hold the gates and cells that a recurrent layer keeps for the backward pass.
RESERVED = {"CudnnRNNV3": (3, {"lstm": 5, "gru": 4})}
# The same for an output other than the first.
TAKES_INTO = {
    "SoftmaxCrossEntropyWithLogits": {1: (0,)},
    "SparseSoftmaxCrossEntropyWithLogits": {1: (0,)},  # sparse_xent_op.cc
}

# After the first of these, every read of the variable is a copy (EnsureSparseVariableAccess in
# TensorFlow's source).
SPARSE_PREFIXES = ("ResourceScatter", "ResourceSparseApply")
# In-place updates of a variable, which is copied first if a reader still needs it.
_UPDATES = ("AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply", *SPARSE_PREFIXES)

# If one input is a scalar of this value, the result is the other input: grappler's constant folding
# removes such an operation (``SimplifyArithmeticOperations`` in constant_folding.cc).
NEUTRAL = {
    "Mul": 1,
    "Div": 1,
    "RealDiv": 1,
    "Add": 0,
    "AddV2": 0,
    "Sub": 0,
}
# Only the second input of these may be the scalar.
ONE_SIDED = frozenset({"Div", "RealDiv", "Sub"})

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})


def updates_variable(kind: str) -> bool:
    """Whether the operation changes variables in place."""
    return kind.startswith(_UPDATES)
