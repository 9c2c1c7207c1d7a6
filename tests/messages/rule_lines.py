"""Lines that meet the rules that want more than words, and lines that share words with rules.

Written for these tests after the wordings of the programs named beside them.
"""

from __future__ import annotations

THESE: dict[str, tuple[str, ...]] = {
    "compiler-file-unwritten": (
        "\tUnable to write PTX contents to: /tmp/tempfile-vm-1",
        "W x] OP_REQUIRES failed at xla_ops.cc:602 : INTERNAL: ptxas exited with non-zero error "
        "code 256, output: cat: /tmp/tempfile-vm-1: No space left on device",
    ),
    "framework-file-unwritten": (
        "W x] OP_REQUIRES failed at save_restore_v2_ops.cc:163 : RESOURCE_EXHAUSTED: epoch-1_temp/"
        "part-00000-of-00001.data-00000-of-00001.tempstate5; No space left on device",
        ", filename = 'm.h5', file descriptor = 3, errno = 28, error message = 'No space left on "
        "device', buf = 0x56, total write size = 2048",
    ),
    "packages-not-installed": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
    ),
    "array-file-cut": ("OSError: 100000 requested and 25584 written",),
    "layout-of-gpus": (
        "The Conv2D op currently only supports the NHWC tensor format on the CPU. The op was given",
        "Default MaxPoolingOp only supports NHWC on device type CPU",
        "CPU BiasOp only supports NHWC.",
    ),
    "profiler-library-missing": (
        "W tensorflow/x/dso_loader.cc:60] Could not load dynamic library 'libcupti.so.11.2'",
        "E tensorflow/x/cupti_tracer.cc:1666] function cupti_interface_->Subscribe( &subscriber_, "
        "(CUpti_CallbackFunc)ApiCallback, this)failed with error CUPTI could not be loaded",
    ),
    "import-of-library": (
        "ImportError: libcublas.so.9.0: cannot open shared object file: No such file or directory",
        "ImportError: Could not find 'cudart64_100.dll'. TensorFlow requires that this DLL be",
        "ImportError: DLL load failed: The specified module could not be found.",
        "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot",
        "Could not locate zlibwapi.dll. Please make sure it is in your library path!",
        'OSError: [WinError 126] Error loading "torch\\lib\\caffe2_detectron_ops.dll"',
    ),
    "cudnn-versions": (
        "E external/x/cuda_dnn.cc:421] Loaded runtime CuDNN library: 8.4.0 but source was compiled "
        "with: 8.6.0.  CuDNN library needs to have matching major version",
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (8, 7, 0) but",
    ),
    "library-versions": (
        "RuntimeError: Found cuDNN version 8600, but JAX was built against version 8907, newer.",
        "CUDA backend failed to initialize: Found cuBLAS version 111103, but JAX was built against",
        "Outdated cuDNN installation found.",
    ),
    "tensor-of-the-host": (
        "OOM when allocating tensor with shape[9,9] and type half on /job:x/device:CPU:0",
    ),
    "exception-of-memory": (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError:",
        "ResourceExhaustedError                    Traceback (most recent call last)",
        "ResourceExhaustedError (see above for traceback): what it said stands below",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 512 bytes",
    ),
    "device-too-small": (
        "Ignoring visible gpu device (device: 1, name: Quadro P400, compute capability: 6.1) with "
        "core count: 2. The minimum required count is 8.",
    ),
    "no-gpu-listed": ("Num GPUs Available:  0", "torch.cuda.is_available(): False"),
    "paging-file": (
        "OSError: [WinError 1455] The paging file is too small for this operation to complete.",
        "Could not load library cudnn_cnn_infer64_8.dll. Error code 1455",
    ),
    "killed-by-kernel": (
        "The node was low on resource: memory.",
        "[ 1234.5] Out of memory: Killed process 4242 (python3) total-vm:41234kB, anon-rss:1kB",
        "[ 1234.5] Memory cgroup out of memory: Killed process 4242 (python)",
        "slurmstepd: error: Detected 3 oom-kill event(s) in StepId=1.batch.",
        "    Last State:     Terminated   Reason: OOMKilled   Exit Code: 137",
        "DataLoader worker (pid 12) is killed by signal: Killed.",
        "Your session crashed after using all available RAM.",
    ),
    "exit-of-killed": (
        "Command terminated with exit code 137",
        "exited with exit code 137",
        "returned non-zero exit status 137.",
        "failed (exitcode: -9) local_rank: 0 (pid: 4242) of binary: python",
    ),
    "scheduler-killed": (
        "srun: error: node01: task 0: Out Of Memory",
        "4242.batch  batch  OUT_OF_ME+  0:125",
    ),
    "shared-memory-full": (
        "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm).",
        "RuntimeError: DataLoader worker (pid(s) 4242) exited unexpectedly",
    ),
    "big-host-allocation": (
        "W tensorflow/x/cpu_allocator_impl.cc:83] Allocation of 602112000 exceeds 10% of free "
        "system memory.",
    ),
    "killed": ("Killed", "train.sh: line 3: 4242 Killed   python train.py", "zsh: killed  python"),
    "kernel-assertion": (
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: "
        "[0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        "/pytorch/aten/Indexing.cu:1146: indexSelect: block: [9,0,0] Assertion `srcIndex < "
        "srcSelectDimSize` failed.",
    ),
    "torch-error": (
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA driver error: out of memory",
    ),
    "device-out-of-memory": ("E x/cuda_driver.cc:1] some call: CUDA_ERROR_OUT_OF_MEMORY: out of",),
    "ptxas": (
        "Couldn't invoke ptxas --version",
        "No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink is available.",
        "Couldn't find a suitable version of ptxas. The following locations were considered:",
    ),
}

