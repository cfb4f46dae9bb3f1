#!/usr/bin/env python3
"""Prints tables of the documentation from the measurements of publish.sh: tables.py WORK [BEFORE].

BEFORE is the folder of an earlier model's measurements. With it, each row ends with the change of
its last column.
"""
import json
import os
import sys


def load(folder, name):
    path = os.path.join(folder, name + ".json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def bits(row):
    return [score["bits_per_byte"] for score in row["scores"]]


def table(work, before, name, rows):
    """Prints the given rows of a measurement: domains or documents."""
    new, old = load(work, name), before and load(before, name)
    if not new:
        return
    print(f"\n{name}: {new['model']}, first {new['max_bytes']} bytes, {new['data']}\n")
    print("| | documents | bytes |", " | ".join(new["methods"]), "| saved by fast weights |")
    print("|---|---:|---:|" + "---:|" * (len(new["methods"]) + 1))
    earlier = {row["name"]: bits(row)[-1] for row in old[rows] + [old["total"]]} if old else {}
    for row in new[rows] + [new["total"]]:
        b = bits(row)
        cells = [f"{x:.3f}" for x in b] + [f"{b[-2] - b[-1]:.3f} ({100 * (1 - b[-1] / b[-2]):.1f} %)"]
        change = f" {b[-1] - earlier[row['name']]:+.3f}" if row["name"] in earlier else ""
        print(f"| {row['name']} | {row['documents']} | {row['bytes']:,} |", " | ".join(cells), "|" + change)


def beyond(work):
    """Prints what fast weights save of the bits behind the first 100,000 bytes of long documents."""
    whole, start = load(work, "long"), load(work, "start")
    if not whole or not start:
        return
    print("\nbehind the first 100,000 bytes:")
    first = {row["name"]: row for row in start["documents"]}
    saved = []
    for row in whole["documents"]:
        count = row["bytes"] - first[row["name"]]["bytes"]
        if count < 100000:
            continue
        a, b = [
            (x["bits"] - y["bits"]) / count
            for x, y in zip(row["scores"][-2:], first[row["name"]]["scores"][-2:])
        ]
        saved.append(100 * (1 - b / a))
        print(f"{row['name']}, {count:,} bytes: {a:.4f} {b:.4f}, {saved[-1]:.1f} % less")
    print(f"mean of {len(saved)} documents: {sum(saved) / len(saved):.1f} % less")


def main():
    work = sys.argv[1]
    before = sys.argv[2] if len(sys.argv) > 2 else None
    for name, rows in ("short", "domains"), ("test", "domains"), ("test2", "domains"), ("long", "documents"):
        table(work, before, name, rows)
    beyond(work)


if __name__ == "__main__":
    main()
