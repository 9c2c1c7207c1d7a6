"""Programs whose children are hard to end, and the way in which each command starts such a one."""

from __future__ import annotations

# $FOLDER gets a file with its process id for each of those that no kill of a group would end.
HARD = """\
cd "$FOLDER"
setsid sh -c 'echo $$ >session; exec sleep 600' &
sh -c 'trap "" TERM INT HUP; echo $$ >deaf; while :; do sleep 1; done' &
setsid sh -c 'echo $$ >stopped; kill -STOP $$; sleep 600' &
# Its parent ends at once, and its environment is empty.
(env -i setsid sh -c "echo \\$\\$ >$FOLDER/orphan; sleep 600; true" </dev/null >/dev/null 2>&1 &)
for name in session deaf stopped orphan; do while [ ! -s $name ]; do sleep 0.02; done; done
touch ready
sleep 600
"""
NAMES = ("session", "deaf", "stopped", "orphan")

# A user's own children, started before: one in a session of its own, and one whose parent ends
# while ours run, so that it becomes a child of the process that looks for what to end.
OTHERS = """\
import os, subprocess, sys, time
from pathlib import Path
folder = Path(os.environ["FOLDER"])
apart = subprocess.Popen(["sleep", "600"], start_new_session=True, stderr=subprocess.DEVNULL)
(folder / "apart").write_text(str(apart.pid))
family = "sleep 600 & echo $! >left; while [ ! -e ready ]; do sleep 0.02; done; touch gone"
subprocess.Popen(["sh", "-c", family], cwd=folder, stderr=subprocess.DEVNULL)
while not (folder / "left").exists() or not (folder / "left").read_text().strip():
    time.sleep(0.02)
hard = str(folder / "hard.sh")
"""
OTHER_NAMES = ("apart", "left")

# A package that a command's child takes for a TensorFlow with CUDA; it only starts the program.
STANDIN = {
    "standin/tensorflow/__init__.py": (
        "import os, subprocess\nsubprocess.run(['sh', os.environ['FOLDER'] + '/hard.sh'])\n"
    ),
    "standin/tensorflow/python/platform/build_info.py": "build_info = [('is_cuda_build', True)]\n",
}

# What the process does whose end is tried; each as the command itself does it.
WAYS = {
    "doctor": """
from gpuconf.commands.doctor.live import measure
measure(None, timeout_s=600, progress=print)
""",
    "estimate": """
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.runner.runner import StepRunner
with StepRunner(CompileTarget(), environ=os.environ) as runner:
    runner.run(None, (), is_compiled=False)
""",
    "rehearse": """
from gpuconf.commands.rehearse.runs import Orders, run_once
run_once(["sh", hard], Orders(), environ=os.environ)
""",
    "demo": """
from gpuconf.commands.demo.runner import Runner
(folder / "script.py").write_text(f"import subprocess; subprocess.run(['sh', {hard!r}])")
Runner(sys.executable, os.environ, programs=(folder,)).run("script.py")
""",
    "time-out": """
from gpuconf.support.children.run import run_recorded
ended = run_recorded(
    ["sh", hard], os.environ, watch=lambda _: -1.0 if (folder / "gone").exists() else 600.0
)
assert ended.code is None and not ended.is_stuck
""",
}
