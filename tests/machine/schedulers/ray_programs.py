"""Programs for a driver of Ray on a simulated GPU of 8 GiB, whose desktop holds 1 GiB.

Each prints its answers as one line of JSON.  The profile keeps 512 MiB of the GPU free, and a
context counts 640 MiB: 0.4 × (8192 - 1024 - 512) - 640 = 2022 MiB.
"""

from __future__ import annotations

START = """
import json, os, sys, time
import ray

def start(cpus=8, **more):
    # Ray waits 30 s for its own start, which no option changes: tried twice on a busy machine.
    for is_last in (False, True):
        try:
            return ray.init(
                num_cpus=cpus, log_to_driver=False, logging_level="error",
                **{"address": "local", "include_dashboard": False, **more},
            )
        except Exception:
            ray.shutdown()
            if is_last:
                raise

HOOK = {"worker_process_setup_hook": "gpuconf.ray.setup"}

def limits():
    import tensorflow as tf
    return [
        device.memory_limit
        for gpu in tf.config.list_physical_devices("GPU")
        for device in tf.config.get_logical_device_configuration(gpu) or [None]
    ]

def free_mib():
    import pynvml
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).free >> 20
"""

ACTORS = (
    START
    + """
start(runtime_env=HOOK)

@ray.remote(num_gpus=0.4)
class Model:
    def __init__(self):
        self.limits = limits()
        import tensorflow as tf
        self.tf = tf
        self.kept = tf.ones([256, 1024, 1024])  # 1 GiB

    def seen(self):
        return self.limits

    def too_much(self):
        try:
            self.tf.ones([512, 1024, 1024])
        except self.tf.errors.ResourceExhaustedError:
            return "ResourceExhaustedError"

first, second, third = (Model.remote() for _ in range(3))
two = ray.get([first.seen.remote(), second.seen.remote()])
too_much = ray.get([first.too_much.remote(), second.too_much.remote()])
answer = third.seen.remote()
is_queued = not ray.wait([answer], timeout=2)[0]
free = free_mib()
ray.kill(first)
third_limits = ray.get(answer)
import tensorflow as tf  # the driver's own, which no scheduler counts
driver = float(tf.reduce_sum(tf.ones([4, 4])))
print(json.dumps({
    "two": two, "too_much": too_much, "is_queued": is_queued, "free": free,
    "third": third_limits, "driver": driver,
}))
"""
)

TASKS = (
    START
    + """
import gpuconf.ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

def own_hook():
    gpuconf.ray.setup()
    os.environ["OWN_HOOK"] = "called"

start(runtime_env={"worker_process_setup_hook": own_hook})

def look():
    try:
        gpuconf.ray.check()
        said = None
    except gpuconf.TooLateError as error:
        said = str(error)
    hook = os.environ.get("OWN_HOOK")
    return {"pid": os.getpid(), "limits": limits(), "said": said, "hook": hook}

def asked(**options):
    # In a worker that ends with the task, so that the next one is new.
    return ray.get(ray.remote(max_calls=1)(look).options(**options).remote())

found = {}
found["quarter"] = ray.get(ray.remote(num_gpus=0.25)(look).remote())
found["none"] = asked(num_gpus=0)
found["two"] = asked(num_gpus=2)
group = placement_group([{"CPU": 1, "GPU": 0.5}, {"CPU": 1, "GPU": 1}])
ray.get(group.ready())
for name, part in (("half in a group", 0.5), ("one in a group", 1)):
    strategy = PlacementGroupSchedulingStrategy(group)
    found[name] = asked(num_gpus=part, scheduling_strategy=strategy)
print(json.dumps(found))
"""
)

REUSED = (
    START
    + """
import gpuconf.ray
start(cpus=1, runtime_env=HOOK)  # so that few workers are there to choose from

@ray.remote
def task():
    gpuconf.ray.check()
    return os.getpid(), limits()

pid, quarter = ray.get(task.options(num_gpus=0.25).remote())
found = {"quarter": quarter, "said": None}
for _ in range(5):  # a worker is free for tasks of another kind once Ray has taken it back
    time.sleep(3)
    try:
        assert ray.get(task.options(num_gpus=0.5).remote())[0] != pid
    except gpuconf.TooLateError as error:
        found["said"] = str(error)
        break
print(json.dumps(found))
"""
)

# A program outside Ray between two actors; the driver requests every lease in the ledger.
OUTSIDER = (
    START
    + """
import subprocess
start(runtime_env=HOOK)

@ray.remote(num_gpus=0.4)
class Model:
    def limits(self):
        import tensorflow as tf
        tf.ones([1])  # makes the devices, with which the lease is taken
        return limits()

def leases():
    command = [sys.executable, "-m", "gpuconf", "ps", "--json"]
    (card,) = json.loads(subprocess.run(command, capture_output=True).stdout)["gpus"]
    return [each["lease_bytes"] >> 20 for each in card["processes"] if each["lease_bytes"]]

program = '''import gpuconf.auto, tensorflow as tf
(gpu,) = tf.config.list_physical_devices("GPU")
tf.config.list_logical_devices("GPU")
print(tf.config.get_logical_device_configuration(gpu)[0].memory_limit, flush=True)
input()'''

with open("outsider.yaml", "w") as profile:
    profile.write("memory: {memory_limit: 1536MiB, context: 640MiB}")
first = Model.remote()
found = {"first": ray.get(first.limits.remote())}
outside = subprocess.Popen(
    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    env={**os.environ, "GPUCONF_PROFILE": os.path.abspath("outsider.yaml")},
)
found["outside"] = int(outside.stdout.readline())
second = Model.remote()
found["second"] = ray.get(second.limits.remote())
found["leases"] = leases()
outside.communicate(b"\\n")
print(json.dumps(found))
"""
)

SIZES = (
    START
    + """
import gpuconf.ray
start(runtime_env=HOOK)
found = gpuconf.ray.options("2GiB")

@ray.remote(max_calls=1)
def limit():
    return limits()

try:
    gpuconf.ray.options("2GiB", accelerator="Q1")
except gpuconf.GpuconfError as error:
    said = str(error)
seen = ray.get(limit.options(**found).remote())
print(json.dumps({"found": found, "limits": seen, "said": said}))
"""
)
