"""The project itself: direction of imports, no optional dependency, no trace of a machine."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import leanrnn

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "leanrnn"
FILES = sorted(PACKAGE.rglob("*.py"))
# A package imports only what stands before it; files of one folder import each other as they like.
ORDER = """errors environment layers groups running surgery discovery refitting penalties sparsify teaching deploy cost
integrations lab cli __main__""".split()
USERS = {"lab", "cli", "__main__"}
"""They use the library by its public names, as anybody would: those of ``leanrnn``, and what a package's own file
lists in ``__all__``."""
EXCEPTIONS: dict[str, str] = {}
"""Modules that ``lab`` and ``cli`` may reach into all the same, each with the reason."""


def unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Dotted names a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import; write the full name"
            # `from leanrnn import discover` imports the name's home
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", [p for p in FILES if unit(p) != "__init__"], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_backwards(path):
    assert unit(path) in ORDER, "a new package needs its place in ORDER"
    for name in imports(path):
        package, *rest = name.split(".")
        if package != "leanrnn":
            continue
        if not rest:
            assert unit(path) in USERS, "the package itself is for those who use it"
        elif rest[0] not in ORDER:
            assert rest[0] == "__version__" or unit(path) in USERS, f"{name}: inside the library, import from its home"
            assert rest[0] in (*leanrnn.__all__, "__version__"), f"{name} is not public"
        else:
            assert rest[0] == unit(path) or ORDER.index(rest[0]) < ORDER.index(unit(path)), f"imports {name}"


def at_the_top(path: Path) -> Iterator[str]:
    """Modules of the project that a file needs to be loaded: not those a function imports, or types alone."""
    for statement in ast.parse(path.read_bytes()).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                whole = PACKAGE.parent / Path(*statement.module.split("."), alias.name)
                inside = whole.with_suffix(".py").exists() or (whole / "__init__.py").exists()
                yield f"{statement.module}.{alias.name}" if inside else statement.module


def test_no_module_needs_itself():
    names = {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): p for p in FILES}
    needs = {name: {n for n in at_the_top(path) if n in names} - {name} for name, path in names.items()}
    while first := {name for name, others in needs.items() if not others}:
        needs = {name: others - first for name, others in needs.items() if name not in first}
    assert needs == {}, "these import each other, or stand behind some that do"


@pytest.mark.parametrize("path", [p for p in FILES if unit(p) in USERS], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_laboratory_and_commands_use_public_names(path):
    for name in imports(path):
        package, *rest = name.split(".")
        if package != "leanrnn" or not rest or rest[0] in USERS or rest[0] not in ORDER or name in EXCEPTIONS:
            continue
        home = import_module(f"leanrnn.{rest[0]}")
        assert len(rest) == 2 and rest[1] in home.__all__, f"{name} is not public: list it in {home.__name__}.__all__"


def test_exceptions_are_used():
    used = {name for path in FILES if unit(path) in USERS for name in imports(path)}
    assert set(EXCEPTIONS) <= used


def test_only_declared_packages_are_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    declared = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in texts}
    imported = {name.partition(".")[0] for path in FILES for name in imports(path)}
    assert imported - set(sys.stdlib_module_names) - {"leanrnn"} <= declared


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_takes_no_optional_dependency():
    blocked = (
        "onnx onnxscript onnxruntime openvino nncf optuna ray matplotlib pandas tensorboard lightning transformers"
    )
    run_python(
        f"import sys; sys.modules.update(dict.fromkeys({blocked.split()}))\n"
        "import leanrnn, leanrnn.lab.demo.demo, leanrnn.cli\n"
        "for name in leanrnn.__all__: getattr(leanrnn, name)"
    )


def test_command_line_starts_without_torch():
    loaded = run_python("import sys, leanrnn.cli; print({'torch', 'numpy', 'scipy'} & set(sys.modules))")
    assert loaded.strip() == "set()"


def test_public_list_is_what_can_be_had():
    assert sorted({*leanrnn._HOME_OF, "errors"}) == sorted(leanrnn.__all__)
    assert set(leanrnn.__all__) <= set(dir(leanrnn))
    assert issubclass(leanrnn.errors.GroupsError, leanrnn.errors.LeanRNNError)
    with pytest.raises(AttributeError, match="no attribute 'prune'"):
        _ = leanrnn.prune


def test_version_has_one_home():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {leanrnn.__version__}\n" in citation


def test_no_file_names_a_machine():
    # four numbers behind == are a version
    machine = re.compile(r"/(home|root|work|Users|opt)/\w|(?<!==)\b\d{1,3}(\.\d{1,3}){3}\b")
    folders = [ROOT / name for name in ("src", "tests", "tools", "docs", "benchmarks", "examples", "results", ".ci")]
    files = [p for p in ROOT.iterdir() if p.is_file()] + [p for folder in folders for p in folder.rglob("*.*")]
    texts = [p for p in files if p.suffix in {".py", ".md", ".toml", ".txt", ".json", ".cff", ".yml", ""}]
    texts = [p for p in texts if p.name != ".git"]  # a file in a work tree of git
    found = {str(p.relative_to(ROOT)): m[0] for p in texts if p.is_file() and (m := machine.search(p.read_text()))}
    assert found == {}
