"""What is loaded when: importing the package costs nothing, `--help` answers at once, only a model loads mlx."""

import json
import subprocess
import sys

HEAVY = {"mlx", "mlx_lm", "transformers", "jinja2", "numpy", "tokenizers", "tiktoken", "llguidance"}
AT_HOME = HEAVY | {"pydantic", "rich", "typer", "yaml"}

_HELP = """
import sys
from oasis_harness.cli.main import main
sys.argv = ["oasis", {words}]
try:
    main()
except SystemExit:
    pass
"""
_REPORT = "\nimport json, sys\nprint('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def loaded_by(source: str) -> set[str]:
    """Run `source` in a fresh process and return the top-level modules it has loaded."""
    done = subprocess.run([sys.executable, "-c", source + _REPORT], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return set(names)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """A test run that only uses the plugin, or a script that only reads __version__, pays for nothing."""
    assert loaded_by("import oasis_harness").isdisjoint(AT_HOME)


def test_help_loads_nothing_heavy() -> None:
    """The command line imports inside its commands."""
    assert loaded_by(_HELP.format(words="'--help'")).isdisjoint(HEAVY)


def test_the_help_of_a_command_loads_nothing_heavy() -> None:
    """Also below the first level."""
    assert loaded_by(_HELP.format(words="'run', '--help'")).isdisjoint(HEAVY)


def test_a_session_on_a_scripted_engine_needs_no_mlx() -> None:
    """The harness is whole without the extra `mlx`."""
    source = (
        "from oasis_harness import ScriptedEngine, Session\n"
        "assert Session(ScriptedEngine(['hello'])).send('hi').text == 'hello'"
    )
    loaded = loaded_by(source)
    assert loaded.isdisjoint({"mlx", "mlx_lm", "transformers", "llguidance", "huggingface_hub"})
    assert "jinja2" in loaded  # what this test can see at all


def test_the_door_of_embedded_loads_no_mlx() -> None:
    """A library for matrix products has to be loaded before mlx, so the door must not load mlx."""
    assert loaded_by("import oasis_harness.embedded").isdisjoint({"mlx", "mlx_lm", "transformers", "llguidance"})
