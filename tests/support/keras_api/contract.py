"""Every private or undocumented name of TensorFlow and Keras that gpuconf depends on.

`NAMES` states where each name is, who uses it, in which versions, and the consequences if it
is missing.  Two tests check it.  One checks gpuconf's sources, so that every name used is
listed here.  The other checks the installed TensorFlow and Keras in a fresh process.  `make
matrix` starts with it.
"""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """One name: an attribute of ``owner``.

    ``owner`` is a module, ``module:Class``, or in angle brackets a kind of object that the test
    makes.  If names are joined by ``|``, one is enough, since versions differ.  ``users`` are
    modules below ``gpuconf``, ``gpuconf.support`` or ``gpuconf.commands``.  ``of`` is the library;
    ``since`` (included) and ``until`` (not included) are its versions, empty if all versions
    supported by gpuconf have the name.
    """

    owner: str
    name: str
    users: tuple[str, ...]
    without: str
    of: str
    since: str = ""
    until: str = ""


TENSORFLOW, KERAS_2, KERAS_3, ANY_KERAS = "tensorflow", "keras 2", "keras 3", "keras"

_CONTEXT = "tensorflow.python.eager.context"
_C_API = "tensorflow.python.client.pywrap_tf_session"
_WAYS = "tensorflow.python.distribute.cross_device_ops"
_GUARDS = "backends.tensorflow.guards"
_DEVICES = "backends.tensorflow.devices"
_NO_GUARD = "scripts that use it go unguarded, which the Activation says"
_NO_LIMITS = "limits are not read back, and batches do not know the GPU's"
_NO_LATENESS = "devices made before gpuconf came go unnoticed"
_NO_ESTIMATE = "no model can be estimated"
_NO_NCCL = "a rehearsal of MirroredStrategy ends in NCCL's error"
_NO_TAPE = "a rehearsed program that profiles itself ends the memory trace"
_NO_STEPS = "rehearse counts no steps of this kind of optimizer"
_NO_SESSIONS = "rehearse counts no steps in sessions"
_NOT_DIVERTED = "rehearse does not divert what a script saves there"
_WRITTEN = "keras_api.written_files"
_NO_BATCH = "rehearse does not know the batch"
_NO_LOSS = "the loss of a script's own loop is not seen, where it is a function"
_NO_SHAPE = "estimate must be given input_shape"
_NO_UNDO = "an estimate leaves traces on the user's model"
_NO_PARTS = "losses in the logs are wrong for batches that are taken in parts"
_NO_HOOKS = "Keras calls the callback's empty hooks, or copies logs for it"


def _tensorflow(owner: str, name: str, without: str, *users: str) -> Name:
    return Name(owner, name, users, without, TENSORFLOW)


