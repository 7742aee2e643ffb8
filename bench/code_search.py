"""How well search_code finds, what an index costs to build and refresh, and what a question costs.

The corpus: functions of five packages (fetched by pip into build/, once, without dependencies); the first
sentence of a function's docstring asks for the function, whose docstring is out. Each is one piece, under
its path and class. Masked: its own name is `f` wherever it stands.
"""

import argparse
import ast
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from report import report

from lockstitch.state.settings import load_settings
from lockstitch.tools.code_index.build import Watch, refresh_index
from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.columns import Columns
from lockstitch.tools.code_index.encoder import Encoder, find_encoder
from lockstitch.tools.code_index.index_file import IndexFile
from lockstitch.tools.code_index.indexes import Indexes
from lockstitch.tools.code_index.kept_tables import keep_tables
from lockstitch.tools.code_index.loading import Loader
from lockstitch.tools.code_index.search import rank
from lockstitch.tools.workspace import Workspace

PACKAGES = ("django==5.2.19", "pandas==3.1.1", "sqlalchemy==2.1.9", "networkx==3.6.1", "scikit-learn==1.9.1")
FOLDERS = ("django", "pandas", "sqlalchemy", "networkx", "sklearn")
CORPUS = Path(__file__).parent.parent / "build" / "code_search_corpus"
MRR_NAMED, MRR_MASKED = 0.68, 0.50
RATE_MIN, MEMORY_MB = 50, 300  # chunks a CPU second; of the process that encodes
REFRESH_SHARE, EDITED, FILES = 0.02, 10, 5000
QUERY_MS, LOAD_S, MANY = 60, 1, 100_000
CHUNKS_A_FILE = 20
BEST = 10  # that count


class Question(NamedTuple):
    """The first sentence of a docstring, and the function without it."""

    text: str
    name: str
    holder: str
    path: str
    code: str

    def chunk(self, *, masked: bool) -> Chunk:
        """The function as the index holds it."""
        name = "f" if masked else self.name
        code = re.sub(rf"\b{re.escape(self.name)}\b", name, self.code)
        return Chunk(self.path, 1, 1, f"{self.holder}{name}", code)


def fetch() -> Path:
    """The packages, unpacked."""
    if not all((CORPUS / name).is_dir() for name in FOLDERS):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(CORPUS)]
        subprocess.run([*command, *PACKAGES], check=True)
    return CORPUS


def questions(root: Path, count: int) -> list[Question]:
    """Some functions of the packages, the same each time, none twice."""
    seen, found = set[str](), []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            inside = path.relative_to(root).as_posix()
            if "/tests/" in inside or "/testing/" in inside or "/test_" in inside:
                continue
            text = path.read_text(encoding="utf-8")
            for question in _questions_of(ast.parse(text), inside, text.split("\n"), ""):
                if not {question.text, question.code} & seen:
                    seen |= {question.text, question.code}
                    found.append(question)
    random.Random(0).shuffle(found)
    return found[:count]


def _questions_of(node: ast.AST, path: str, lines: list[str], holder: str) -> Iterator[Question]:
    for child in ast.iter_child_nodes(node):
        inner = f"{holder}{child.name}." if isinstance(child, ast.ClassDef) else holder
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and len(child.body) > 1:
            about = ast.get_docstring(child) or ""
            sentence = " ".join(re.split(r"(?<=[.!?])\s|\n\s*\n", about.strip())[0].split())
            if 4 <= len(sentence.split()) <= 40:
                first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
                said = child.body[0]
                kept = lines[first - 1 : said.lineno - 1] + lines[said.end_lineno : child.end_lineno]
                yield Question(sentence, child.name, holder, path, textwrap.dedent("\n".join(kept)))
        yield from _questions_of(child, path, lines, inner)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process and its children."""
    began = _spent_s()
    work()
    return _spent_s() - began


def _spent_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def quality(asked: list[Question], encoder: Encoder | None, *, masked: bool) -> float:
    """Mean reciprocal rank of the right function among the first ten, as the product ranks."""
    chunks = [question.chunk(masked=masked) for question in asked]
    rows = [(n, c.path, c.first, c.last, c.symbol, c.text) for n, c in enumerate(chunks)]
    vectors: list[tuple[int, bytes]] = []
    if encoder:
        matrix = np.asarray(encoder.embeddings.embed_documents([c.sense for c in chunks]), dtype="<f2")
        vectors = [(n, row.tobytes()) for n, row in enumerate(matrix)]
    columns, total = Columns.of(rows, vectors), 0.0
    for number, question in enumerate(asked):
        vector = encoder.embeddings.embed_query(question.text) if encoder else None
        best = [place for place, _, _ in rank(columns, question.text, vector)[:BEST]]
        total += 1 / (best.index(number) + 1) if number in best else 0.0
    return total / len(asked)


def find_well(asked: list[Question], encoder: Encoder | None) -> Iterator[bool]:
    for masked, goal in ((False, MRR_NAMED), (True, MRR_MASKED)):
        which = "names masked" if masked else "with names"
        words = quality(asked, None, masked=masked)
        both = quality(asked, encoder, masked=masked) if encoder else words
        yield report(
            f"search_code, MRR@10, {which}, {len(asked):,} functions",
            seen=f"{both:.3f}; by words alone {words:.3f}",
            goal=f"at least {goal:.2f}",
            holds=both >= goal,
        )


def encode_fast(asked: list[Question]) -> bool:
    """In a process of its own, whose memory is nobody else's."""
    texts = [question.chunk(masked=False).sense for question in asked[:500]]
    code = (
        "import sys, json, time\n"
        "from lockstitch.tools.code_index.encoder import find_encoder\n"
        "from lockstitch.state.settings import load_settings\n"
        "encoder = find_encoder(load_settings(embeddings='local')).embeddings; encoder.embed_query('warm')\n"
        "texts = json.load(sys.stdin)\n"
        "began = time.process_time(); encoder.embed_documents(texts); spent = time.process_time() - began\n"
        # getrusage would count the parent's memory at the fork; Linux alone tells it otherwise
        "status = open('/proc/self/status').read()\n"
        "print(len(texts) / spent, int(status.split('VmHWM:')[1].split()[0]) / 1024)"
    )
    given = json.dumps(texts)
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True
    )
    rate, memory_mb = map(float, done.stdout.split())
    return report(
        f"encoding {len(texts)} functions",
        seen=f"{rate:.0f} a CPU second, {memory_mb:.0f} MB at most",
        goal=f"at least {RATE_MIN}, at most {MEMORY_MB} MB",
        holds=rate >= RATE_MIN and memory_mb <= MEMORY_MB,
    )


