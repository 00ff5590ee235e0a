"""The first command of the README on machines that nobody has prepared: roots of Debian with
python3, python3-venv, git and ca-certificates, in which there is no compiler and nothing is
installed. `tox -e bare` runs this.

Each root is used as root and as another user, with a network and without. The roots take a
minute each to make; GENAI_HOST_TEST_ROOTS may name a folder in which they stay.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "python3,python3-venv,git,ca-certificates"
ASK = ["python3", "make.py", "ask", "What is the capital of France?"]
ANSWER = "The capital of France is Paris.\n"

ROOMS = ("api", "calls", "catalog", "config", "conversations", "errors", "tools", "usage", "util")
TOOLS = ["./plugins/genai-feature-agent", "./plugins/genai-feature-assistants"]
TOOLS += [
    "./plugins/genai-host-testing[internal]",
    "./plugins/genai-vendor-mock",
    "./plugins/genai-wire-anthropic",
    "./plugins/genai-wire-ollama",
    "./plugins/genai-wire-openai",
    "packaging",
    "pexpect",
]
TOOLS += ["pytest", "pytest-timeout", "pytest-xdist", "trustme"]

_UNWANTED = shutil.ignore_patterns(
    *(".*cache*", ".hypothesis", ".tox", ".venv", "*.egg-info", "__pycache__", "node_modules"),
    *("build", "dist"),  # where tests beside these build wheels
)
_INSIDE = """
mount -t proc proc "$1/proc" && mount -t devpts -o ptmxmode=666 devpts "$1/dev/pts" &&
    exec chroot --userspec="$2" "$1" env -i "${@:3}"
