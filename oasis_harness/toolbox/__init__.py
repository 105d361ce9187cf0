"""The tools we ship for an agent that works on files: read, list, search, write, edit, run.

Every path is relative to one workspace, in what the model sends and in what it reads back; a path that leads out is
refused. Results are bounded, sorted and free of clocks and host names. Nothing here asks for permission (the loop
does, by each tool's effect). Commands are confined where the system can do that: they write in the workspace and the
temp folder only and have no network, but read what the user can read.
"""

from collections.abc import Iterable
from pathlib import Path

from oasis_harness.registry import Effect, Tools

from .confined import Sandbox
from .files import FileTools
from .search import SearchTools
from .shell import ShellTools
from .workspace import Workspace

__all__ = ["Sandbox", "Workspace", "workspace_tools"]


def workspace_tools(
    root: str | Path,
    *,
    pass_environment: Iterable[str] = (),
    sandbox: Sandbox | str = Sandbox.AUTO,
    has_network: bool = False,
    protected: Iterable[str | Path] = (),
) -> Tools:
    """Return the six tools, bound to the folder `root`.

    Args:
        root: The workspace.
        pass_environment: Names of variables that commands see, beside PATH, HOME, LANG, LC_*, TERM, TMPDIR, USER,
            SHELL and VIRTUAL_ENV. No others reach them, and so no API keys.
        sandbox: What confines commands: `auto` takes bubblewrap, else Landlock, and says in the first result where
            neither works; `off` nothing; `bubblewrap` or `landlock` that one, or no command is run.
        has_network: Whether commands that are confined may reach the network.
        protected: Files and folders, existing or not, that are not written: the conversation's own file, skills. The
            folders of version control (.git, .hg, .svn) never are. Of the commands only bubblewrap holds back those of
            `protected` that exist.

    Raises:
        NotADirectoryError: `root` is not a folder.
        ValueError: There is no such sandbox.
    """
    workspace = Workspace(Path(root), tuple(map(Path, protected)))
    files = FileTools(workspace)
    commands = ShellTools(workspace, tuple(pass_environment), Sandbox(sandbox), has_network)
    tools = Tools()
    tools.add(files.read_file)
    tools.add(files.list_dir)
    tools.add(SearchTools(workspace).search)
    tools.add(files.write_file, effect=Effect.WRITE)
    tools.add(files.edit_file, effect=Effect.WRITE)
    tools.add(commands.shell, effect=Effect.EXECUTE)
    return tools