def refresh_cheaply(encoder: Encoder | None, *, files: int) -> bool:
    """Build over many small files, edit ten of them, refresh."""
    with tempfile.TemporaryDirectory() as base:
        root, home = Path(base).resolve() / "ws", Path(base) / "home"
        for number in range(files):
            place = root / f"package{number % 50}"
            place.mkdir(parents=True, exist_ok=True)
            body = f"def work_{number}(value):\n    return value + {number}\n"
            (place / f"module_{number}.py").write_text(body)
        with Workspace(root) as workspace, Indexes(home, root).open(None) as index:
            built = cpu_s(lambda: refresh_index(index, workspace, encoder, Watch()))
            for path in islice(sorted(root.rglob("*.py")), EDITED):
                path.write_text(path.read_text() + "\n\ndef added(value):\n    return value * 2\n")
            again = cpu_s(lambda: refresh_index(index, workspace, encoder, Watch()))
    return report(
        f"refresh after editing {EDITED} of {files:,} files of one function each",
        seen=f"{again:.2f} s of CPU, the build {built:.1f} s: {100 * again / built:.1f} %",
        goal=f"at most {100 * REFRESH_SHARE:.0f} %",
        holds=again <= REFRESH_SHARE * built,
    )


def ask_cheaply(asked: list[Question], encoder: Encoder | None, *, chunks: int) -> bool:
    """Questions to an index of the corpus again and again, with vectors that are drawn; and its loading."""
    with tempfile.TemporaryDirectory() as base, IndexFile(Path(base) / "many.db") as index:
        model = encoder.name if encoder else ""
        _fill(index, asked, model, chunks)
        kept = cpu_s(lambda: keep_tables(index, model, complete=True))
        loader, columns = Loader(), list[Columns]()
        loaded = cpu_s(lambda: columns.append(loader.load(index, model)))
        with index.change():
            index.drop_files(["file0.py"])
            index.put_file("new.py", stamp="", content_hash="", chunks=_chunks(asked, chunks, CHUNKS_A_FILE))
        again = cpu_s(lambda: columns.append(loader.load(index, model)))

        def ask(text: str) -> object:
            return rank(columns[-1], text, encoder.embeddings.embed_query(text) if encoder else None)

        ask("warm up")
        spent = sorted(cpu_s(lambda text=question.text: ask(text)) for question in asked[:50])  # type: ignore[misc]
    median_ms, worst_ms = 1000 * spent[len(spent) // 2], 1000 * spent[-1]
    well = report(
        f"a question at {chunks:,} pieces, CPU",
        seen=f"{median_ms:.0f} ms, at worst {worst_ms:.0f} ms, embedding included",
        goal=f"at most {QUERY_MS} ms",
        holds=median_ms <= QUERY_MS,
    )
    return well & report(
        f"loading an index of {chunks:,} pieces, CPU",
        seen=f"{loaded:.2f} s, after a changed file {again:.2f} s; tables kept by the build in {kept:.0f} s",
        goal=f"at most {LOAD_S} s",
        holds=loaded <= LOAD_S and again <= LOAD_S,
    )


def _fill(index: IndexFile, asked: list[Question], model: str, count: int) -> None:
    drawn = np.random.default_rng(0)
    for first in range(0, count, CHUNKS_A_FILE):
        chunks = _chunks(asked, first, min(CHUNKS_A_FILE, count - first))
        with index.change():
            index.put_file(f"file{first}.py", stamp="", content_hash="x", chunks=chunks)
        if model:
            vectors = drawn.standard_normal((len(chunks), 384)).astype(np.float32)
            index.put_vectors(model, chunks, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _chunks(asked: list[Question], first: int, count: int) -> list[Chunk]:
    found = (asked[number % len(asked)].chunk(masked=False) for number in range(first, first + count))
    return [replace(chunk, symbol=f"{chunk.symbol}{n}") for n, chunk in enumerate(found, first)]


def main() -> int:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=3000)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--chunks", type=int, default=MANY)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    encoder, asked = find_encoder(load_settings(embeddings="local")), questions(fetch(), given.functions)
    held = [
        ask_cheaply(asked, encoder, chunks=given.chunks),
        *([encode_fast(asked)] if encoder else []),
        refresh_cheaply(encoder, files=given.files),
        *find_well(asked, encoder),
    ]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
