"""One configuration of the authors' program: a main file that names a data set, a model and an output file."""

from dataclasses import dataclass
from pathlib import Path

from nesi.errors import NesiError
from nesi.legacy.ini import Section, read_ini

CONFIG_FOLDER = "config"
LINKED = {"DataSet": "dataset", "Model": "model", "Output": "output"}  # key of the main file -> folder


@dataclass(frozen=True)
class Configuration:
    """The four files, as they were read. Paths inside them are relative to `root`, which holds `config/`."""

    path: Path
    root: Path
    main: Section
    dataset: Section
    model: Section
    output: Section

    @property
    def name(self) -> str:
        """What the authors' program was called with, e.g. MNIST/r+-NeSi-L100."""
        config = self.root / CONFIG_FOLDER
        return (self.path.relative_to(config) if config in self.path.parents else self.path).with_suffix("").as_posix()

    def file(self, kind: str) -> str:
        """The linked file of that key, for sentences."""
        return str(_linked_file(self.path, kind, self.main[kind]))


def find_configuration(given: str, root: Path | None = None) -> Path:
    """The main file: a path, or a name below `config/` such as MNIST/r+-NeSi-L100."""
    base = root or Path.cwd()
    tried = [Path(given), Path(f"{given}.ini"), base / CONFIG_FOLDER / given, base / CONFIG_FOLDER / f"{given}.ini"]
    for candidate in tried:
        try:
            if candidate.is_file():
                return candidate.absolute()
        except (OSError, ValueError):
            break
    raise NesiError(f"{given}: no such configuration, neither as a file nor below {base / CONFIG_FOLDER}.")


def read_configuration(path: Path) -> Configuration:
    path = path.absolute()
    main = read_ini(path)
    linked = {}
    for key in LINKED:
        name = main.get(key)
        if not isinstance(name, str) or not name:
            said = "is missing" if key not in main else f"is {name!r}"
            raise NesiError(f"{path}: {key} {said}, but must name an ini file of the folder {LINKED[key]}/.")
        linked[key] = read_ini(_linked_file(path, key, name))
    return Configuration(path, _root(path), main, linked["DataSet"], linked["Model"], linked["Output"])


def _linked_file(path: Path, key: str, name: str) -> Path:
    return path.parent / LINKED[key] / f"{name}.ini"


def _root(path: Path) -> Path:
    for parent in path.parents:
        if parent.name == CONFIG_FOLDER:
            return parent.parent
    return path.parent
