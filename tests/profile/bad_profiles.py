"""Wrong profiles, and what must be said about each."""

from __future__ import annotations

from typing import NamedTuple


class BadProfile(NamedTuple):
    """A wrong file: its content, where the error must point, and what it must say.

    ``schema_rejects`` is False for what JSON Schema cannot express or an editor never sees:
    the text's form, other files, and sums.
    """

    name: str
    content: bytes
    line: int
    column: int
    says: str
    hint: str
    schema_rejects: bool = True


def _row(
    name: str, text: str, at: tuple[int, int], says: str, hint: str, *, schema: bool = True
) -> BadProfile:
    return BadProfile(name, text.encode("utf-8"), *at, says, hint, schema)


FRACTION = "memory: {per_process_gpu_memory_fraction: %s}"
LIMIT = "memory: {memory_limit: %s}"
SHORTAGE = "memory: {on_shortage: %s}"

KEYS = [
    _row("misspelt top key", "memry: {}", (1, 1), 'unknown key "memry"', "write `memory`"),
    _row(
        "misspelt inner key",
        "gpus: all\nmemory:\n  allow_grwoth: true\n",
        (3, 3),
        'memory.allow_grwoth: unknown key "allow_grwoth" under memory',
        "write `allow_growth`",
    ),
    _row(
        "inner key at the top",
        "memory_limit: 4GiB",
        (1, 1),
        'unknown key "memory_limit" in a profile',
        "write `memory: {memory_limit: …}`",
    ),
    _row(
        "top key inside",
        "per_gpu: {0: {gpus: none}}",
        (1, 15),
        'per_gpu.0.gpus: unknown key "gpus"',
        "write `gpus: …` at the top",
    ),
    _row(
        "TF1 name",
        "gpu_memory_fraction: 0.5",
        (1, 1),
        "unknown key",
        "write `memory: {per_process_gpu_memory_fraction: …}`",
    ),
    _row("short name", "memory: {fraction: 0.5}", (1, 10), "unknown", "per_process_gpu_memory_f"),
    _row("variable as key", 'CUDA_VISIBLE_DEVICES: "0"', (1, 1), "unknown key", "write `gpus`"),
    _row("nothing alike", "zzz: 1", (1, 1), "unknown key", "the keys here: description, extends"),
    _row("a section is a flag", "memory: true", (1, 9), "a mapping of keys", "write `memory: {"),
    _row("a section is a list", "jax: [a]", (1, 6), "found a list", "write `jax: {preallocate"),
    _row(
        "no space after the colon",
        "memory:\n  allow_growth:true\n",
        (2, 3),
        'found "allow_growth:true"',
        "a space after the colon",
    ),
]
FLAGS = [
    _row("flag 1", "memory: {allow_growth: 1}", (1, 24), "true or false", "allow_growth: true"),
    _row("flag 0", "jax: {preallocate: 0}", (1, 20), "true or false", "write `preallocate: false`"),
    _row("flag in quotes", 'memory: {allow_growth: "true"}', (1, 24), "in quotes", "h: true`"),
    _row("flag word", "torch: {expandable_segments: maybe}", (1, 30), '"maybe"', "segments: true"),
    _row("flag list", "memory: {allow_growth: [on]}", (1, 24), "found a list", "growth: true"),
]
FRACTIONS = [
    _row(
        "above 1", FRACTION % "1.5", (1, 43), 'found "1.5"; the rule: a number above 0', "unified"
    ),
    _row("percent without sign", FRACTION % "70", (1, 43), '"70"', "write 70% or 0.7"),
    _row("huge", FRACTION % "7e30", (1, 43), '"7e30"', "unified memory"),
    _row("overflow", FRACTION % "1e999", (1, 43), '"1e999"', "write 0.7"),
    _row("zero", FRACTION % "0", (1, 43), '"0"', "write null"),
    _row("negative", FRACTION % "-0.5", (1, 43), '"-0.5"', "write 0.7 for 70 %"),
    # NaN is not JSON, and no bound of JSON Schema excludes it
    _row("NaN", FRACTION % ".nan", (1, 43), '".nan"', "a finite number", schema=False),
    _row("infinite", FRACTION % "-.inf", (1, 43), '"-.inf"', "write a finite number"),
    _row("in quotes", FRACTION % '"0.7"', (1, 43), "in quotes", "without quotes"),
    _row("words", FRACTION % "a lot", (1, 43), '"a lot"', "write 0.7"),
    _row("a size", FRACTION % "4GiB", (1, 43), '"4GiB"', "write 0.7"),
    _row("120 percent", FRACTION % "120%", (1, 43), '"120%"', "write 0.7"),
]
SIZES = [
    _row("MB without unit", LIMIT % "4096", (1, 24), 'found "4096"', "write 4096MiB or 4096GiB"),
    _row("bytes without unit", LIMIT % "6442450944", (1, 24), "unit", "write 6GiB if these are"),
    _row("a fraction", LIMIT % "0.5", (1, 24), "unit", "write 50% for a share, or 0.5GiB"),
    _row("negative size", LIMIT % "-4GiB", (1, 24), "not negative", "keep_free"),
    _row("negative number", LIMIT % "-4", (1, 24), "not negative", "write 6GiB"),
    _row("half a unit", LIMIT % "6G", (1, 24), "unit", "write 6GiB (1024s) or 6GB (1000s)"),
    _row("a comma", "memory:\n  memory_limit: 6,5GiB", (2, 17), '"6,5GiB"', "write 6.5GiB"),
    _row("zero size", LIMIT % "0GiB", (1, 24), "at least 1MiB", "null for no such rule"),
    _row("zero share", LIMIT % "0%", (1, 24), "at least 1MiB", "null for no such rule"),
    _row("170 percent", LIMIT % "170%", (1, 24), "from 0% to 100%", "write 70%"),
    _row("exabytes", LIMIT % "99999999TiB", (1, 24), "at most 1 PiB", "write 6GiB", schema=False),
    _row("NaN size", LIMIT % ".nan", (1, 24), '".nan"', "write 6GiB"),
    _row("list of sizes", LIMIT % "[4GiB]", (1, 24), "found a list", "write `memory_limit: 6GiB`"),
    _row("nothing", LIMIT % "", (1, 23), "found no value", "`memory_limit: null`", schema=False),
    _row(
        "a thousand digits",
        LIMIT % ("9" * 1000 + "GiB"),
        (1, 24),
        'found "99999999',
        "write 6GiB",
        schema=False,
    ),
    _row(
        "share of nothing",
        "tensorflow: {cudnn_workspace_limit: 50%}",
        (1, 37),
        '"50%"',
        "write a size",
    ),
    _row(
        "workspace below a MiB",
        "tensorflow: {cudnn_workspace_limit: 0MiB}",
        (1, 37),
        "at least 1MiB",
        "write 256MiB",
    ),
    _row(
        "all of the limit",
        "torch: {garbage_collection_threshold: 100%}",
        (1, 39),
        "below 1",
        "write `garbage_collection_threshold: 0.8`",
    ),
    _row(
        "blocks that PyTorch splits anyway",
        "torch: {max_split_size: 20MiB}",
        (1, 25),
        "at least 21MiB",
        "write 128MiB",
        schema=False,
    ),
]
CONTROLS = [
    _row(
        f"{name} in {key}",
        f'{key}: "a{escape}b"',
        (1, len(key) + 3),
        f"{key}: found ",
        "delete it",
    )
    for key in ("description", "extends")
    for name, escape in [
        *(("ESC", r"\e[31m"), ("NUL", r"\0"), ("CSI", r"\x9b"), ("DEL", r"\x7f")),
        *(("return", r"\r"), ("bell", r"\a"), ("right to left", r"\u202e")),
    ]
]
CHOICES = [
    _row(
        "allocator", "tensorflow: {allocator: cuda_async}", (1, 25), "one of", "cuda_malloc_async"
    ),
    _row("session", "tensorflow: {session: {a: 1}}", (1, 23), "found a mapping", "session: auto"),
    _row("shortage off", SHORTAGE % "off", (1, 23), '"off"', "write `on_shortage: fail`"),
    _row("shortage misspelt", SHORTAGE % "fial", (1, 23), '"fial"', "write `on_shortage: fail`"),
    _row("wait without time", SHORTAGE % "wait", (1, 23), '"wait"', "{wait: 10min}"),
    _row("wait without unit", SHORTAGE % "{wait: 10}", (1, 30), "unit", "write 10s or 10min"),
    _row("wait for nothing", SHORTAGE % "{wait: 0s}", (1, 30), "longer", "on_shortage: fail"),
    _row("wait negative", SHORTAGE % "{wait: -1h}", (1, 30), "duration", "write 10min"),
    _row("wait a year", SHORTAGE % "{wait: 9000h}", (1, 30), "7 days", "write", schema=False),
    _row("wait for ever", SHORTAGE % "{wait: always}", (1, 30), "forever, or a", "write 10min"),
    _row("wait Forever", SHORTAGE % "{wait: Forever}", (1, 30), "forever, or a", "write forever"),
    _row("forever alone", SHORTAGE % "forever", (1, 23), '"forever"', "{wait: forever}"),
    _row("lease what", "memory: {lease: 4GiB}", (1, 17), '"4GiB"', "write `lease: true`"),
    _row("lease as a list", "memory: {lease: [on]}", (1, 17), "found a list", "lease: true"),
    _row("context without unit", "memory: {context: 600}", (1, 19), "unit", "write 600MiB"),
    _row("context too small", "memory: {context: -1MiB}", (1, 19), "not negative", "write"),
    _row("wait misspelt", SHORTAGE % "{wiat: 1h}", (1, 24), "unknown key", "{wait: 10min}"),
    _row("wait, then", SHORTAGE % "{wait: 1h, then: cpu}", (1, 34), "unknown key", "{wait: 10min}"),
    _row("wait empty", SHORTAGE % "{}", (1, 23), "found a mapping", "on_shortage: fail"),
    _row(
        "wait in one line",
        "memory:\n  on_shortage: wait: 10min\n",
        (2, 20),
        "not YAML: mapping values",
        "braces: `on_shortage: {wait: 10min}`",
        schema=False,
    ),
]
GPUS = [
    _row("gpus 0", "gpus: 0", (1, 7), 'found "0"', "write `[0]` for GPU 0, or `none`"),
    _row("gpus 2", "gpus: 2", (1, 7), 'found "2"', "`{pick: most-free, count: 2}`"),
    _row("gpus 0,1", "gpus: 0,1", (1, 7), 'found "0,1"', "write `[0,1]`"),
    _row("gpus -1", "gpus: -1", (1, 7), 'found "-1"', "write `gpus: none`"),
    _row("gpus true", "gpus: true", (1, 7), 'found "true"', "write `gpus: all`"),
    _row("gpus off", "gpus: off", (1, 7), 'found "off"', "write `gpus: none`"),
    _row("gpus empty", "gpus: []", (1, 7), "found a list", "write `gpus: none`"),
    _row("gpus twice", "gpus: [0, 0]", (1, 7), "named once", "delete the repeated one"),
    _row("index negative", "gpus: [-1]", (1, 8), "gpus[0]", "write `gpus: none`"),
    _row("index broken", "gpus: [0, 1.5]", (1, 11), "gpus[1]", "nvidia-smi -L"),
    _row("index huge", "gpus: [1024]", (1, 8), '"1024"', "nvidia-smi -L"),
    _row("index in quotes", 'gpus: ["0"]', (1, 8), "in quotes", "write 0 without quotes"),
    _row("a UUID alone", "gpus: GPU-8f6c", (1, 7), "all, none", 'write `["GPU-8f6c"]`'),
    _row("a UUID with dots", "gpus: [GPU-8f6c...]", (1, 8), "UUID", "nvidia-smi -L"),
    _row("pick another", "gpus: {pick: fastest}", (1, 14), "most-free", "write `pick: most-free`"),
    _row("count 0", "gpus: {count: 0}", (1, 15), "from 1 to 1023", "write `count: 1`"),
    _row("pick unknown", "gpus: {cuont: 1}", (1, 8), "unknown key", "write `count`"),
    _row("per_gpu list", "per_gpu: [0]", (1, 10), "found a list", "write `per_gpu: {0:"),
    _row("per_gpu name", "per_gpu: {first: {}}", (1, 11), '"first"', "nvidia-smi -L"),
    _row(
        "per_gpu inside",
        "per_gpu:\n  1:\n    memory: {keep_free: 1}\n",
        (3, 25),
        "per_gpu.1.memory.keep_free",
        "write 100% for a share, or 1GiB",
    ),
    _row("devices 2", "virtual_devices: 2", (1, 18), '"2"', "write `virtual_devices: [50%, 50%]`"),
    _row("devices bare", "virtual_devices: [2]", (1, 19), "virtual_devices[0]", "2MiB or 2GiB"),
    _row(
        "devices too many",
        f"virtual_devices: [{', '.join(['1%'] * 65)}]",
        (1, 18),
        "at most 64",
        "write fewer",
    ),
]
ENVIRONMENT = [
    _row("owned", 'env: {CUDA_VISIBLE_DEVICES: "0"}', (1, 7), "gpuconf computes", "key `gpus`"),
    _row(
        "owned growth",
        "env:\n  TF_FORCE_GPU_ALLOW_GROWTH: true\n",
        (2, 3),
        "gpuconf computes",
        "key `memory.allow_growth`",
    ),
    _row(
        "owned by torch",
        "env: {PYTORCH_CUDA_ALLOC_CONF: a}",
        (1, 7),
        "gpuconf computes",
        "key `torch`",
    ),
    _row("own", "env: {GPUCONF_PROFILE: a}", (1, 7), "before any profile", "export GPUCONF_PROF"),
    *(
        _row(f"of the shell {name}", f"env: {{{name}: a}}", (1, 7), "no LD_…", f"export {name}=")
        for name in (
            *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PATH", "HOME"),
            *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHON_GIL"),
        )
    ),
    _row("of the shell, removed", "env: {LD_PRELOAD: null}", (1, 7), "no LD_…", "in the shell"),
    _row("name with =", "env: {A=B: c}", (1, 7), '"A=B" is not a name', "correct the name"),
    _row("name with NUL", 'env: {"A\\0B": c}', (1, 7), r'"A\x00B" is not a name', "correct"),
    _row("name with a digit first", "env: {1A: c}", (1, 7), "no digit first", "correct"),
    _row("value with NUL", 'env: {A: "b\\0c"}', (1, 10), "no NUL", "plain text", schema=False),
    _row("value with ESC", 'env: {A: "b\\e[0m"}', (1, 10), "no control", "delete it", schema=False),
    _row("half a pair", 'env: {A: "\\ud800"}', (1, 10), "surrogate", "plain text", schema=False),
    _row("value missing", "env: {A: }", (1, 9), "found no value", 'write ""', schema=False),
    _row("value list", "env: {A: [1]}", (1, 10), "found a list", 'write `A: "1"`'),
    _row("list of settings", "env: [A=1]", (1, 6), "found a list", "TF_CPP_MIN_LOG_LEVEL"),
]
EXTENDS = [
    _row("unknown", "extends: nosuch", (1, 10), "no profile named", "shared-desktop", schema=False),
    _row("nearly", "extends: shared_desktop", (1, 10), "no prof", "mean shared-d", schema=False),
    _row("no file", "extends: ./no.yaml", (1, 10), "not there", "this file's fol", schema=False),
    _row("two", "extends: [a, b]", (1, 10), "found a list", "write `extends: shared-desktop`"),
    _row("itself", "extends: bad.yaml", (1, 10), "extends itself", "delete", schema=False),
    _row("own name", "extends: bad", (1, 10), "extends itself", "delete", schema=False),
    _row("empty", "extends:", (1, 9), "found no value", "`extends: null`", schema=False),
]
COMBINATIONS = [
    _row(
        "devices without GPU",
        "gpus: none\nvirtual_devices: [50%, 50%]",
        (2, 18),
        "no GPU to cut",
        "`virtual_devices: null`",
    ),
    _row(
        "devices beyond the limit",
        "memory: {memory_limit: 3GiB}\nvirtual_devices: [2GiB, 2GiB]",
        (2, 18),
        "ask for 4GiB together, memory_limit is 3GiB (memory.memory_limit: line 1)",
        "`memory_limit: 4GiB`",
        schema=False,
    ),
    _row(
        "shares beyond the limit",
        "virtual_devices: [60%, 60%]",
        (1, 18),
        "ask for 120% of the GPU's limit",
        "[50%, 50%]",
        schema=False,
    ),
    _row(
        "at_least above the limit",
        "memory: {at_least: 4GiB, memory_limit: 2GiB}",
        (1, 20),
        "no more than 2GiB may be taken",
        "write `at_least: 2GiB` or less",
        schema=False,
    ),
    _row(
        "at_least above the fraction",
        "memory: {at_least: 80%, per_process_gpu_memory_fraction: 0.7}",
        (1, 20),
        "no more than 70%",
        "raise memory.per_process_gpu_memory_fraction",
        schema=False,
    ),
    _row(
        "keep everything",
        "memory: {keep_free: 100%}",
        (1, 21),
        "with keep_free 100% nothing of the card is left",
        "gpus: none",
        schema=False,
    ),
    _row(
        "keep or use everything beside",
        "memory: {keep_free: 60%, context: 40%}",
        (1, 21),
        "with keep_free 60% and context 40% nothing of the card is left",
        "gpus: none",
        schema=False,
    ),
    _row(
        "more than the card with a context",
        "memory: {context: 40%, at_least: 70%}",
        (1, 34),
        "at_least 70% and context 40% are more than the card",
        "lower one",
        schema=False,
    ),
    _row(
        "async with a context",
        "memory: {context: 1GiB}\ntensorflow: {allocator: cuda_malloc_async}",
        (2, 25),
        "takes more than context says",
        "write `allocator: bfc`",
    ),
    _row(
        "more than the card",
        "memory: {keep_free: 40%, at_least: 70%}",
        (1, 36),
        "more than the card",
        "lower one",
        schema=False,
    ),
    _row(
        "async with a limit",
        "memory: {memory_limit: 3GiB}\ntensorflow: {allocator: cuda_malloc_async}",
        (2, 25),
        "takes more than memory_limit says",
        "write `allocator: bfc`",
    ),
    _row(
        "async with devices",
        "virtual_devices: [1GiB]\ntensorflow: {allocator: cuda_malloc_async}",
        (2, 25),
        "takes more than virtual_devices says",
        "null for virtual_devices",
    ),
    _row(
        "async with a limit on one GPU",
        "per_gpu: {0: {memory: {memory_limit: 3GiB}}}\ntensorflow: {allocator: cuda_malloc_async}",
        (2, 25),
        "(per_gpu.0.memory.memory_limit: line 1)",
        "write `allocator: bfc`",
        schema=False,
    ),
]
YAML_FORM = [
    _row(name, text, at, says, hint, schema=False)
    for name, text, at, says, hint in [
        ("nothing", "", (1, 1), "the file says nothing", "extends: shared-desktop"),
        ("comments only", "# nothing\n", (1, 1), "the file says nothing", "`{}`"),
        ("null", "null\n", (1, 1), "the file says nothing", "`{}`"),
        ("document of nothing", "---\n...\n", (2, 1), "the file says nothing", "`{}`"),
        ("a list", "- memory\n", (1, 1), "holds a list", "write keys with values"),
        ("a text", "allow_growth\n", (1, 1), "holds one text", "write keys with values"),
        (
            "two documents",
            "gpus: all\n---\njax: {}\n",
            (2, 1),
            "second document",
            "file of its own",
        ),
        ("key twice", "memory: {}\nmemory: {}\n", (2, 1), "twice, first in line 1", "delete one"),
        ("inner twice", "env:\n  A: 1\n  A: 2\n", (3, 3), "env.A: written twice", "delete one"),
        ("quoted twice", "per_gpu: {0: {}, '0': {}}", (1, 18), "per_gpu.0: written", "delete one"),
        ("tab before", "memory:\n\tallow_growth: true\n", (2, 1), "not YAML", "use spaces"),
        ("tab between", "gpus:\tall\n", (1, 6), "not YAML", "use spaces"),
        ("open brace", "memory: {allow_growth: true\n", (1, 9), "not YAML", "close the mapping"),
        ("open bracket", "gpus: [0, 1\n", (1, 7), "not YAML", "close the list with ]"),
        ("open quotes", 'description: "open\n', (1, 14), "not YAML", "close the quotes"),
        ("at sign", "description: @here\n", (1, 14), "not YAML", "put the text in quotes"),
        ("indentation", "memory:\n    a: 1\n  b: 2\n", (3, 3), "not YAML", "indent with two"),
        ("two colons", "description: Note: x\n", (1, 18), "not YAML", '`description: "Note: x"`'),
        ("escape", 'description: "\\q"\n', (1, 16), "unknown escape", "use single quotes"),
        ("escape for nobody", 'description: "\\UFFFFFFFF"\n', (1, 17), "escape", "the character"),
        (
            "long tag",
            f"gpus: !{'a' * 5000}!b c\n",
            (1, 7),
            "undefined tag handle",
            "delete the tag",
        ),
        ("bell", "description: a\x07b\n", (1, 15), "control character U+0007", "delete it"),
        ("line separator", "# a\u2028gpus: none\n", (1, 4), "U+2028", "ordinary line feed"),
        ("version", "%YAML 3.0\n---\ngpus: all\n", (1, 1), "incompatible", "%YAML"),
        ("merge key", "jax: {<<: {preallocate: on}}\n", (1, 7), "merge key <<", "extends: NAME"),
        ("list as key", "? [a]\n: b\n", (1, 3), "used as a key", "a key is one word"),
        ("unknown alias", "gpus: *all\n", (1, 7), 'alias "*all" is not', "in quotes"),
        ("anchor", "gpus: &a all\n", (1, 7), 'anchor "&a" is not', "the value out"),
        ("alias in itself", "gpus: &a [*a]\n", (1, 7), 'anchor "&a" is not', "the value out"),
        (
            "many aliases",
            "a: &a x\nb: [" + "*a, " * 65 + "]\n",
            (1, 4),
            'anchor "&a" is not read',
            "write the value out",
        ),
        (
            "alias bomb",
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{name}: &{name} [{', '.join(['*' + below] * 10)}]\n"
                for below, name in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            (1, 4),
            'anchor "&a" is not read',
            "write the value out",
        ),
        ("brackets", "gpus: " + "[" * 10_000, (1, 27), "deeper than 20 levels", "6 levels"),
        ("braces", "{a: " * 10_000, (1, 82), "deeper than 20 levels", "6 levels"),
        ("many values", "env: [" + "a, " * 6000 + "]", (1, 14998), "more than 5000", "30 lines"),
    ]
]
CODE = [
    _row(name, text, at, "nothing was executed", "plain text", schema=False)
    for name, text, at in [
        ("apply", "gpus: !!python/object/apply:os.system ['touch %MARKER%']\n", (1, 7)),
        ("new", "gpus: !!python/object/new:os.system ['touch %MARKER%']\n", (1, 7)),
        ("object", "!!python/object:pathlib.Path {}\n", (1, 1)),
        ("name", "memory: !!python/name:os.system\n", (1, 9)),
        ("module", "env: {A: !!python/module:antigravity }\n", (1, 10)),
        ("tuple", "gpus: !!python/tuple [0]\n", (1, 7)),
        ("tag of the file", "%TAG ! tag:yaml.org,2002:python/\n---\ngpus: !none x\n", (3, 7)),
        ("local tag", "memory: !include other.yaml\n", (1, 9)),
        ("timestamp", "description: !!timestamp 2020-01-01\n", (1, 14)),
        ("binary", "description: !!binary aGk=\n", (1, 14)),
        ("set", "!!set {a, b}\n", (1, 1)),
        ("map that is a text", "description: !!map text\n", (1, 14)),
    ]
]
BYTES = [
    BadProfile(name, content, *at, says, hint, schema_rejects=False)
    for name, content, at, says, hint in [
        ("UTF-16", "gpus: all\n".encode("utf-16"), (1, 1), "UTF-16", "iconv -f UTF-16"),
        ("UTF-16 BE", b"\xfe\xff\x00g", (1, 1), "UTF-16", "iconv -f UTF-16"),
        ("UTF-32", "gpus: all\n".encode("utf-32"), (1, 1), "UTF-32", "iconv -f UTF-32"),
        ("Latin-1", b"gpus: all\ndescription: gr\xfcn\n", (2, 16), "0xfc", "iconv -f ISO-8859-1"),
        ("UTF-8 with a mark", b"\xef\xbb\xbfgpus: 0\n", (1, 7), 'found "0"', "write `[0]`"),
        ("ELF", b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe", (1, 10), "binary", "the right file"),
        ("NUL", b"gpus: all\n\x00\n", (2, 1), "control character U+0000", "delete it"),
        ("10 MB", b"# " + b"x" * 10_000_000, (1, 1), "10000002 bytes", "the right file"),
        ("257 KiB", b"#" * (256 * 1024 + 1), (1, 1), "at most 262144 (256 KiB)", "right file"),
    ]
]
SECTIONS = {
    "keys": KEYS,
    "flags": FLAGS,
    "fractions": FRACTIONS,
    "sizes": SIZES,
    "controls": CONTROLS,
    "choices": CHOICES,
    "gpus": GPUS,
    "environment": ENVIRONMENT,
    "extends": EXTENDS,
    "combinations": COMBINATIONS,
    "yaml": YAML_FORM,
    "code": CODE,
    "bytes": BYTES,
}
BAD_PROFILES = [
    row._replace(name=f"{section}: {row.name}")
    for section, rows in SECTIONS.items()
    for row in rows
]
