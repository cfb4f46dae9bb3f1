#!/usr/bin/env python3
"""Makes the text of the steps read-1 to read-4 and last: pieces.py TRAIN MORE OUT.

TRAIN and MORE are folders of documents, with a folder for each domain. OUT/pieces-1 to
OUT/pieces-4 get pieces of the documents, cut at the ends of lines: quarters of a share of each
domain, drawn by a hash of their names, so that they are the same each time. OUT/domains gets links
to the documents, all code as one domain, for the meta-learners.
"""
import hashlib
import os
import sys

PIECE = 32 << 10  # bytes of a piece, at most

# The share of each domain that is read: less of the large domains of MORE, so that no kind of text
# rules, and less of TRAIN, which the model has read before.
MORE = {"books-en": .6, "books-intl": .6, "docs-intl": .39, "logs": .36, "data": .36,
        "latex": .99, "man": .99, "proposals": .99}
MORE_REST = .9
TRAIN = {"speeches": .45, "wiki-markup": .45, "law-de": .45}
TRAIN_REST = .24

# Documents that are never read, to measure long sessions and typing with.
UNREAD = set("""
    books-en/the-adventures-of-tom-sawyer books-intl/trafalgar code-c/jq code-go/mtail-01
    code-js/moment code-python/black data/rustsec docs/jekyll docs-intl/uk-react git-log/dplyr
    html/libreoffice-de-html logs/run-strace-python logs/telegraf-fixtures-04
""".split())


def cuts(text):
    """Returns the pieces of text, each at most PIECE bytes, cut after a line or within a long one."""
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        if end < len(text):
            line = text.rfind(b"\n", start, end) + 1
            if line > start:
                end = line
            else:
                while text[end] & 0xC0 == 0x80:
                    end -= 1
        yield text[start:end]
        start = end


def drawn(name, purpose):
    """Returns a number in [0, 1) that depends on the name and the purpose alone."""
    digest = hashlib.sha256(f"{purpose} {name}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def main():
    _, train, more, out = sys.argv
    read = 0
    for folder, shares, rest in (train, TRAIN, TRAIN_REST), (more, MORE, MORE_REST):
        for domain in sorted(os.listdir(folder)):
            if not os.path.isdir(os.path.join(folder, domain)):
                continue
            for document in sorted(os.listdir(os.path.join(folder, domain))):
                name = f"{domain}/{document.removesuffix('.txt')}"
                if folder == more and name in UNREAD:
                    UNREAD.remove(name)
                    continue
                path = os.path.join(folder, domain, document)
                whole = "code" if domain.startswith("code-") else domain
                link = os.path.join(out, "domains", whole, f"{domain}-{document}")
                if folder == more:
                    link = link.removesuffix(".txt") + "-more.txt"
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(os.path.realpath(path), link)
                with open(path, "rb") as file:
                    text = file.read()
                for i, piece in enumerate(cuts(text)):
                    part = f"{name}-{i:02}"
                    if drawn(part, "share") >= shares.get(domain, rest):
                        continue
                    quarter = int(4 * drawn(part, "quarter")) + 1
                    at = os.path.join(out, f"pieces-{quarter}", domain)
                    os.makedirs(at, exist_ok=True)
                    origin = "more" if folder == more else "train"
                    with open(os.path.join(at, f"{os.path.basename(part)}-{origin}.txt"), "wb") as file:
                        file.write(piece)
                    read += len(piece)
    if UNREAD:
        sys.exit(f"not found in {more}: {', '.join(sorted(UNREAD))}")
    print(f"{read} bytes in {out}")


if __name__ == "__main__":
    main()
