"""What counts as the mention of a file in a prompt, and what does not."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.context.mentions import Mention, parse_mentions, parse_place

NAMES = st.text(alphabet=string.ascii_letters + string.digits + "_-.()[]é", min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("fix @src/app.py", [Mention("src/app.py")]),
        ("@Makefile and @src", [Mention("Makefile"), Mention("src")]),
        (
            "look (see @src/app.py), then @b.py: go. Is it @c.py?!",
            [*map(Mention, ("src/app.py", "b.py", "c.py"))],
        ),
        ("@app/(auth)/[slug]/page.tsx.", [Mention("app/(auth)/[slug]/page.tsx")]),
        ("@a.py,@b.py;@c.py", [*map(Mention, ("a.py", "b.py", "c.py"))]),
        ("`@a.py`, '@b.py' and @c.py's end", [*map(Mention, ("a.py", "b.py", "c.py"))]),
        ("@a.py:10-40, @b.py:7.", [Mention("a.py", 10, 40), Mention("b.py", 7, 7)]),
        ('@"with blanks.txt" @"x y.py":3-9', [Mention("with blanks.txt"), Mention("x y.py", 3, 9)]),
        ("@a.py:9-3 and @b.py:0", [Mention("a.py"), Mention("b.py")]),
        ("@a.py twice: @a.py", [Mention("a.py")]),
        ("@src/ and @./src", [Mention("src/"), Mention("./src")]),
        ("一 @文件.py、then", [Mention("文件.py")]),
    ],
)
def test_path_after_an_at_is_a_mention(prompt: str, expected: list[Mention]) -> None:
    assert list(parse_mentions(prompt)) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "@",
        "@ src",
        "me@example.com",
        "a.b+c@d-e.org/x",
        "git@github.com:me/it.git",
        "@@x.py",
        "@... @, @)",
        "@''",
    ],
)
def test_addresses_and_lone_signs_are_no_mention(prompt: str) -> None:
    assert parse_mentions(prompt) == ()


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```"])
def test_code_fences_are_not_read(fence: str) -> None:
    prompt = f"@before.py\n{fence}python\n@inside.py\n~~~\n{fence}\n@after.py\n{fence}\n@never_closed.py"
    wanted = [Mention("before.py"), Mention("after.py")]
    assert [m for m in parse_mentions(prompt) if m.path != "~~~"] == wanted


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        *(("src/x", True), ("a.py", True), ("A.MD", True), ("/etc/passwd", True)),
        *(("dataclass", False), ("app.route", False), ("functools.cache", False), ("someone", False)),
    ],
)
def test_only_what_looks_like_a_path_is_certain(text: str, certain: bool) -> None:
    (mention,) = parse_mentions(f"@{text}")
    assert mention.certain is certain
    assert parse_place(text).certain is certain


@given(NAMES, NAMES)
def test_any_path_is_found_between_words(folder: str, name: str) -> None:
    path = f"{folder}/{name}_"
    assert parse_mentions(f"look at @{path} please") == (Mention(path),)


@given(
    st.text(
        alphabet=st.characters(blacklist_characters='"', blacklist_categories=("Cs", "Cc", "Zl", "Zp")),
        min_size=1,
    )
)
def test_any_quoted_path_comes_back(path: str) -> None:
    assert parse_mentions(f'read @"{path}".') == (Mention(path),)


@given(st.text(alphabet="@:\"'`~-./a1 \n()[]", max_size=80))
def test_no_prompt_breaks_it_and_no_mention_is_empty(prompt: str) -> None:
    for mention in parse_mentions(prompt):
        assert mention.path
        assert "\n" not in mention.path
        assert mention.first is None or 1 <= mention.first <= (mention.last or 0)
