"""``NamedTuple`` for what `import gpuconf.auto` loads: the same value types, without `typing`.

``typing.NamedTuple`` compiles every annotation once more, where annotations are text, as they are
in our modules: three times what a class costs here, and 40 classes are on the way.  `typing` itself
comes on top.  To type checkers this is ``typing.NamedTuple``, and they check what that would: the
order of fields and defaults, and that no method hides one of the tuple's.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  # re-exported
else:
    from collections import namedtuple

    class _Declaration(type):
        """Makes a namedtuple of a class body, with the methods that stand in it."""

        def __new__(cls, name, bases, body):
            if not bases:  # NamedTuple itself
                return super().__new__(cls, name, bases, body)
            module, fields = body.pop("__module__"), body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=module)
            made.__annotations__ = fields
            for attribute, value in body.items():
                setattr(made, attribute, value)
            return made

    class NamedTuple(metaclass=_Declaration):
        """The base of a value type: ``class Size(NamedTuple): width: int = 0``."""
