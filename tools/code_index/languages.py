"""Which grammar reads which file, and what in its tree is a definition or holds some. A table.

Grammars are single wheels: `tree-sitter-language-pack` downloads its own when it is used.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Parser


class Language(NamedTuple):
    """A grammar's module and function, and the kinds of nodes that matter.

    Attributes:
        pieces: each becomes a piece of its own, with all that is in it.
        holders: name what is in them, and are looked into.
    """

    module: str
    pieces: frozenset[str]
    holders: frozenset[str]
    function: str = "language"


def _language(module: str, pieces: str, holders: str = "", function: str = "language") -> Language:
    return Language(module, frozenset(pieces.split()), frozenset(holders.split()), function)


_SCRIPT: Final = "function_declaration generator_function_declaration method_definition function_value"
_TYPED: Final = f"{_SCRIPT} interface_declaration type_alias_declaration enum_declaration function_signature"
_CLASSES: Final = "class_declaration abstract_class_declaration internal_module"
_C: Final = "function_definition struct_specifier enum_specifier union_specifier preproc_function_def"

LANGUAGES: Final[dict[str, Language]] = {
    "python": _language("tree_sitter_python", "function_definition", "class_definition"),
    "javascript": _language("tree_sitter_javascript", _SCRIPT, _CLASSES),
    "typescript": _language("tree_sitter_typescript", _TYPED, _CLASSES, "language_typescript"),
    "tsx": _language("tree_sitter_typescript", _TYPED, _CLASSES, "language_tsx"),
    "go": _language("tree_sitter_go", "function_declaration method_declaration type_declaration"),
    "rust": _language(
        "tree_sitter_rust",
        "function_item struct_item enum_item macro_definition",
        "impl_item trait_item mod_item",
    ),
    "java": _language(
        "tree_sitter_java",
        "method_declaration constructor_declaration",
        "class_declaration interface_declaration enum_declaration record_declaration",
    ),
    "c": _language("tree_sitter_c", _C),
    "cpp": _language("tree_sitter_cpp", _C, "class_specifier struct_specifier namespace_definition"),
    "c_sharp": _language(
        "tree_sitter_c_sharp",
        "method_declaration constructor_declaration property_declaration enum_declaration",
        "class_declaration interface_declaration struct_declaration record_declaration namespace_declaration",
    ),
    "ruby": _language("tree_sitter_ruby", "method singleton_method", "class module"),
    "php": _language(
        "tree_sitter_php",
        "function_definition method_declaration",
        "class_declaration interface_declaration trait_declaration",
        "language_php",
    ),
    "bash": _language("tree_sitter_bash", "function_definition"),
}

_SUFFIXES: Final = {
    "python": ".py .pyi .pyw",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .mts .cts",
    "tsx": ".tsx",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "c_sharp": ".cs",
    "ruby": ".rb .rake",
    "php": ".php",
    "bash": ".sh .bash",
}
_BY_SUFFIX: Final = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def language_of(path: str) -> Language | None:
    """The language of a file by its name; None where no grammar reads it."""
    name = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
    return LANGUAGES[name] if name else None


@cache
def parser_of(language: Language) -> "Parser | None":
    """The parser, made once; None where the grammar is not installed."""
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

    try:
        grammar: Callable[[], object] = getattr(import_module(language.module), language.function)
    except ImportError:
        return None
    return Parser(Grammar(grammar()))
