#!/usr/bin/env python3
"""Makes the text of three readings: pieces.py TRAIN MORE OUT.

TRAIN and MORE are folders of documents, with a folder for each domain. OUT/pieces-1, OUT/pieces-2
and OUT/pieces-3 get pieces of the documents, cut at the ends of lines: a share of each domain,
drawn by a hash of their names, so that they are the same each time. No piece is in two folders.
OUT/domains gets links to the documents, all code as one domain, for the meta-learners.
"""
import hashlib
import os
import sys

PIECE = 32 << 10  # bytes of a piece, at most

# The share of each domain in four times the text of the first reading: less of the large domains of
# MORE, so that no kind of text dominates, and less of TRAIN, which the model has read before.
MORE = {"books-en": .6, "books-intl": .6, "docs-intl": .39, "logs": .36, "data": .36,
        "latex": .99, "man": .99, "proposals": .99}
MORE_REST = .9
TRAIN = {"speeches": .45, "wiki-markup": .45, "law-de": .45}
TRAIN_REST = .24

# The share of each domain in the second reading. Half of its text is prose, because prose became
# worse in the first reading.
MORE_2 = {"books-en": .25, "books-intl": .25, "docs-intl": .08, "docs": .18, "logs": .05,
          "data": .06, "git-log": .2, "html": .2, "man": .2, "latex": .25, "proposals": .35}
MORE_2_REST = .1
TRAIN_2 = {"wiki-markup": .6, "speeches": .5, "books-en": .08, "books-intl": .1, "law-de": .15,
           "poetry-zh-json": .2}
TRAIN_2_REST = .06

# The share of each domain in the third reading. It has more of the text that TRAIN has little of, and
# that the model began to forget: laws, and documentation in other languages.
MORE_3 = {"books-en": .14, "books-intl": .15, "docs-intl": .05, "docs": .08, "logs": .03,
          "data": .04, "git-log": .1, "html": .1, "man": .1, "latex": .2, "proposals": .3}
MORE_3_REST = .05
TRAIN_3 = {"law-de": .6, "docs-intl": .5, "wiki-markup": .4, "speeches": .3, "books-intl": .15,
           "latex": .3, "books-en": .05, "docs": .08, "proposals": .08}
TRAIN_3_REST = .06

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
    for folder, shares, rest, shares_2, rest_2, shares_3, rest_3 in (
            (train, TRAIN, TRAIN_REST, TRAIN_2, TRAIN_2_REST, TRAIN_3, TRAIN_3_REST),
            (more, MORE, MORE_REST, MORE_2, MORE_2_REST, MORE_3, MORE_3_REST)):
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
                    if (drawn(part, "share") < shares.get(domain, rest) and
                            drawn(part, "quarter") < .25):
                        reading = 1
                    elif drawn(part, "second") < shares_2.get(domain, rest_2):
                        reading = 2
                    elif drawn(part, "third") < shares_3.get(domain, rest_3):
                        reading = 3
                    else:
                        continue
                    at = os.path.join(out, f"pieces-{reading}", domain)
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
