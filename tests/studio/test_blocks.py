import io

from rich.console import Console

from lockstitch.state.events import AgentDiffPreview, DiffLine
from lockstitch.studio.blocks import call_text, diff_text, short_text
from lockstitch.studio.markdown import Answer


def test_long_results_show_head_and_tail():
    text = short_text([f"line {n}" for n in range(20)], "").plain
    assert text.split("\n") == [
        "line 0",
        "line 1",
        "line 2",
        "line 3",
        "... 14 more lines",
        "line 18",
        "line 19",
    ]


def test_long_arguments_are_cut_to_a_readable_call():
    text = call_text("write_file", {"path": "a", "content": "x\n" * 1000, "create_dirs": True})
    assert text.startswith(r"write_file path=a content=x\nx")
    assert text.endswith("… create_dirs=true")


def test_tabs_and_escapes_of_a_result_are_shown_safely():
    assert short_text(["\ta\x1b[2J"], "").plain == r"        a\x1b[2J"


def test_a_long_diff_says_how_much_is_left():
    lines = [DiffLine(line_number=n, type="add", content=f"line {n}\x1b") for n in range(1, 101)]
    event = AgentDiffPreview(
        call_id="a",
        file_path="x\x1b.py",
        change_type="create",
        diff_lines=lines,
        original_hash="",
        new_hash="",
    )
    shown = diff_text(event).plain.split("\n")
    assert shown[0] == r"create x\x1b.py  +100 -0"
    assert shown[1] == r"    1 + line 1\x1b"
    assert shown[-1] == "... 40 more lines"


def test_an_answer_loses_none_of_its_words():
    console = Console(file=io.StringIO(), width=80)
    console.print(Answer("A List<int> and <b>\n\n<div>tag</div>\n\n![picture](http://x/y.png) [red]\x1b[2J"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("List<int>", "<b>", "<div>tag</div>", "picture (http://x/y.png)", r"[red]\x1b[2J"):
        assert part in shown
