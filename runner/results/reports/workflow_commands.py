"""What a CI would obey in a job's output, such as `::add-mask::` or `##vso[…]`: text of others becomes no command."""

from __future__ import annotations

import os
import re

_SIGNS = (
    *("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION", "BUILDKITE", "APPVEYOR", "TRAVIS"),
    *("JENKINS_URL", "CODEBUILD_BUILD_ID", "BITBUCKET_BUILD_NUMBER", "FORGEJO_ACTIONS", "GITEA_ACTIONS"),
)
"""Variables that say that this is a job."""

_BLANK = (
    rb"(?:[ \t\x0b\x0c\x1c-\x1f]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80"
    rb"|\xef\xbb\xbf)"
)
"""What GitHub leaves out at the beginning of a line, in UTF-8."""

# GitHub: `::` where a line begins, `##[` anywhere. Azure, TeamCity: anywhere. GitLab: a section ends with `\r\x1b[0K`.
_COMMAND = rb"(?i)(?<=[\r\n])" + _BLANK + rb"*:(?=:)|##(?:vso|teamcity)?(?=\[)|\r(?=\x1b)"
_BEGUN = rb"(" + _BLANK + rb"*)(:?|[\xc2\xe1-\xe3\xef][\x80-\xbf]?)"
_LONGEST = len(b"##teamcity")


def in_job() -> bool:
    """Say whether a CI reads the output."""
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in _SIGNS)


class CommandGuard:
    """Breaks up commands with a blank, in output that comes in pieces."""

    def __init__(self) -> None:
        self._before = b"\n"
        """What was last written, as far as a command may go on from there."""

    def guarded(self, piece: bytes) -> bytes:
        """Return the next piece, as it may be written."""
        known = len(self._before)
        text = re.sub(_COMMAND, rb"\g<0> ", self._before + piece)
        end = max(text.rfind(b"\n"), text.rfind(b"\r"))
        line = text[end + 1 :]
        begun = re.fullmatch(_BEGUN, line) if end >= 0 else None
        if begun is None:
            self._before = b"x" + line[-_LONGEST:]
        else:
            self._before = text[end : end + 1] + (b" " if begun[1] else b"") + begun[2]
        return text[known:]


def guard_text(text: str) -> str:
    """Return text that somebody else writes, as it may be written in a job."""
    return (
        CommandGuard().guarded(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if in_job()
        else text
    )