_OF_TENSORFLOW = (
    _tensorflow(
        *(_CONTEXT, "context", _NO_LATENESS),
        *("keras_api.devices", _GUARDS, _DEVICES),
        *("backends.tensorflow.early_init", "backends.tensorflow.runtime"),
    ),
    _tensorflow(_CONTEXT, "_context", "oom_safe does not know the GPU", "keras_api.devices"),
    _tensorflow(
        *(f"{_CONTEXT}:Context", "_initialize_physical_devices"),
        "the plan is bound at import, before workers can be forked",
        _GUARDS,
    ),
    _tensorflow(f"{_CONTEXT}:Context", "ensure_initialized", _NO_GUARD, _GUARDS),
    _tensorflow(f"{_CONTEXT}:Context", "set_memory_growth", _NO_GUARD, _GUARDS),
    _tensorflow(f"{_CONTEXT}:Context", "get_memory_growth", _NO_GUARD, _GUARDS),
    _tensorflow(f"{_CONTEXT}:Context", "set_logical_device_configuration", _NO_GUARD, _GUARDS),
    _tensorflow(
        *("<context>", "_context_handle", _NO_LATENESS, "keras_api.devices"),
        *(_GUARDS, _DEVICES, "backends.tensorflow.early_init"),
    ),
    _tensorflow("<context>", "add_function_def", _NO_ESTIMATE, "keras_api.graphs"),
    _tensorflow(
        *("tensorflow.python.framework.config", "is_op_determinism_enabled"),
        *("estimate counts a deterministic step as one that XLA compiles", "keras_api.jit"),
    ),
    _tensorflow("<context>", "_initialized", _NO_GUARD, "keras_api.devices", _GUARDS),
    _tensorflow("<context>", "_handle", _NO_LIMITS, "backends.tensorflow.readback"),
    _tensorflow("<context>", "_physical_devices", _NO_LATENESS, "backends.tensorflow.runtime"),
    _tensorflow("<context>", "_virtual_device_map", "a second plan keeps limits", _DEVICES),
    _tensorflow("<context>", "_memory_growth_map", "a second plan keeps growth", _DEVICES),
    _tensorflow("tensorflow.python.client.session:BaseSession", "__init__", _NO_GUARD, _GUARDS),
    _tensorflow(
        "<session>", "_config", "a Keras session's options are not read", "backends.keras_session"
    ),
    *(
        _tensorflow(
            "tensorflow.python.client.session:BaseSession", name, _NO_SESSIONS, "keras_api.sessions"
        )
        for name in ("_do_run", "_make_callable_from_options")
    ),
    _tensorflow("tensorflow.core.protobuf", "config_pb2", _NO_GUARD, _GUARDS),
    _tensorflow("tensorflow.python.training.server_lib:Server", "__init__", _NO_GUARD, _GUARDS),
    _tensorflow(
        "tensorflow.python.client._pywrap_device_lib", "list_devices", _NO_GUARD, _GUARDS
    ),
    *(
        _tensorflow(owner, name, _NO_LIMITS, "keras_api.devices", "backends.tensorflow.readback")
        for owner, name in (
            ("tensorflow.python.pywrap_tfe", "TFE_ContextListDevices"),
            (_C_API, "TF_DeviceListCount"),
            (_C_API, "TF_DeviceListName"),
            (_C_API, "TF_DeviceListType"),
            (_C_API, "TF_DeviceListMemoryBytes"),
            (_C_API, "TF_DeleteDeviceList"),
        )
    ),
    _tensorflow(
        *("tensorflow.core.framework.device_attributes_pb2", "DeviceAttributes", _NO_LIMITS),
        "backends.tensorflow.readback",
    ),
    _tensorflow(
        *("tensorflow.python.platform.build_info", "build_info"),
        "doctor does not know which CUDA TensorFlow was built for",
        "doctor.gathering.builds",
    ),
    _tensorflow(
        *("tensorflow.python.framework.func_graph", "func_graph_from_py_func", _NO_ESTIMATE),
        "keras_api.graphs",
    ),
    _tensorflow(
        *("tensorflow.python.ops.control_flow_ops", "XLAControlFlowContext"),
        "an estimate says that XLA cannot compile models with tf.cond, which it can",
        "keras_api.graphs",
    ),
    _tensorflow(
        *("<function>", "_jit_compile"),
        "a function of a script's own is counted op by op, whatever it says of XLA",
        "keras_api.training",
    ),
    _tensorflow("<graph>", "_get_function", _NO_ESTIMATE, "keras_api.graphs"),
    _tensorflow("<graph>", "outer_graph", _NO_ESTIMATE, "keras_api.graphs"),
    _tensorflow("<graph>", "captures", _NO_ESTIMATE, "estimate.tensorflow.tracing"),
    _tensorflow(
        *("tensorflow.python.ops.handle_data_util", "get_resource_handle_data"),
        "an estimate leaves out variables that are not the model's",
        "keras_api.graphs",
    ),
    _tensorflow(
        *("tensorflow.python.ops.resource_variable_ops", "UninitializedVariable"),
        "a model that is built for an estimate takes its memory",
        "keras_api.graphs",
    ),
    _tensorflow(
        "tensorflow.python.distribute.mirrored_strategy", "MirroredExtended", _NO_NCCL,
        "keras_api.training",
    ),
    _tensorflow(
        "tensorflow.python.distribute.collective_util", "CommunicationImplementation", _NO_NCCL,
        "keras_api.devices",
    ),
    *(
        _tensorflow(_WAYS, name, _NO_NCCL, "keras_api.devices")
        for name in ("CollectiveAllReduce", "NcclAllReduce", "HierarchicalCopyAllReduce")
    ),
    _tensorflow("<mirrored strategy>", "_cross_device_ops", _NO_NCCL, "keras_api.devices"),
    _tensorflow("<mirrored strategy>", "_communication_options", _NO_NCCL, "keras_api.devices"),
    _tensorflow(
        "tensorflow.python.profiler.profiler_v2", "start", _NO_TAPE, "keras_api.training"
    ),
    _tensorflow("<batched dataset>", "_batch_size", _NO_BATCH, "keras_api.training"),
    _tensorflow("<batched dataset>", "_input_dataset", _NO_BATCH, "keras_api.training"),
    *(
        _tensorflow("tensorflow.python.lib.io._pywrap_file_io", name, _NOT_DIVERTED, _WRITTEN)
        for name in (
            *("FileExists", "IsDirectory", "Stat", "BufferedInputStream", "WritableFile"),
            *("CreateDir", "RecursivelyCreateDir", "DeleteFile", "DeleteRecursively"),
            *("RenameFile", "CopyFile", "GetChildren", "GetMatchingFiles"),
        )
    ),
    *(
        _tensorflow(owner, name, _NOT_DIVERTED, _WRITTEN)
        for owner, names in (
            ("tensorflow.python.saved_model.save", ("save_and_return_nodes",)),
            ("tensorflow.python.saved_model.load", ("load_partial",)),
            ("tensorflow.python.checkpoint.functional_saver:MultiDeviceSaver", ("save", "restore")),
            ("tensorflow.python.training.saver:Saver", ("save", "restore")),
            ("tensorflow.python.training.py_checkpoint_reader", ("NewCheckpointReader",)),
            ("tensorflow.python.ops.gen_summary_ops", ("create_summary_file_writer",)),
            ("tensorflow.python.ops.gen_io_ops", ("write_file",)),
            ("tensorflow.python.lib.io.tf_record:TFRecordWriter", ("__init__",)),
            ("tensorflow.python.summary.writer.event_file_writer:EventFileWriter", ("__init__",)),
            ("tensorflow.python.data.ops.dataset_ops:DatasetV2", ("save",)),
        )
        for name in names
    ),
)  # fmt: skip

