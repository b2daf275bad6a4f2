"""Prepares pages that are written for GitHub for the site generator, and checks the built site.

    site.py prepare REPOSITORY FOLDER   copies docs/ and the configuration, and adapts the Markdown to the generator
    site.py check SITE                  fails if a link is broken, or a page loads something from another host
"""

import posixpath
import re
import shutil
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Links to files outside of docs/ point here.
REPOSITORY = "https://github.com/kedify/argo-rollouts-plugin/blob/main/"


def slug(heading, seen):
    """Returns the anchor that GitHub creates for a heading: repeated headings get the suffixes -1, -2."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    made = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    seen[made] += 1
    return made if seen[made] == 1 else f"{made}-{seen[made] - 1}"


def outward(text, folder):
    """Points links out of docs/ at the repository."""

    def target(found):
        path, mark, anchor = found[1].partition("#")
        there = posixpath.normpath(posixpath.join(folder, path))
        if "://" in found[1] or not path or there.startswith("docs/"):
            return found[0]
        return f"]({REPOSITORY}{there}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", target, text)


def adapt(text, folder):
    """Returns the Markdown of a page in the form that the generator needs."""
    lines, seen, in_block = [], Counter(), False
    for line in outward(text, folder).split("\n"):
        if line.lstrip().startswith("```"):
            # Words after the language of a block are marks for the tests.
            line = line if in_block else re.sub(r"^(\s*```\w*).*", r"\1", line)
            in_block = not in_block
        elif not in_block and (heading := re.match(r"#+ (.+)", line)):
            line += " {#" + slug(heading[1], seen) + "}"
        elif not in_block and re.fullmatch(r"<!-- .* -->", line):
            line = f"\n{line}\n"  # separates a comment from the table that follows
        elif not in_block:
            # The generator treats braces as attributes, except in code.
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if part.startswith("`") else part.replace("{", "&#123;") for part in parts)
        lines.append(line)
    return "\n".join(lines)


def prepare(repository, folder):
    """Copies the pages and the configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(repository / "docs", folder / "docs")
    shutil.copy(Path(__file__).parent / "zensical.toml", folder)
    for page in (folder / "docs").rglob("*.md"):
        page.write_text(adapt(page.read_text(), page.parent.relative_to(folder).as_posix()))


class Page(HTMLParser):
    """The anchors and links of a page, and the files that a browser loads with it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(filter(None, (attrs.get("id"), attrs.get("name"))))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        is_style = tag == "link" and "stylesheet" in (attrs.get("rel") or "")
        if loaded := attrs.get("src") or (is_style and attrs.get("href")):
            self.loads.append(loaded)


def check(site):
    """Returns the errors of a site, the number of checked links, and the number of pages."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    errors, checked = [], 0
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links + page.loads:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                if link in page.loads:
                    errors.append(f"{name} loads {link}")
                continue
            checked += 1
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                errors.append(f"{name} links to {link}, which is not there")
            elif target.fragment and there in pages and unquote(target.fragment) not in pages[there].anchors:
                errors.append(f"{name} links to {link}, which has no such anchor")
    return errors, checked, len(pages)


def main(args):
    if len(args) == 3 and args[0] == "prepare":
        prepare(Path(args[1]), Path(args[2]))
        return 0
    if len(args) == 2 and args[0] == "check":
        errors, checked, pages = check(Path(args[1]).resolve())
        print("\n".join([*errors, f"{checked} links on {pages} pages, {len(errors)} of them broken"]))
        return 1 if errors or not checked else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
