"""The package's description is the README with absolute links: a package index shows it away from its folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = (".png", ".svg")


def with_absolute_links(text: str, home: str) -> str:
    """Markdown whose relative links lead to the files of the repository `home`, those of pictures to their content."""

    def absolute(link: re.Match[str]) -> str:
        way = "raw" if link[1].partition("#")[0].endswith(PICTURES) else "blob"
        return f"]({home}/{way}/main/{link[1]})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", absolute, text)


class Description(MetadataHookInterface):
    """Sets what pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata["urls"]["Homepage"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
