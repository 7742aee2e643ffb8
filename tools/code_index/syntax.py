"""Code in pieces by its syntax: each function or method whole, and the lines between them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from lockstitch.tools.code_index.languages import Language, parser_of

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH_MAX: Final = 60  # of the tree: generated code nests deeper, and Python's stack has an end
NAME_CHARS: Final = 120  # of a definition's name; longer ones are generated
VALUES: Final = frozenset({"arrow_function", "function_expression", "function"})  # that a variable may hold
_ABOVE: Final = frozenset({"comment", "line_comment", "block_comment", "attribute_item", "decorator"})
_AROUND: Final = frozenset({"decorated_definition", "export_statement", "template_declaration"})


class Span(NamedTuple):
    """Lines `first` to `last`, from 0, both included, of a definition."""

    first: int
    last: int
    symbol: str


class Outline(NamedTuple):
    """The pieces of a file in their order, and the holders, an outer one before those in it."""

    pieces: list[Span]
    holders: list[Span]


def outline_of(text: str, language: Language) -> Outline | None:
    """Where the definitions of a file stand; None where its grammar is missing or finds none."""
    parser = parser_of(language)
    if parser is None:
        return None
    root = parser.parse(text.encode("utf-8", "replace")).root_node
    outline = Outline([], [])
    for span, is_piece in _definitions(root, language, "", 0):
        (outline.pieces if is_piece else outline.holders).append(span)
    return outline if outline.pieces or outline.holders else None


def _definitions(node: "Node", language: Language, prefix: str, depth: int) -> Iterator[tuple[Span, bool]]:
    if depth > DEPTH_MAX:
        return
    for child in node.named_children:
        if child.type in language.holders and _has_body(child):
            symbol = prefix + _name_of(child)
            yield _span(child, symbol), False
            yield from _definitions(child, language, f"{symbol}." if symbol else "", depth + 1)
        elif (child.type in language.pieces or _holds_function(child, language)) and _has_body(child):
            yield _span(child, prefix + _name_of(child)), True
        elif child.named_child_count:
            yield from _definitions(child, language, prefix, depth + 1)


def _holds_function(node: "Node", language: Language) -> bool:
    """`const f = () => ...`: a variable that is a function in all but name."""
    if node.type != "variable_declarator" or "function_value" not in language.pieces:
        return False
    value = node.child_by_field_name("value")
    return value is not None and value.type in VALUES


def _has_body(node: "Node") -> bool:
    """`struct point p;` names a structure and defines none."""
    return not node.type.endswith("_specifier") or node.child_by_field_name("body") is not None


def _name_of(node: "Node") -> str:
    """The definition's own name; of C's, which lies in a declarator, the innermost."""
    found = node.child_by_field_name("name")
    declarator = node.child_by_field_name("declarator")
    while found is None and declarator is not None:
        inner = declarator.child_by_field_name("declarator")
        found, declarator = (declarator, None) if inner is None else (None, inner)
    found = found or node.child_by_field_name("type")  # of Rust's `impl Type`
    if found is None:
        found = next((child for child in node.named_children if child.type.endswith("identifier")), None)
    text = found.text.decode("utf-8", "replace") if found is not None and found.text else ""
    return " ".join(text.split())[:NAME_CHARS]


def _span(node: "Node", symbol: str) -> Span:
    """With what belongs to it: decorators and `export` around it, comments right above it."""
    outer = node
    while outer.parent is not None and _is_around(outer.parent):
        outer = outer.parent
    first, above = outer.start_point[0], outer.prev_named_sibling
    while above is not None and above.type in _ABOVE and _is_right_above(above, first):
        first, above = above.start_point[0], above.prev_named_sibling
    return Span(first, outer.end_point[0], symbol)


def _is_around(node: "Node") -> bool:
    return node.type in _AROUND or (node.type == "lexical_declaration" and node.named_child_count == 1)


def _is_right_above(above: "Node", first: int) -> bool:
    """Alone on its line, which ends where the definition begins; not the end of a line of code."""
    before = above.prev_named_sibling
    alone = before is None or before.end_point[0] < above.start_point[0]
    end = above.end_point[0] - (above.end_point[1] == 0)  # some grammars count the newline in
    return alone and end == first - 1
