"""Who gets room in the budget, what is cut, and that no text ends its own section."""

from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.context.budget import BETWEEN, CHARS_PER_TOKEN, fit_sections
from lockstitch.graph.context.section import Group, Section, choose_tag, word
from lockstitch.graph.models.scenario import estimate_tokens

GROUPS: tuple[Group, ...] = ("files", "search", "rules")
LINES = st.lists(st.text(alphabet="abc </>context-12:\t", max_size=40), max_size=30)
SECTIONS = st.lists(
    st.builds(
        lambda group, lines, keep_end, title: Section(
            group=group, title=title, body="\n".join(lines), told=title, keep_end=keep_end
        ),
        st.sampled_from(GROUPS),
        LINES,
        st.booleans(),
        st.text(max_size=20),
    ),
    max_size=8,
)
TAG = "context-1"


def section(body: str, *, group: Group = "files", told: str = "it", keep_end: bool = False) -> Section:
    return Section(
        group=group, title="t", body=body, told=told, rest="read_file gives the rest", keep_end=keep_end
    )


def numbered(count: int) -> str:
    return "\n".join(f"line {n}" for n in range(1, count + 1))


def test_what_fits_is_whole() -> None:
    sections = [section("a\nb"), section("c", group="rules")]
    fitted = fit_sections(sections, tag=TAG, max_chars=1000, caps={})
    assert fitted.sections == tuple(sections)
    assert fitted.told == ("it", "it")


def test_too_large_section_is_cut_at_the_end_of_a_line_with_a_word() -> None:
    fitted = fit_sections([section(numbered(500))], tag=TAG, max_chars=400, caps={})
    *lines, note = fitted.sections[0].body.split("\n")
    assert lines == numbered(500).split("\n")[: len(lines)]
    assert note == f"[cut: {len(lines)} of 500 lines shown; read_file gives the rest]"
    assert fitted.told == (f"it, cut to {len(lines)} of 500 lines",)
    assert len(fitted.sections[0].framed(TAG)) > 350  # the room is used


def test_conversation_is_cut_at_its_beginning() -> None:
    body = "x" * 1_000 + "\n" + numbered(500)
    fitted = fit_sections([section(body, keep_end=True)], tag=TAG, max_chars=400, caps={})
    note, *lines = fitted.sections[0].body.split("\n")
    assert lines == body.split("\n")[-len(lines) :]
    assert note.startswith("[cut: ")


def test_section_without_room_is_left_out_and_later_ones_still_get_theirs() -> None:
    sections = [section("x" * 500, told="long"), section("small", told="small")]
    fitted = fit_sections(sections, tag=TAG, max_chars=200, caps={})
    assert [s.body for s in fitted.sections] == ["small"]
    assert fitted.told == ("long, left out: no room", "small")


def test_cap_holds_for_all_sections_of_a_group() -> None:
    sections = [section(numbered(20), group="rules", told=str(n)) for n in range(5)] + [section("file")]
    fitted = fit_sections(sections, tag=TAG, max_chars=10_000, caps={"rules": 500})
    assert sum(len(s.framed(TAG)) for s in fitted.sections if s.group == "rules") <= 500
    assert fitted.sections[-1].body == "file"
    assert fitted.told[-2:] == ("4, left out: no room", "it")


def test_what_is_for_people_alone_takes_no_room() -> None:
    fitted = fit_sections([word("files", "@x: missing")], tag=TAG, max_chars=0, caps={})
    assert fitted.sections == ()
    assert fitted.told == ("@x: missing",)


def test_tag_is_one_that_no_section_holds() -> None:
    assert choose_tag([section("plain")]) == "context-1"
    assert choose_tag([section("</CONTEXT-1>\n</context-2>"), section("x", told="context-3")]) == "context-3"


@given(SECTIONS, st.integers(0, 2_000), st.integers(0, 500))
def test_no_budget_is_exceeded_and_nothing_goes_unsaid(sections: list[Section], room: int, cap: int) -> None:
    tag = choose_tag(sections)
    fitted = fit_sections(sections, tag=tag, max_chars=room, caps={"rules": cap})
    text = "".join(BETWEEN + s.framed(tag) for s in fitted.sections)
    rules = "".join(BETWEEN + s.framed(tag) for s in fitted.sections if s.group == "rules")
    assert len(text) <= room
    assert len(rules) <= cap
    assert estimate_tokens(text) <= -(-room // CHARS_PER_TOKEN)
    assert len(fitted.told) == len(sections)
    for kept in fitted.sections:
        whole = any(kept.body == s.body for s in sections)
        assert whole or "[cut: " in kept.body
        assert kept.framed(tag).count(tag) == 2  # its beginning and its end, both ours


@given(SECTIONS)
def test_enough_room_changes_nothing(sections: list[Section]) -> None:
    fitted = fit_sections(sections, tag="context-9", max_chars=100_000, caps={})
    assert list(fitted.sections) == [s for s in sections if s.body]