_OF_ANY_KERAS = (
    Name(
        *("<functional model>", "_flatten_layers", ("keras_api.layers",)),
        "layers of the user's own that hold layers are not seen",
        ANY_KERAS,
    ),
    Name("<functional model>", "_inbound_nodes", ("keras_api.symbolic",), _NO_UNDO, ANY_KERAS),
    Name("<layer>", "_losses", ("keras_api.layers",), _NO_UNDO, ANY_KERAS),
    Name("<masked output>", "_keras_mask", ("keras_api.compiled",), _NO_PARTS, ANY_KERAS),
    Name("<hook>", "_is_default", ("keras_api.hooks",), _NO_HOOKS, ANY_KERAS),
    Name(
        "<keras>",
        "src.optimizers.base_optimizer|src.optimizers.optimizer",
        ("keras_api.training",),
        *(_NO_STEPS, ANY_KERAS),
    ),
    Name(
        "<keras>",
        "src.optimizers.loss_scale_optimizer|src.mixed_precision.loss_scale_optimizer",
        ("keras_api.training",),
        *(_NO_STEPS, ANY_KERAS),
    ),
    Name(
        "<keras>",
        "src.backend.tensorflow.trainer:TensorFlowTrainer|src.engine.training:Model",
        ("keras_api.training",),
        *(_NO_BATCH, ANY_KERAS),
    ),
)

