"""What MkDocs does to each page, so that one text reads well on the site and where the repository is browsed.

Links to files outside of docs/ lead into the repository where `repo_url` is set. Otherwise, the site carries a page
with each such file. Lists and tables of GitHub's Markdown become those of Python-Markdown.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "source/"
"""Where the site has the files that are linked and are no pages."""
LANGUAGES = {".py": "python", ".mjs": "javascript", ".toml": "toml", ".yaml": "yaml", ".json": "json"}

_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^ *(```|~~~)")
_ITEM = re.compile(r"^( *)([-*]|\d+\.) ")
_navigations: dict[str, Navigation] = {}
_log = logging.getLogger("mkdocs.hooks.ptkstore")


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    """Offer other versions where mike, which keeps them, builds the site."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config["extra"]["version"] = {"provider": "mike"}
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each file of the repository that a page links to."""
    if config.repo_url:
        return files
    waiting = [file.src_uri for file in files.documentation_pages()]
    texts = {uri: (Path(config.docs_dir) / uri).read_text(encoding="utf-8") for uri in waiting}
    places = {uri: f"docs/{uri}" for uri in waiting}
    while waiting:
        uri = waiting.pop()
        for _, target in _outside(texts[uri], places[uri]):
            page = _page_of(target)
            if page in texts or not (ROOT / target).is_file():
                continue
            texts[page], places[page] = _shown(target), target
            waiting.append(page)
            files.append(
                File.generated(config, page, content=texts[page], inclusion=InclusionLevel.NOT_IN_NAV)
            )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Lead links to where their targets are on the site, and write lists as Python-Markdown reads them."""
    uri = page.file.src_uri
    place = uri.removeprefix(SOURCE).removesuffix(".md") if uri.startswith(SOURCE) else f"docs/{uri}"
    if uri.startswith(SOURCE):
        page.meta["search"] = {"exclude": True}
    for link, target in _outside(markdown, place):
        if not (ROOT / target).exists():
            _log.warning("%s links to %s, which does not exist", place, link)
        elif config.repo_url:
            markdown = markdown.replace(f"]({link})", f"]({config.repo_url.rstrip('/')}/blob/main/{target})")
        elif (ROOT / target).is_file():
            markdown = markdown.replace(f"]({link})", f"]({_from(uri, _page_of(target), link)})")
        else:
            _log.warning("%s links to %s, which is a folder", place, link)
    return "\n".join(_lists(markdown.split("\n")))


def on_nav(nav: Navigation, config: MkDocsConfig, **_: Any) -> Navigation:
    """Remember the navigation, which `llms.txt` follows."""
    _navigations[config.site_dir] = nav
    return nav


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Write `llms.txt`: what the project is and each page by purpose, for programs that read text."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in _navigations.pop(config.site_dir).items:
        lines += ["", f"## {section.title}", ""]
        lines += [f"- [{page.title}]({page.url or './'})" for page in _pages(section)]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pages(item: Any) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    for child in item.children or ():
        yield from _pages(child)


def _outside(text: str, place: str) -> Iterator[tuple[str, str]]:
    """Return links of a text that leave the pages, each with the file that it means."""
    for link in {found[1] for line in _prose(text) for found in _LINK.findall(line)}:
        name = link.partition("#")[0]
        if not name or re.match(r"[a-z]+:", name):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), name))
        if (ROOT / target / "README.md").is_file():
            target += "/README.md"
        if not place.startswith("docs/") or not target.startswith("docs/"):
            yield link, target


def _prose(text: str) -> Iterator[str]:
    """Return the lines that are in no fence."""
    fenced = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def _page_of(target: str) -> str:
    if target.startswith("docs/") and target.endswith(".md"):
        return target.removeprefix("docs/")
    return f"{SOURCE}{target}.md"


def _from(uri: str, page: str, link: str) -> str:
    """Return the relative link from one page of the site to another, with the anchor that `link` has."""
    _, mark, anchor = link.partition("#")
    return posixpath.relpath(page, posixpath.dirname(uri) or ".") + (
        mark + anchor if page.endswith(".md") else ""
    )


def _shown(target: str) -> str:
    text = (ROOT / target).read_text(encoding="utf-8")
    if target.endswith(".md"):
        return text
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    title = target.replace("_", r"\_")  # `__init__` is no bold word
    return f"# {title}\n\n{fence}{LANGUAGES.get(Path(target).suffix, 'text')}\n{text}\n{fence}\n"


def _lists(lines: list[str]) -> Iterator[str]:
    """Return lines as Python-Markdown reads them.

    GitHub begins a list below a paragraph and nests by two spaces; here it takes an empty line and four.
    """
    fenced, before = False, ""
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            item, above = _ITEM.match(line), _ITEM.match(before)
            starts = bool(item or line.startswith("|"))
            plain = before.strip() and not above and not before.startswith(("|", " ", "#", ">"))
            if starts and plain:
                yield ""
            if item and 0 < len(item[1]) < 4:
                line = "    " + line.lstrip()
        yield line
        before = line
