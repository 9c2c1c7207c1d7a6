"""``NamedTuple`` for the modules that `import gpuconf.auto` loads, without importing `typing`.

``typing.NamedTuple`` and ``collections.namedtuple`` compile a constructor for each class, and
typing also compiles each annotation.  That costs ten times as much as a class here, and the import
defines 30 classes.  Here all classes share one constructor.  Type checkers see
``typing.NamedTuple`` and check the same rules: the order of fields and defaults, and that no method
hides one of the tuple's.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing.TYPE_CHECKING would import typing
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  # re-exported
else:
    try:  # the way `collections` reads a namedtuple's fields
        from _collections import _tuplegetter as _field
    except ImportError:
        from operator import itemgetter

        def _field(place, doc):
            return property(itemgetter(place), doc=doc)

    class _Signature:
        """A value type's signature, created on request."""

        def __get__(self, _, cls):
            from inspect import Parameter, Signature

            declared = next(each for each in cls.__mro__ if "_fields" in vars(each))
            hints, defaults = declared.__annotations__, cls._field_defaults
            return Signature(
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=defaults.get(name, Parameter.empty),
                    annotation=hints[name],
                )
                for name in cls._fields
            )

    class _Value:
        """The members of every value type; the names are those of a namedtuple."""

        __slots__ = ()
        __signature__ = _Signature()

        def __new__(cls, /, *values, **named):
            if named or len(values) != len(cls._fields):
                values = _in_order(cls, values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **named):
            return type(self)(**{**self._asdict(), **named})

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self))  # noqa: B905  # same length by construction

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(shown)})"

        def __getnewargs__(self):
            return tuple(self)

    _OF_A_CLASS = ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__")
    _METHODS = {name: each for name, each in vars(_Value).items() if name not in _OF_A_CLASS}

    def _in_order(cls, values, named):
        """Return all fields' values; raise TypeError for missing, repeated or unknown ones."""
        fields = cls._fields
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} has {len(fields)} fields, not {len(values)}")
        rest = {**cls._field_defaults, **named}
        for name in fields[: len(values)]:
            if name in named:
                raise TypeError(f"{cls.__name__}: {name!r} is given twice")
            rest.pop(name, None)
        missing = [name for name in fields[len(values) :] if name not in rest]
        if missing:
            raise TypeError(f"{cls.__name__}: no value for {', '.join(missing)}")
        values = (*values, *map(rest.pop, fields[len(values) :]))
        if rest:
            raise TypeError(f"{cls.__name__} has no field {', '.join(rest)}")
        return values

    class _Declaration(type):
        """Creates a tuple class from a class body, including the methods defined in it."""

        def __new__(cls, name, bases, body):
            if not bases:  # NamedTuple itself
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            readers = {field: _field(place, field) for place, field in enumerate(fields)}
            known = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return type(name, (tuple,), {**_METHODS, **body, **known, **readers})

    class NamedTuple(metaclass=_Declaration):
        """The base of a value type: ``class Size(NamedTuple): width: int = 0``."""
