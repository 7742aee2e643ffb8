"""Arguments by which a harmless program runs others or writes files: they ask, whatever a prefix allows."""

import re
from collections.abc import Sequence
from typing import Final

from lockstitch.tools.permission.shell_words import Word, names, split_modules
from lockstitch.tools.permission.shell_wrappers import program_of

RUNS: Final = "can run a program that its arguments name"
WRITES: Final = "writes where its arguments say"
CODE: Final = "runs code that stands in its arguments"
PLACES: Final = "takes settings or packages from a place that its arguments name"

# Options by program. A long one also counts as --option=value and cut short, a short one also in a cluster.
OPTIONS: Final[dict[str, dict[str, str]]] = {
    "awk": {"-f -i -l -e -E --file --source --include --load --exec": CODE},
    "cargo": {"--config": RUNS},
    "cc": {"-wrapper -B -fplugin -specs -Xclang": RUNS},
    "cmake": {"-P -E -C": RUNS},
    "curl": {"-o -O -K -T -d -F --output --remote-name --config --upload-file --data --form": WRITES},
    "docker": {"-v -H --volume --mount --privileged --host": "reaches beyond the workspace"},
    "fd": {"-x -X --exec --exec-batch": RUNS},
    "find": {
        "-exec -execdir -ok -okdir": RUNS,
        "-delete": "deletes what it finds",
        "-fprint -fprint0 -fprintf -fls": WRITES,
    },
    "git": {
        "-c -C --config-env --exec-path --git-dir --work-tree --template --separate-git-dir": PLACES,
        "-O -x --upload-pack --receive-pack --exec --ext-diff --textconv --extcmd --tool --gpg-sign "
        "--open-files-in-pager": RUNS,
        "-o --output --output-directory": WRITES,
    },
    "go": {"-exec -toolexec -vettool": RUNS, "-o": WRITES, "-C -overlay -modfile": PLACES},
    "java": {"-agentlib -agentpath -javaagent": RUNS, "-cp -classpath --class-path": PLACES},
    "less": {"-o -O -k --log-file --lesskey-file": WRITES},
    "make": {"-f -C -I -E --file --makefile --directory --eval --include-dir": RUNS},
    "man": {"-P -H -C --pager --html --browser --config-file": RUNS},
    "mypy": {
        "--config-file --python-executable --install-types --custom-typeshed-dir --shadow-file": PLACES,
        "--junit-xml --cache-dir --any-exprs-report --cobertura-xml-report --html-report --linecount-report "
        "--linecoverage-report --lineprecision-report --txt-report --xml-report --xslt-html-report "
        "--xslt-txt-report": WRITES,
    },
    "node": {
        "-e -p -r --eval --print --require --import --loader --experimental-loader": CODE,
        "--env-file": PLACES,
    },
    "npm": {"--script-shell --node-options": RUNS, "--prefix --registry --userconfig --globalconfig": PLACES},
    "perl": {"-e -E -i -I -M -m -n -p -x": CODE},
    "php": {"-r -d -B -E -R": CODE},
    "pip": {
        "-i -e -t -r -c --index-url --extra-index-url --find-links --trusted-host --editable --target "
        "--prefix --root --requirement --constraint --config-settings --python --log": PLACES
    },
    "pytest": {
        "-p -c -o --rootdir --confcutdir --config-file --override-ini --pdbcls": RUNS,
        "--basetemp --junitxml --junit-xml --debug --log-file --cov-report": WRITES,
        "--pastebin": "sends its output away",
    },
    "python": {"-c -i -W -X": CODE},
    "rg": {"--pre --hostname-bin": RUNS},
    "rsync": {"-e --rsh --rsync-path --daemon": RUNS},
    "ruby": {"-e -r -I -i -n -p -x": CODE},
    "ruff": {"--config --output-file --cache-dir": PLACES},
    "scp": {"-o -S -F -J": RUNS},
    "sed": {"-i -f --in-place --file": WRITES, "-e --expression": CODE},
    "sort": {"-o --output": WRITES, "-T --compress-program --temporary-directory --files0-from": RUNS},
    "split": {"--filter": RUNS},
    "ssh": {"-o -F -J -L -R -D -w -W": RUNS},
    "tar": {
        "-I -F --checkpoint-action --to-command --use-compress-program --info-script --new-volume-script "
        "--rmt-command --rsh-command": RUNS,
        "-P -C --absolute-names --directory --transform": WRITES,
    },
    "tox": {"-c -x --conf --override --workdir": RUNS},
    "tree": {"-o -R --output": WRITES},
    "tsc": {
        "--outDir --outFile --out --declarationDir --tsBuildInfoFile --generateTrace "
        "--generateCpuProfile": WRITES,
        "-p --project -b --build": PLACES,
    },
    "uv": {"--index-url --extra-index-url --index --find-links --config-file --project --directory": PLACES},
    "vim": {"-c -S -u -s -w -W --cmd": RUNS},
    "wget": {"-O -o -i -P -e --output-document --execute --use-askpass --post-file --config": WRITES},
    "zip": {"-T --unzip-command": RUNS},
}
SAME: Final = {
    "clang": "cc", "clang++": "cc", "c++": "cc", "gcc": "cc", "g++": "cc", "gawk": "awk", "mawk": "awk",
    "nawk": "awk", "fdfind": "fd", "gmake": "make", "gsed": "sed", "gtar": "tar", "bsdtar": "tar",
    "bun": "npm", "pnpm": "npm", "yarn": "npm", "nodejs": "node", "deno": "node", "pypy": "python",
    "py.test": "pytest", "podman": "docker", "vi": "vim", "view": "vim", "ex": "vim", "nvim": "vim",
}  # fmt: skip
# Words that make a program run what its settings say; no rule is offered for them.
SUBCOMMANDS: Final[dict[str, frozenset[str]]] = {
    "git": names("bisect config credential daemon difftool filter-branch hook mergetool submodule"),
}
# Words that make a program run what the project says. A rule that names the word covers it.
SCRIPTS: Final[dict[str, frozenset[str]]] = {
    "npm": names("exec explore install install-test ci run run-script start stop restart test x dlx"),
    "cargo": names("run test bench install build"),
    "docker": names("run exec build compose"),
    "uv": names("run tool pip add sync"),
    "go": names("generate run test install"),
}
# Their options have one dash and are words, so their letters are no cluster.
ONE_DASH: Final = frozenset(("cc", "find", "go", "java"))
# Behind the script these have options of the script's own.
SCRIPTED: Final = frozenset(("node", "perl", "php", "python", "ruby"))
_AWK_ACTS: Final = re.compile(r"system|getline|[|>@]")
_SED_RANGE = r"(?:\d+|\$)?(?:,\s*(?:\d+|\$))?\s*"
_SED_SUBSTITUTE = r"s([/|#,:])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI\d]*"
_SED_HARMLESS: Final = re.compile(f"{_SED_RANGE}(?:[pdq=]|{_SED_SUBSTITUTE})?")