"""


_MAKERS = {
    # a mirror can be older than its files are valid, which debootstrap does not check either
    "mmdebstrap": ['--aptopt=Acquire::Check-Valid-Until "false"'],
    "debootstrap": [],  # takes twice as long
}
"""Programs that make roots, and their options."""


def _maker() -> str:
    return next(filter(shutil.which, _MAKERS), "mmdebstrap")


def _what_is_missing() -> str:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "roots are made by root, on Linux"
    for program in (_maker(), "unshare", "chroot"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode:
        return "this system makes no namespaces"
    return ""


pytestmark = [
    pytest.mark.skipif(bool(_what_is_missing()), reason=_what_is_missing() or "-"),
    pytest.mark.timeout(900),
]


class BareRoot:
    """A root of Debian, with a clone for each of its users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **_of_the_network(folder)}

    def clone(self, user: str) -> None:
        clone = self.home(user) / "clone"
        shutil.copytree(ROOT, clone, ignore=_UNWANTED, symlinks=True)
        self._chroot("chown", "-R", f"{user}:{user}", f"/{clone.relative_to(self.folder)}")

    def run(
        self, user: str, *command: str, network: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone of a user, and nothing of this machine but its network."""
        home = f"/{self.home(user).relative_to(self.folder)}"
        given = {**self.variables, "HOME": home, **variables}
        inside = f"cd ~/clone && exec {shlex.join(command)}"
        return subprocess.run(
            [
                *("unshare", "--mount", *([] if network else ["--net"])),
                *("bash", "-c", _INSIDE, "bash", str(self.folder), f"{user}:{user}"),
                *(f"{name}={value}" for name, value in given.items()),
                *("bash", "-c", inside),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def home(self, user: str) -> Path:
        return self.folder / "root" if user == "root" else self.folder / "home" / user

    def _chroot(self, *command: str) -> None:
        subprocess.run(["chroot", str(self.folder), *command], check=True, capture_output=True)

    def add_user(self, user: str) -> None:
        self._chroot("useradd", "--create-home", user)


def _of_the_network(folder: Path) -> dict[str, str]:
    """How this machine reaches an index of packages, for pip in a root: its name servers, its
    certificates, its proxies."""
    for file in ("/etc/resolv.conf", "/etc/hosts"):
        if os.path.exists(file):
            shutil.copy(file, folder / "etc")
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    )
    variables = {
        name: os.environ[name]
        for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
        if name in os.environ
    }
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        key, value = key.rpartition(".")[2], value.strip("'\"")
        if key in ("index-url", "proxy", "trusted-host", "default-timeout"):
            variables[f"PIP_{key.upper().replace('-', '_')}"] = value
        elif key == "cert":
            shutil.copy(value, folder / "etc" / "machine.crt")
            variables["PIP_CERT"] = "/etc/machine.crt"
    return variables


@pytest.fixture(scope="session")
def made() -> Iterator[Callable[[str], BareRoot]]:
    """Makes the root of a release of Debian, once."""
    kept = os.environ.get("GENAI_HOST_TEST_ROOTS")
    roots: dict[str, BareRoot] = {}
    with tempfile.TemporaryDirectory(prefix="genai-host-roots-") as scratch:

        def make(release: str) -> BareRoot:
            if release not in roots:
                folder = Path(kept or scratch) / release
                if not (folder / "etc" / "is-made").exists():
                    _make_root(release, folder)
                    (folder / "etc" / "is-made").touch()
                roots[release] = BareRoot(folder)
            return roots[release]

        yield make


def _make_root(release: str, folder: Path) -> None:
    mirror = os.environ.get("GENAI_HOST_TEST_DEBIAN", "http://deb.debian.org/debian")
    maker = _maker()
    command = [maker, *_MAKERS[maker], "--variant=minbase", f"--include={PACKAGES}"]
    done = subprocess.run([*command, release, str(folder), mirror], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()[-1:]
        pytest.skip(f"{maker} makes no root of {release}: {reason}")


@pytest.fixture
def user_in(made: Callable[[str], BareRoot]) -> Iterator[Callable[[str, str], BareRoot]]:
    """A root with a clone for a user; what came into the user's home is gone afterwards."""
    folders: list[Path] = []

    def clean() -> None:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def prepare(release: str, user: str) -> BareRoot:
        root = made(release)
        if not root.home(user).exists():
            root.add_user(user)
        folders.extend(root.home(user) / name for name in ("clone", ".cache", ".local"))
        clean()
        root.clone(user)
        return root

    yield prepare
    clean()


@pytest.mark.parametrize(
    ("release", "user"), [("bookworm", "root"), ("trixie", "someone"), ("sid", "someone")]
)
def test_item_1_readme(user_in: Callable[[str, str], BareRoot], release: str, user: str) -> None:
    root = user_in(release, user)

    offline = root.run(user, *ASK, network=False)
    assert (offline.returncode, offline.stdout) == (1, "")
    began, message, step = offline.stderr.splitlines()
    assert began == "installing into .venv, once:"
    assert message == "error: the package index cannot be reached"
    assert step.startswith("  check the network")

    first = root.run(user, *ASK)
    assert (first.returncode, first.stdout) == (0, ANSWER), first.stderr
    assert "  downloading xllamacpp " in first.stderr
    assert "Downloading the weights of smollm2-135m (98.4 MB)\n" in first.stderr

    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"), "nonsense")
    second = root.run(user, *ASK, network=False, **keys)
    assert (second.returncode, second.stdout, second.stderr) == (0, ANSWER, "")

    if release == "sid":
        _the_tests_pass(root, user)


def _the_tests_pass(root: BareRoot, user: str) -> None:
    """Those of the rooms that need no more than the host, on the newest Python, 3.14."""
    python = [".venv/bin/python", "-m"]
    version = root.run(user, ".venv/bin/python", "--version").stdout
    if not version.startswith("Python 3.14."):
        pytest.skip(f"Debian sid has {version.strip()}, and these are the tests of 3.14")
    installed = root.run(user, *python, "pip", "install", "--quiet", *TOOLS)
    assert installed.returncode == 0, installed.stderr
    options = ["-q", "-n", "2", "--rings=unit,part,smoke", "-k", "not postgresql"]
    rooms = [f"tests/{room}" for room in ROOMS]
    done = root.run(user, *python, "pytest", *options, *rooms)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