# The paths at a line's end have the names of libraries that it is not about.
_PATHS = "; LD_LIBRARY_PATH: /usr/local/cuda/extras/CUPTI/lib64:/opt/TensorRT/lib:/opt/nvinfer"
THESE["library-missing"] = (
    "W x/dso_loader.cc:60] Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: "
    f"cannot open shared object file: No such file or directory{_PATHS}",
)

NOT_THESE: dict[str, tuple[str, ...]] = {
    "compiler-file-unwritten": (
        "INTERNAL: ptxas exited with non-zero error code 2, output: ptxas fatal: Unsupported",
    ),
    "ptxas": (
        "ptxas warning : Registers are spilled to local memory in function 'f'",
        "ptxas exited with non-zero error code 256, output: cat: /t: No space left on device",
    ),
    "framework-file-unwritten": (
        "OSError: [Errno 28] No space left on device",
        "RESOURCE_EXHAUSTED: /dev/shm/a; No space left on device: /dev/shm",
    ),
    "file-unwritten": (
        "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'",
        "    except OSError:  # No space left on device",
        "    raise OSError(28, 'No space left on device')",
        "# No space left on device is caught below",
    ),
    "packages-not-installed": (
        "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied",
    ),
    "array-file-cut": ("12 requested and 12 written", "3 plots requested and written"),
    "layout-of-gpus": ("ValueError: a layer that only supports two inputs",),
    "tensor-refused": (
        "OOM when allocating tensor with shape[9,9] and type float on "
        "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
    ),
    "allocator-refused": (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.0GiB with freed_by_count=0. "
        "The caller indicates that this is not a failure",
        "Allocator (gpu_host_bfc) ran out of memory trying to allocate 2.0GiB",
    ),
    "library-missing": (
        "W tensorflow/x/dso_loader.cc:60] Could not load dynamic library 'libnvinfer.so.7'",
        "W tensorflow/x/dso_loader.cc:60] Could not load dynamic library 'libcupti.so.11.2'",
        "W tensorflow/x/dso_loader.cc:60] Could not load dynamic library 'libcuda.so.1'",
        "I tensorflow/x/dso_loader.cc:49] Successfully opened dynamic library libcudart.so.11.0",
    ),
    "import-of-library": (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "ImportError: /lib64/libstdc++.so.6: version `CXXABI_1.3.8' not found",
        "W x] Could not load dynamic library 'libcudnn.so.8'; dlerror: cannot open shared object",
    ),
    "device-ignored": (
        "Ignoring visible gpu device (device: 1, name: Quadro P400) with core count: 2. "
        "The minimum required count is 8.",
    ),
    "no-gpu": (
        "Unable to initialize backend 'tpu': UNIMPLEMENTED: no TPU found",
        "failed call to cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility",
    ),
    "no-gpu-listed": ("Num GPUs Available:  2", "torch.cuda.is_available(): True"),
    "killed": ("The process was not killed", "Killed 3 stale workers, training goes on"),
    "killed-by-kernel": ("Command terminated with exit code 1", "CUDA_ERROR_OUT_OF_MEMORY"),
    "scheduler-killed": ("failed to allocate 2G: CUDA_ERROR_OUT_OF_MEMORY: out of memory",),
    "paging-file": ("ptxas exited with non-zero error code -1",),
    "kernel-assertion": ("Assertion idx failed in a test of ours", "a.py: Assertion t failed"),
    "torch-error": ("failed call: CUDA_ERROR_OUT_OF_MEMORY: out of memory",),
    "device-out-of-memory": ("RuntimeError: CUDA error: out of memory",),
    "torch-refused": ("jaxlib: CUDA out of memory",),
    "array-refused": ("thrust::system::detail::bad_alloc: cudaErrorMemoryAllocation: MemoryError",),
    "driver-too-old": ("W x] Failed to initialize CUDA device #5: driver version is insufficient",),
    "cudnn-status": ("could not destroy cudnn handle: CUDNN_STATUS_BAD_PARAM",),
}