def injection(words: Sequence[Word], *, beyond: int = 1) -> str:
    """Why these arguments need a person's look; empty when the table knows nothing against them.

    Args:
        words: of one simple command.
        beyond: how many of them a rule spells out; they need no other look.
    """
    program = program_of(words)
    if _known(program) == "python":
        words = split_modules(words)
    if module := _module(program, words):
        return injection(words[module:], beyond=max(1, beyond - module))
    known = _known(program)
    own = _own(known, [word.text for word in words[1:]])
    for text in own[max(0, beyond - 1) :]:
        for options, does in OPTIONS.get(known, {}).items():
            if any(_is(option, text, known) for option in options.split()):
                return f"`{program} {text.partition('=')[0][:40]}` {does}"
        if text in SUBCOMMANDS.get(known, SCRIPTS.get(known, ())):
            return f"`{program} {text}` runs what the project says"
    return _in_code(program, known, own[max(0, beyond - 1) :])


def _known(program: str) -> str:
    """The program's name in the tables: `python3.12` is python, `gawk` is awk."""
    plain = re.sub(r"-?\d+(\.\d+)*$", "", program) or program
    return SAME.get(plain, plain)


def _module(program: str, words: Sequence[Word]) -> int:
    """Where the module of `python -m` stands, which is a program like another one; 0 without one."""
    if _known(program) != "python":
        return 0
    for at, word in enumerate(words[1:-1], start=1):
        if word.text == "-m":
            return at + 1
        if not word.text.startswith("-") or _is("-c", word.text, "python"):
            return 0
    return 0


def _own(known: str, texts: list[str]) -> list[str]:
    """The words that are the program's own: an interpreter's end with its script."""
    if known == "tar" and texts and not texts[0].startswith("-"):
        return [f"-{texts[0]}", *texts[1:]]
    if known in SCRIPTED:
        ends = next((n for n, text in enumerate(texts) if not text.startswith("-")), len(texts))
        return texts[:ends]
    return texts


def _is(option: str, text: str, known: str) -> bool:
    """Whether a word of the command is that option, in any spelling that programs take."""
    if not text.startswith("-") or text == "-":
        return False
    name = text.partition("=")[0]
    if text.startswith("--"):
        return len(name) > 2 and option.startswith(name)
    if len(option) > 2 or known in ONE_DASH:
        return name == option or (len(option) > 2 and not option.startswith("--") and name.startswith(option))
    return option[1] in name[1:]


def _in_code(program: str, known: str, texts: Sequence[str]) -> str:
    if known == "awk" and any(_AWK_ACTS.search(text) for text in texts):
        return f"`{program}` {CODE}"
    scripts = [text for text in texts if not text.startswith("-")]
    if known == "uniq" and len(scripts) > 1:  # the second file is the one it writes
        return f"`{program}` {WRITES}"
    if known == "sed" and scripts and not all(map(_SED_HARMLESS.fullmatch, scripts[0].split(";"))):
        return f"`{program}` {CODE}"
    return ""
