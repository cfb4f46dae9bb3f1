#!/usr/bin/env python3
"""Makes the text of steps 13 to 21: pieces.py TRAIN MORE OUT.

TRAIN and MORE are folders of documents, with a folder for each domain. OUT/pieces-1 to
OUT/pieces-8 get pieces of the documents, cut at the ends of lines: a share of each domain, drawn
by a hash of their names, so that they are the same each time. No piece is in two folders, except
that OUT/pieces-7 and OUT/pieces-8 also have pieces of TRAIN that are in other folders. OUT/domains
gets links to the documents, all code as one domain, for the meta-learners. MORE must have the
documents of UNREAD. OUT appears only when it is complete.
"""
import hashlib
import os
import shutil
import sys

PIECE = 32 << 10  # bytes of a piece, at most

# The share of each domain that a reading takes from TRAIN and from MORE; None is for all other
# domains. The first reading takes a quarter of these shares, and each reading up to the sixth only
# what is left. The model had read TRAIN before. In the first reading no kind of text dominates.
# Over half of the second one is prose, which became worse in the first. The third has more of the
# kinds of TRAIN that the model began to forget, such as laws and documentation in other languages.
# The fourth has some of every kind. Of the fifth, over half is prose again. A third of the sixth is
# from TRAIN, and what was left of small kinds is in it. The seventh is two thirds text of TRAIN,
# also of earlier readings: mostly of the kinds that became worse in the sixth. Four fifths of the
# eighth are new text.
READINGS = [
    ({"speeches": .45, "wiki-markup": .45, "law-de": .45, None: .24},
     {"books-en": .6, "books-intl": .6, "docs-intl": .39, "logs": .36, "data": .36, "latex": .99,
      "man": .99, "proposals": .99, None: .9}),
    ({"wiki-markup": .6, "speeches": .5, "books-en": .08, "books-intl": .1, "law-de": .15,
      "poetry-zh-json": .2, None: .06},
     {"books-en": .25, "books-intl": .25, "docs-intl": .08, "docs": .18, "logs": .05, "data": .06,
      "git-log": .2, "html": .2, "man": .2, "latex": .25, "proposals": .35, None: .1}),
    ({"law-de": .6, "docs-intl": .5, "wiki-markup": .4, "speeches": .3, "books-intl": .15,
      "latex": .3, "books-en": .05, "docs": .08, "proposals": .08, None: .06},
     {"books-en": .14, "books-intl": .15, "docs-intl": .05, "docs": .08, "logs": .03, "data": .04,
      "git-log": .1, "html": .1, "man": .1, "latex": .2, "proposals": .3, None: .05}),
    ({"law-de": .5, "docs-intl": .3, "wiki-markup": .5, "speeches": .5, "books-intl": .2,
      "latex": .2, None: .1},
     {"books-en": .35, "books-intl": .35, "docs-intl": .12, "docs": .3, "logs": .13, "data": .15,
      "git-log": .3, "html": .3, "man": .3, "latex": .5, "proposals": .5, None: .2}),
    ({"books-en": .22, "books-intl": .4, "law-de": .5, "docs-intl": .3, "wiki-markup": .9, "speeches": .9,
      "latex": .2, None: .1},
     {"books-en": .5, "books-intl": .5, "docs-intl": .09, "docs": .3, "logs": .09, "data": .12,
      "git-log": .3, "html": .3, "man": .3, "latex": .5, "proposals": .5, None: .16}),
    ({"books-en": .3, "docs": .4, "proposals": .3, "books-intl": .95, "docs-intl": .8, "law-de": .95,
      "data": .3, "poetry-zh-json": .3, None: .6},
     {"books-en": .57, "books-intl": .95, "docs-intl": .15, "docs": .85, "logs": .13, "data": .17,
      "git-log": .8, "html": .95, "man": .9, "latex": .95, "proposals": .95, None: .4}),
    ({"wiki-markup": .45, "speeches": .5, "law-de": .4, "docs-intl": .2, "books-intl": .05, "latex": .05,
      "poetry-zh-json": .05, "data": .03, None: .02},
     {"books-en": .2, "books-intl": .2, "docs-intl": .02, "logs": .02, None: .03}),
    ({"books-en": .12, "wiki-markup": .2, "speeches": .2, "law-de": .2, "docs": .1, "docs-intl": .1,
      "proposals": .1, "books-intl": .1, "latex": .1, None: .03},
     {"code": .5, "data": .55, "docs-intl": .35, "logs": .42, None: 1}),
]

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
                while end > start + PIECE - 4 and text[end] & 0xC0 == 0x80:
                    end -= 1
        yield text[start:end]
        start = end


def drawn(name, purpose):
    """Returns a number in [0, 1) that depends on the name and the purpose alone."""
    digest = hashlib.sha256(f"{purpose} {name}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def taken(n, purpose, part, domain, source):
    """Reports whether reading n, counted from 0, draws a part of a document."""
    shares = READINGS[n][source]
    if domain not in shares and domain.startswith("code-"):
        domain = "code"
    return drawn(part, purpose) < shares.get(domain, shares[None])


def reading_of(part, domain, source):
    """Returns which of the first six readings takes a part of a document, or None."""
    for n, purpose in enumerate(["share", "second", "third", "fourth", "fifth", "sixth"]):
        if taken(n, purpose, part, domain, source) and (n > 0 or drawn(part, "quarter") < .25):
            return n + 1
    return None


def main():
    _, train, more, result = sys.argv
    missing = [name for name in sorted(UNREAD) if not os.path.exists(os.path.join(more, name + ".txt"))]
    if missing:
        sys.exit(f"not found in {more}: {', '.join(missing)}")
    out = result + ".part"
    shutil.rmtree(out, ignore_errors=True)
    read = 0
    for source, folder in enumerate([train, more]):
        for domain in sorted(os.listdir(folder)):
            if not os.path.isdir(os.path.join(folder, domain)):
                continue
            for document in sorted(os.listdir(os.path.join(folder, domain))):
                name = f"{domain}/{document.removesuffix('.txt')}"
                if folder == more and name in UNREAD:
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
                    reading = reading_of(part, domain, source)
                    readings = [reading] if reading else []
                    for n, purpose in [(6, "seventh"), (7, "eighth")]:
                        if (folder == train or not readings) and taken(n, purpose, part, domain, source):
                            readings.append(n + 1)
                    for reading in readings:
                        at = os.path.join(out, f"pieces-{reading}", domain)
                        os.makedirs(at, exist_ok=True)
                        origin = "more" if folder == more else "train"
                        with open(os.path.join(at, f"{os.path.basename(part)}-{origin}.txt"), "wb") as file:
                            file.write(piece)
                        read += len(piece)
    os.rename(out, result)
    print(f"{read} bytes in {result}")


if __name__ == "__main__":
    main()
