"""Makes links to files that are not documents, such as sources, lead to the repository. Leaves badges out, because the site loads nothing from
other servers."""

import os
import posixpath
import re

BADGE = re.compile(r"\[!\[[^]]*\]\(https://[^)]*\)\]\([^)]*\)\s*")
LINK = re.compile(r"\]\(([^)#\s]+)((?:#[^)]*)?)\)")


def on_page_markdown(markdown, page, config, files):
    def lead(match):
        target, anchor = match.groups()
        if "://" in target:
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))
        if files.get_file_from_path(path):
            return match.group(0)
        if files.get_file_from_path(path + "/README.md"):
            return f"]({target.rstrip('/')}/README.md{anchor})"
        kind = "blob" if os.path.splitext(path)[1] else "tree"
        return f"]({config.repo_url}/{kind}/main/{path}{anchor})"

    return LINK.sub(lead, BADGE.sub("", markdown))
