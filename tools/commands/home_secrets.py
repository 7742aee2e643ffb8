"""What in a person's home no command is to see."""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

# Keys, tokens, histories, browsers: below a person's home. What is not there costs nothing.
SECRETS: Final = (
    *(
        ".ssh",
        ".gnupg",
        ".password-store",
        ".local/share/keyrings",
        ".vault-token",
        ".config/sops",
        ".config/age",
    ),
    *(".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli"),
    *(
        ".config/hub",
        ".aws",
        ".azure",
        ".config/gcloud",
        ".boto",
        ".s3cfg",
        ".config/rclone",
        ".oci",
        ".kube",
    ),
    *(".docker", ".config/containers", ".terraform.d", ".terraformrc", ".config/op", ".config/doctl"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *(
        ".composer/auth.json",
        ".config/composer/auth.json",
        ".nuget/NuGet/NuGet.Config",
        ".config/pip/pip.conf",
    ),
    *(".pgpass", ".my.cnf", ".databrickscfg", ".cache/huggingface/token", ".config/heroku", ".fly"),
    *(
        ".bash_history",
        ".zsh_history",
        ".python_history",
        ".psql_history",
        ".mysql_history",
        ".node_repl_history",
    ),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".claude", ".claude.json", ".codex", ".gemini", ".config/github-copilot", ".config/Signal"),
)
_Names = dict[str, "_Names"]  # by folder; of a secret itself it is empty
_SECRETS: Final[_Names] = {}
for _secret in SECRETS:
    _folder = _SECRETS
    for _name in _secret.split("/"):
        _folder = _folder.setdefault(_name, {})


def secrets_below(home: str) -> Iterator[str]:
    """Where they are in truth: a link to them is no way around the mask, and no mask can lie on a link."""
    if home != "/":
        yield from _found(home, _SECRETS)


def _found(folder: str, wanted: _Names) -> Iterator[str]:
    """What there is of it, in a folder whose path has no links. One look a folder: most are not there."""
    try:
        there = set(os.listdir(folder))  # noqa: PTH208  for each command
    except OSError:  # it can be entered and not listed, or is none
        there = set(wanted)
    for name in there & wanted.keys():
        path = f"{folder}/{name}"
        with contextlib.suppress(OSError):  # it is missing, or the link leads nowhere
            if stat.S_ISLNK(os.lstat(path).st_mode):
                path = os.path.realpath(path, strict=True)
            yield from _found(path, wanted[name]) if wanted[name] else (path,)
