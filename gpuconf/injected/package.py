"""Makes the gpuconf that started a program importable, if the program's Python has none."""

import os


class OurPackage(object):
    """Finds ``gpuconf`` in the folder ``package``, and nothing else.

    The rest of another Python's site-packages must not become importable.
    """

    def __init__(self, package):
        self._package = package

    def find_spec(self, name, _path=None, _target=None):
        if name != "gpuconf":
            return None
        from importlib.util import spec_from_file_location

        file = os.path.join(self._package, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[self._package])
