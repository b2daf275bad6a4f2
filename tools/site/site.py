"""What makes a site of documents that are written for GitHub, and a check of the built pages.

    site.py prepare REPOSITORY FOLDER   copies docs/ and the configuration, and adapts the Markdown to the generator
    site.py check SITE                  fails where a link leads nowhere, or a page loads something from elsewhere
"""

import posixpath
import re
import shutil
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What is not in docs/ is read there.
REPOSITORY = "https://github.com/kedify/argo-rollouts-plugin/blob/main/"


def slug(heading, seen):
    """An anchor as GitHub makes it of a heading: the second one of a page with the same words ends with -1."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    made = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    seen[made] += 1
    return made if seen[made] == 1 else f"{made}-{seen[made] - 1}"


def outward(text, folder):
    """Links that leave docs/ lead to the repository."""

    def target(found):
        path, mark, anchor = found[1].partition("#")
        there = posixpath.normpath(posixpath.join(folder, path))
        if "://" in found[1] or not path or there.startswith("docs/"):
            return found[0]
        return f"]({REPOSITORY}{there}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", target, text)


def adapt(text, folder):
    """The Markdown of a page, as the generator wants it."""
    lines, seen, in_block = [], Counter(), False
    for line in outward(text, folder).split("\n"):
        if line.lstrip().startswith("```"):
            # Words behind the language of a block are for the tests.
            line = line if in_block else re.sub(r"^(\s*```\w*).*", r"\1", line)
            in_block = not in_block
        elif not in_block and (heading := re.match(r"#+ (.+)", line)):
            line += " {#" + slug(heading[1], seen) + "}"
        elif not in_block and re.fullmatch(r"<!-- .* -->", line):
            line = f"\n{line}\n"  # a comment is no part of the table that follows it
        elif not in_block:
            # Braces are attributes to the generator, but in code.
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if part.startswith("`") else part.replace("{", "&#123;") for part in parts)
        lines.append(line)
    return "\n".join(lines)


def prepare(repository, folder):
    """Copies what the site is made of."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(repository / "docs", folder / "docs")
    shutil.copy(Path(__file__).parent / "zensical.toml", folder)
    for page in (folder / "docs").rglob("*.md"):
        page.write_text(adapt(page.read_text(), page.parent.relative_to(folder).as_posix()))


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that a browser loads with it."""

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
    """The complaints about a site, and how many links were looked at."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    complaints, looked = [], 0
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links + page.loads:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                if link in page.loads:
                    complaints.append(f"{name} loads {link}")
                continue
            looked += 1
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                complaints.append(f"{name} links to {link}, which is not there")
            elif target.fragment and there in pages and unquote(target.fragment) not in pages[there].anchors:
                complaints.append(f"{name} links to {link}, which has no such anchor")
    return complaints, looked, len(pages)


def main(args):
    if len(args) == 3 and args[0] == "prepare":
        prepare(Path(args[1]), Path(args[2]))
        return 0
    if len(args) == 2 and args[0] == "check":
        complaints, looked, pages = check(Path(args[1]).resolve())
        print("\n".join([*complaints, f"{looked} links on {pages} pages, {len(complaints)} of them broken"]))
        return 1 if complaints or not looked else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
