#!/usr/bin/env python3
"""Turn pages of a Wikipedia dump (XML with wiki markup) into text in the style of WikiText.

    python3 tools/wikitext.py PART.xml > PART.txt

A page becomes its title, headings and paragraphs, one line each. Spaces surround punctuation;
commas, points and hyphens inside words and numbers become @,@ @.@ @-@. Tables, templates,
references, lists of links and redirects are left out.
"""
import html
import re
import sys

PAGE = re.compile(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)(?:</text>|\Z)", re.S)
NESTED = re.compile(r"\{\{[^{}]*\}\}|\{\|(?:(?!\{\|).)*?\|\}", re.S)
DROPPED = re.compile(r"<!--.*?-->|<(math|gallery|table|ref|timeline|pre|nowiki)\b.*?</\1\s*>|<[^>]*>", re.S | re.I)
FILES = re.compile(r"\[\[(?:Image|File|Category|[a-z-]{2,12}):(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]", re.I)
LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
OUTSIDE = re.compile(r"\[(?:https?|ftp)://\S+\s*([^\]]*)\]|https?://\S+")


def prose(markup):
    """Returns the markup's paragraphs and headings."""
    text = html.unescape(html.unescape(markup))
    text = DROPPED.sub("", text)
    while True:
        less = NESTED.sub("", text)
        if less == text:
            break
        text = less
    text = FILES.sub("", text)
    text = LINK.sub(r"\1", LINK.sub(r"\1", text))
    text = OUTSIDE.sub(lambda m: m.group(1) or "", text)
    text = re.sub(r"'{2,}", "", text)
    for line in text.split("\n"):
        line = line.strip()
        heading = re.fullmatch(r"(=+)\s*(.*?)\s*=+", line)
        if heading:
            yield len(heading.group(1)), heading.group(2)
        elif len(line) > 60 and line[0] not in "*#:;|{}!<[":
            yield 0, line


def apart(line):
    """Returns words and punctuation with spaces between them."""
    line = re.sub(r"(?<=\d)([.,])(?=\d)", r" @\1@ ", line)
    line = re.sub(r"(?<=\w)-(?=\w)", " @-@ ", line)
    line = re.sub(r"(?<!@)([,;:!?()\[\]\"“”—/%$&])(?!@)", r" \1 ", line)
    line = re.sub(r"(?<=\w)('s|'re|'ll|'ve|'d|'m|n't)\b", r" \1", line)
    line = re.sub(r"(?<=[\w'\")])\.(?=\s|$)(?<![A-Z]\.)(?<!\.\w\.)", " .", line)
    return re.sub(r"\s+", " ", line).strip()


def main():
    source = open(sys.argv[1], encoding="utf-8").read()
    for title, markup in PAGE.findall(source):
        lines = list(prose(markup))
        if sum(len(text) for level, text in lines if level == 0) < 500:
            continue
        print(f" \n = {apart(html.unescape(title))} = \n ")
        for i, (level, text) in enumerate(lines):
            if level == 0:
                print(f" {apart(text)} ")
            elif i + 1 < len(lines) and (lines[i + 1][0] == 0 or lines[i + 1][0] > level):
                marks = " ".join("=" * level)
                print(f" \n {marks} {apart(text)} {marks} \n ")


if __name__ == "__main__":
    main()
