"""How a file is cut: whole definitions with their names, sections by heading, windows for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.tools.code_index.chunk import Chunk, split_words
from lockstitch.tools.code_index.chunking import CHUNKS_MAX, PIECE_LINES, WINDOW_LINES, chunks_of

PYTHON = '''import os

LIMIT = 3


class Store:
    """Keeps things."""

    size = 0

    # how it is filled
    @property
    def full(self) -> bool:
        def inner():
            return 1
        return self.size > LIMIT

    async def add(self, thing):
        self.size += 1


def top():
    return Store()
'''
SOURCES = {
    "a.js": ("class A {\n  run() { return 1 }\n}\nexport const go = () => { return 2 }\n", {"A.run", "go"}),
    "a.ts": ("interface I { x: number }\nexport class B { m(): void {} }\n", {"I", "B.m"}),
    "a.tsx": ("export function App() { return <div/> }\n", {"App"}),
    "a.go": ("package a\n\ntype T struct{ x int }\n\nfunc (t T) Get() int { return t.x }\n", {"Get"}),
    "a.rs": ("/// Doc.\npub struct P;\nimpl P {\n  fn new() -> P { P }\n}\n", {"P", "P.new"}),
    "A.java": ("class A {\n  A() {}\n  int get() { return 1; }\n}\n", {"A.A", "A.get"}),
    "a.c": ("struct p { int x; };\nstatic int *find(int a) { return 0; }\n", {"p", "find"}),
    "a.cpp": ("namespace n {\nclass C {\n  int f() { return 1; }\n};\n}\n", {"n.C.f"}),
    "a.cs": ("namespace N { class C { int F() { return 1; } } }\n", {"N.C.F"}),
    "a.rb": ("module M\n  class C\n    def go\n      1\n    end\n  end\nend\n", {"M.C.go"}),
    "a.php": (
        "<?php\nclass C { function go() { return 1; } }\nfunction top() { return 2; }\n",
        {"C.go", "top"},
    ),
    "a.sh": ("start() {\n  echo hi\n}\n", {"start"}),
}


def symbols(path: str, text: str) -> list[tuple[str, int, int]]:
    return [(chunk.symbol, chunk.first, chunk.last) for chunk in chunks_of(path, text)]


def test_functions_are_whole_with_their_decorators_and_comments() -> None:
    assert symbols("a.py", PYTHON) == [
        ("", 1, 3),
        ("Store", 6, 9),
        ("Store.full", 11, 16),
        ("Store.add", 18, 19),
        ("top", 22, 23),
    ]


@pytest.mark.parametrize("path", SOURCES)
def test_definitions_are_found_in_every_language(path: str) -> None:
    text, expected = SOURCES[path]
    assert expected <= {symbol for symbol, _, _ in symbols(path, text)}


def test_long_function_is_cut_and_every_part_keeps_its_name() -> None:
    text = "def long():\n" + "    x = 1\n" * 100
    assert symbols("a.py", text) == [("long", 1, PIECE_LINES), ("long", PIECE_LINES + 1, 101)]


def test_prose_is_cut_by_heading_but_not_inside_fenced_code() -> None:
    text = "Intro.\n\n# One\ntext\n```sh\n# no heading\n```\n\nTwo\n---\nmore\n"
    assert symbols("a.md", text) == [("", 1, 1), ("One", 3, 7), ("Two", 9, 11)]


def test_other_text_is_cut_into_windows_that_overlap() -> None:
    text = "".join(f"key{n} = {n}\n" for n in range(100))
    assert [(first, last) for _, first, last in symbols("a.conf", text)] == [(1, 40), (31, 70), (61, 100)]


def test_broken_code_is_cut_all_the_same() -> None:
    found = symbols("a.py", "def good():\n    return 1\n\n)))) class (((\n\ndef after(:\n    pass\n")
    assert ("good", 1, 2) in found
    assert found[-1][2] == 7


def test_million_lines_give_a_bounded_number_of_pieces() -> None:
    assert len(chunks_of("a.conf", "x\n" * 1_000_000)) == CHUNKS_MAX


def test_empty_and_blank_files_have_no_piece() -> None:
    assert [chunks_of(path, "\n \n") for path in ("a.py", "a.md", "a")] == [[], [], []]


@given(
    st.text(alphabet="ab#=-`(){}:\n \tdefclass", max_size=300), st.sampled_from(["a.py", "a.md", "a.js", "x"])
)
def test_every_line_that_says_something_is_in_a_piece(text: str, path: str) -> None:
    lines = text.split("\n")
    covered = {n for chunk in chunks_of(path, text) for n in range(chunk.first, chunk.last + 1)}
    told = {n for chunk in chunks_of(path, text) for n in [chunk.last - chunk.first]}
    assert all(n < max(PIECE_LINES, WINDOW_LINES) for n in told)
    missing = {n for n, line in enumerate(lines, 1) if any(map(str.isalnum, line))} - covered
    assert missing == set()


def test_heading_names_the_definition_then_its_holder_then_the_path() -> None:
    chunk = Chunk("http/cookie_jar.py", 1, 2, "CookieJar.setHTTPCookie", "x")
    assert chunk.heading == "set HTTP Cookie Cookie Jar http cookie jar"
    assert chunk.sense.startswith(chunk.heading)


def test_identifiers_are_split_at_case_digits_and_signs() -> None:
    assert split_words("getHTTPResponse_code2 größe") == [
        "get",
        "HTTP",
        "Response",
        "code",
        "2",
        "größe",
    ]