_OF_KERAS_3 = (
    Name("keras.src.backend", "cudnn_ok", ("keras_api.jit",),
         "estimate hands LSTM and GRU to XLA, which Keras would give to cuDNN", KERAS_3),
    Name("<functional model>", "_inputs_struct", ("keras_api.symbolic",), _NO_SHAPE, KERAS_3),
    Name("<functional model>", "_outputs_struct", ("keras_api.symbolic",), _NO_SHAPE, KERAS_3),
    Name("<sequential model>", "_functional", ("keras_api.symbolic",), _NO_SHAPE, KERAS_3),
    Name("<called model>", "_build_shapes_dict", ("keras_api.symbolic",), _NO_SHAPE, KERAS_3),
    Name("<compiled model>", "_compile_loss", ("keras_api.compiled",), _NO_PARTS, KERAS_3),
    Name("<compiled model>", "_compile_metrics", ("keras_api.compiled",), _NO_UNDO, KERAS_3),
    Name("<compiled model>", "_loss_tracker", ("keras_api.compiled",), _NO_PARTS, KERAS_3),
    Name("<compiled model>", "_compute_loss", ("keras_api.compiled",),
         "a compute_loss of an older signature cannot be called", KERAS_3),
    Name("<compiled model>", "_call_has_training_arg", ("keras_api.compiled",),
         "a model whose call takes no training cannot be trained in parts", KERAS_3),
    Name("<compiled model>", "_symbolic_build", ("keras_api.jax_steps",), _NO_ESTIMATE, KERAS_3),
    Name("<layer>", "_remat_mode", ("keras_api.layers",),
         "estimate cannot say what recomputing would save", KERAS_3, since="3.9"),
    Name("<layer>", "_tracker", ("keras_api.restoring",), _NO_UNDO, KERAS_3),
    Name("keras.src.backend.common.masking", "get_keras_mask", ("keras_api.compiled",),
         "on JAX, masked losses are wrong for batches that are taken in parts", KERAS_3,
         since="3.8"),
    Name("<layer>", "_non_trainable_variables", ("keras_api.variables",),
         "on PyTorch, statistics that a failed part has moved are not put back", KERAS_3),
    Name("<compiled model>", "_symbolic_build", ("keras_api.stepping",),
         "on PyTorch and JAX, evaluate and fit need a model that is built", KERAS_3, since="3.8"),
    Name("<variable>", "_value", ("keras_api.variables",), _NO_ESTIMATE, KERAS_3),
    Name("keras.src.backend.config", "backend", ("backends.keras_backend",),
         "TensorFlow takes a GPU next to Keras on JAX", KERAS_3),
    Name("<keras>", "src.optimizers.multi_optimizer", ("keras_api.training",), _NO_STEPS, KERAS_3,
         since="3.13"),
    Name("keras._tf_keras.keras", "losses", ("keras_api.training",), _NO_LOSS, KERAS_3),
)  # fmt: skip

_OF_KERAS_2 = (
    Name("<functional model>", "_nested_inputs", ("keras_api.symbolic",), _NO_SHAPE, KERAS_2),
    Name("<functional model>", "_nested_outputs", ("keras_api.symbolic",), _NO_SHAPE, KERAS_2),
    Name("<called model>", "_build_input_shape", ("keras_api.symbolic",), _NO_SHAPE, KERAS_2),
    Name("<compiled model>", "compiled_loss", ("keras_api.compiled",), _NO_PARTS, KERAS_2),
    Name("<compiled model>", "compiled_metrics", ("keras_api.compiled",), _NO_UNDO, KERAS_2),
    Name("<compiled loss>", "_total_loss_mean|_loss_metric", ("keras_api.compiled",),
         _NO_PARTS, KERAS_2),
    Name("<compiled loss>", "_per_output_metrics", ("keras_api.compiled",), _NO_PARTS, KERAS_2),
    Name("<layer>", "_thread_local", ("keras_api.layers",), _NO_UNDO, KERAS_2),
    Name("<thread's losses>", "_eager_losses", ("keras_api.layers",), _NO_UNDO, KERAS_2),
    Name("<legacy optimizer>", "_create_all_weights", ("keras_api.variables",),
         "the first update of a legacy optimizer cannot be undone", KERAS_2),
    Name("<built optimizer>", "_built", ("keras_api.variables",), _NO_ESTIMATE, KERAS_2),
    Name("<compiled model>", "_train_counter", ("keras_api.stepping",),
         "TensorBoard counts no batches", KERAS_2),
    Name("<compiled model>", "_test_counter", ("keras_api.stepping",),
         "TensorBoard counts no batches", KERAS_2),
    Name("<callback>", "_supports_tf_logs", ("keras_api.hooks",), _NO_HOOKS, KERAS_2),
    Name("<callback>", "_chief_worker_only", ("keras_api.hooks",), _NO_HOOKS, KERAS_2),
    *(
        Name("<callback>", f"_implements_{kind}_batch_hooks", ("keras_api.hooks",), _NO_HOOKS,
             KERAS_2)
        for kind in ("train", "test", "predict")
    ),
    Name("<keras>", "src.optimizers.legacy.optimizer_v2", ("keras_api.training",), _NO_STEPS,
         KERAS_2),
    Name("<keras>", "src.engine.training_v1:Model", ("keras_api.training",), _NO_BATCH, KERAS_2),
    Name("tf_keras.api._v1.keras", "backend", ("backends.keras_session",),
         "a version-1 session is not given to tf_keras", "tf_keras"),
    Name("tf_keras.api._v2.keras", "losses", ("keras_api.training",), _NO_LOSS, "tf_keras"),
)  # fmt: skip

NAMES = (*_OF_TENSORFLOW, *_OF_ANY_KERAS, *_OF_KERAS_3, *_OF_KERAS_2)
