"""Lines of healthy and of unrelated runs, which share words with failures; by what they are of."""

from __future__ import annotations

HEALTHY_LINES: dict[str, tuple[str, ...]] = {
    "disks": (
        "disk space: 12 GB free of 500 GB, enough for 40 checkpoints",
        "12% of the space left on device /dev/sda1",
        "Set TMPDIR if you see No space left on device.",
        "if the disk says 'No space left on device', the writer waits and tries again",
        "cleaning up old files to avoid No space left on device",
        "UserWarning: Not enough free disk space to download the file.",
        "OSError: [Errno 28] inotify watch limit reached",
        "wrote PTX contents to: /tmp/dump/module_0001.ptx",
        "ptxas exited with code 0",
    ),
    "exit codes": (
        "2023-10-10 10:13:22.137 INFO worker exited with code 0",
        "Process 13745 exited with exit code 1",
        "Command '['python', '--lr', '0.00137']' returned non-zero exit status 1.",
        "exit code 0 at step 1370",
        "Process finished with exit code 0",
    ),
    "rooms and zooms": (
        "bloom filter: 12 MB, zoom 3, room for 4 more",
        "oom kill protection: enabled",
        "exceeded memory limit 0 times",
        "killed due to the node running low on memory: 0",
        "Killed 3 stale workers, training goes on",
    ),
    "nvidia-smi -q": (
        "            Double Bit ECC                    : 0",
        "    Row Remapper                      : 0",
        "        GPU requires reset                : No",
        "    uncorrectable ECC error count         : 0",
        "    Driver Version                        : 535.104.05",
    ),
    "XLA": (
        "2024-01-01 10:00:00.1: W x/hlo_rematerialization.cc:2941] Can't reduce memory use below "
        "7.45GiB (8000000000 bytes) by rematerialization; only reduced to 8.12GiB",
        "Triton JIT compilation failed: falling back to eager",
        "I x/service.cc:145] XLA service 0x7b initialized for platform CUDA (this does not "
        "guarantee that XLA will be used). Devices:",
        "I0000 00:00:1 asm_compiler.cc:369] ptxas warning : Registers are spilled to local memory",
    ),
    "settings that were read": (
        "CUDA_VISIBLE_DEVICES is set to 0,1",
        '"CUDA not available" warnings disabled',
        "update your GPU driver regularly",
        "driver too old? no",
        "Found cuDNN version 8907, required >= 8600: ok",
        "built with CUDA 12.3, found CUDA version 12.3",
        "compiled against cuDNN 8.9 and loaded 8.9: compatible",
        "No devices were found by Bluetooth scan",
        "Num GPUs Available:  1",
        "torch.cuda.is_available(): True",
    ),
    "tests and helps": (
        "tests/test_memory.py::test_memoryerror_raised PASSED",
        "    except MemoryError:",
        "  --retry   halve the batch on CUDA out of memory errors",
        "Allocation on device 0: 3.2 GiB",
        "DefaultCPUAllocator in use",
        "CPUAllocator: jemalloc",
        "cuDNN Backward pass enabled",
        "cublasCreate took 3 ms",
        "CUBLAS error check: none",
        "cusolver error: none",
        "MaxAllocSize: 3",
        "DataLoader worker 3 was killed by the watchdog and started anew",
    ),
    "TensorFlow's beginnings": (
        "I x/dso_loader.cc:49] Successfully opened dynamic library libcudart.so.11.0",
        "W x/dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.7'; dlerror: "
        "libnvinfer.so.7: cannot open shared object file: No such file or directory",
        "I x/gpu_executor.cc:998] successful NUMA node read from SysFS had negative value (-1)",
        "E x/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory",
        "W x/bfc_allocator.cc:296] Allocator (GPU_0_bfc) ran out of memory trying to allocate "
        "2.43GiB with freed_by_count=0. The caller indicates that this is not a failure",
        "W x/cpu_allocator_impl.cc:80] Allocation of 602112000 exceeds 10% of free system memory.",
        "I x/cpu_feature_guard.cc:142] This TensorFlow binary is optimized with oneDNN",
        "I x/gpu_device.cc:1639] Created device /job:localhost/replica:0/task:0/device:GPU:0 with "
        "7000 MB memory:  -> device: 0, name: NVIDIA A100, compute capability: 8.0",
        "Ignore above cudart dlerror if you do not have a GPU set up on your machine.",
        "I x/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: End",
        "WARNING:tensorflow:5 out of the last 5 calls triggered tf.function retracing",
    ),
    "JAX's beginnings": (
        "Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform",
        "Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so",
    ),
}
