"""The built-in tools: what they do inside the workspace, and that nothing leads out of it."""

import os
import stat
from pathlib import Path

import pytest

from runtime.loop import file_tools, write_tools
from runtime.loop.tools import BUILT_IN, Tools
from runtime.loop.workspace import MAX_FILE_BYTES, ToolFault, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a few files, and a secret beside it."""
    root = tmp_path / "ws"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "notes.txt").write_text("one\ntwo\nthree\n")
    (root / "src" / "main.py").write_text("import os\nprint('hello')\n")
    (root / "src" / "deep" / "util.py").write_text("def helper():\n    return 1\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "secret.txt").write_text("secret")
    return Workspace(root)


def test_a_file_is_read_whole_or_in_lines(workspace: Workspace) -> None:
    assert file_tools.read_file(workspace, "notes.txt") == "one\ntwo\nthree\n"
    assert file_tools.read_file(workspace, "notes.txt", 2, 1) == (
        "two\n[lines 2-2 of 3 of notes.txt; go on with start_line=3]"
    )
    assert file_tools.read_file(workspace, "data.bin").startswith("[data.bin is not text: 256 bytes")
    with pytest.raises(ToolFault, match="has 3 lines"):
        file_tools.read_file(workspace, "notes.txt", 9)


def test_a_long_file_is_read_in_pieces_that_join(workspace: Workspace) -> None:
    lines = [f"{number} " + "y" * 200 for number in range(5_000)]
    (workspace.root / "long.txt").write_text("\n".join(lines))
    text, start = "", 1
    while True:
        piece = file_tools.read_file(workspace, "long.txt", start)
        body, _, told = piece.rpartition("\n[")
        text += body + "\n"
        if "start_line=" not in told:
            break
        start = int(told.partition("start_line=")[2].rstrip("]"))
    assert text.splitlines() == lines


def test_files_are_found_by_path_and_by_content(workspace: Workspace) -> None:
    assert file_tools.list_files(workspace).splitlines() == ["data.bin  256 bytes", "notes.txt  14 bytes", "src/"]
    assert file_tools.glob(workspace, "**/*.py").splitlines() == ["src/deep/util.py", "src/main.py"]
    assert file_tools.glob(workspace, "*.py").startswith("[no file fits")
    assert file_tools.glob(workspace, "*.{txt,bin}").splitlines() == ["data.bin", "notes.txt"]
    assert file_tools.glob(workspace, "*.py", "src") == "src/main.py"
    assert (
        file_tools.grep(workspace, "^(t|d)") == "notes.txt:2:two\nnotes.txt:3:three\nsrc/deep/util.py:1:def helper():"
    )
    assert file_tools.grep(workspace, "HELLO", ignore_case=True, glob="**/*.py") == "src/main.py:2:print('hello')"
    assert file_tools.grep(workspace, "two", "notes.txt") == "notes.txt:2:two"
    with pytest.raises(ToolFault, match="not a regular expression"):
        file_tools.grep(workspace, "(")


def test_a_hostile_expression_takes_no_time(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("a" * 100_000)
    assert file_tools.grep(workspace, "(a+)+$|(a|aa)+b").startswith("a.txt:1:")


def test_version_control_and_caches_are_not_searched(workspace: Workspace) -> None:
    (workspace.root / ".git").mkdir()
    (workspace.root / ".git" / "config").write_text("two")
    assert ".git" not in file_tools.grep(workspace, "two")
    with pytest.raises(ToolFault, match="version control"):
        write_tools.write_file(workspace, ".git/hooks/pre-commit", "#!/bin/sh")


@pytest.mark.parametrize("path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "~/x/../../../etc/passwd"])
def test_paths_that_lead_out_are_refused(workspace: Workspace, path: str) -> None:
    for call in (
        lambda: file_tools.read_file(workspace, path),
        lambda: write_tools.write_file(workspace, path, "x"),
        lambda: write_tools.edit_file(workspace, path, "secret", "x"),
        lambda: file_tools.grep(workspace, "x", path),
        lambda: file_tools.list_files(workspace, path),
    ):
        with pytest.raises(ToolFault) as caught:
            call()
        assert caught.value.category in ("outside_workspace", "not_found")
    assert (workspace.root.parent / "secret.txt").read_text() == "secret"


def test_links_that_lead_out_are_refused_and_those_inside_are_followed(workspace: Workspace) -> None:
    root = workspace.root
    (root / "out").symlink_to(root.parent)
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (root / "in.txt").symlink_to(root / "notes.txt")
    for path in ("out/secret.txt", "out.txt"):
        with pytest.raises(ToolFault, match="outside the workspace"):
            file_tools.read_file(workspace, path)
        with pytest.raises(ToolFault, match="outside the workspace"):
            write_tools.write_file(workspace, path, "x")
    assert file_tools.read_file(workspace, "in.txt").startswith("one")
    assert file_tools.grep(workspace, "secret") == "[nothing fits secret]"
    assert file_tools.glob(workspace, "**/secret*") == "[no file fits **/secret*]"


def test_a_link_put_in_the_way_after_the_check_is_not_followed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, located = workspace.root, workspace.locate("src/main.py")
    (root / "src").rename(root / "moved")
    (root.parent / "main.py").write_text("outside")
    (root / "src").symlink_to(root.parent)
    monkeypatch.setattr(Workspace, "locate", lambda self, path: located)
    with pytest.raises(ToolFault, match="cannot be reached"):
        workspace.read("src/main.py")
    with pytest.raises(ToolFault, match="cannot be reached"):
        workspace.write("src/main.py", b"x")
    assert (root.parent / "main.py").read_text() == "outside"


def test_a_pipe_is_refused_at_once(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(ToolFault, match="no regular file"):
        file_tools.read_file(workspace, "pipe")


def test_the_runtimes_own_folder_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / ".tachograph").mkdir()
    (tmp_path / ".tachograph" / "control.token").write_text("t")
    tools = Tools(tmp_path, closed=(tmp_path / ".tachograph",))
    with pytest.raises(ToolFault, match="belongs to the runtime"):
        file_tools.read_file(tools.workspace, ".tachograph/control.token")
    assert file_tools.list_files(tools.workspace) == "[. is empty]"


def test_writing_is_whole_keeps_the_mode_and_leaves_no_drafts(workspace: Workspace) -> None:
    path = workspace.root / "src" / "main.py"
    path.chmod(0o755)
    told, change = write_tools.write_file(workspace, "src/main.py", "new\n")
    assert told == "updated src/main.py: 4 bytes, 1 lines"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    diff = change.diff()
    assert diff is not None
    assert diff[1:] == (1, 2)
    told, change = write_tools.write_file(workspace, "a/b/c.txt", "x")
    assert change.kind == "created"
    assert (workspace.root / "a" / "b" / "c.txt").read_text() == "x"
    assert not list(workspace.root.rglob("*.tmp"))
    with pytest.raises(ToolFault, match="at most"):
        write_tools.write_file(workspace, "big.txt", "x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ToolFault, match="is a folder"):
        write_tools.write_file(workspace, "src", "x")


def test_an_edit_needs_exactly_one_place(workspace: Workspace) -> None:
    (workspace.root / "twice.txt").write_text("a\nb\na\n")
    with pytest.raises(ToolFault, match=r"2 times \(lines 1, 3\)"):
        write_tools.edit_file(workspace, "twice.txt", "a", "c")
    with pytest.raises(ToolFault, match="its first line is on line 2"):
        write_tools.edit_file(workspace, "twice.txt", "b\nx", "c")
    write_tools.edit_file(workspace, "twice.txt", "a", "c", replace_all=True)
    assert (workspace.root / "twice.txt").read_text() == "c\nb\nc\n"
    (workspace.root / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    with pytest.raises(ToolFault, match="CRLF"):
        write_tools.edit_file(workspace, "crlf.txt", "a\nb", "c")


def test_an_edit_keeps_the_bytes_it_does_not_touch(workspace: Workspace) -> None:
    (workspace.root / "latin.txt").write_bytes(b"x" * 9_000 + b"\xe9 word\n")
    write_tools.edit_file(workspace, "latin.txt", "word", "other")
    assert (workspace.root / "latin.txt").read_bytes() == b"x" * 9_000 + b"\xe9 other\n"


def test_every_tool_has_an_entry_a_schema_and_a_description(workspace: Workspace) -> None:
    tools = Tools(workspace.root)
    entries = tools.entries(policy="ask", mode="interactive")
    assert [entry.tool_name for entry in entries] == [spec.name for spec in tools.specs()]
    assert len(entries) == len(BUILT_IN) == 8
    for entry in entries:
        assert entry.description
        assert entry.input_schema
        assert entry.input_schema["type"] == "object"
        assert list(entry.emission_problems()) == []
    assert {entry.tool_name for entry in entries if entry.policy == "ask"} == {"write_file", "edit_file"}
