#!/usr/bin/env python3
"""Makes the fonts of the PDF out of Debian's packages: python3 make.py INTER_DIR NOTO_DIR OUT_DIR.

INTER_DIR holds Inter-Regular.otf and Inter-SemiBold.otf (package fonts-inter), NOTO_DIR
NotoSansMono-Regular.ttf (package fonts-noto-mono). Needs fontTools. What is left out: scripts that
the report has no layout for, hinting, and layout tables, which it does not read. Inter's digits
become those of equal width.
"""

import sys

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

RANGES = [
    (0x20, 0x7E), (0xA0, 0x24F),  # Latin
    (0x370, 0x3FF), (0x400, 0x52F),  # Greek, Cyrillic
    (0x1E00, 0x1EFF),  # Latin of Vietnam
    (0x2000, 0x209F), (0x20A0, 0x20BF), (0x2100, 0x214F),  # punctuation, currencies, letterlike
    (0x2190, 0x21FF), (0x2200, 0x23FF),  # arrows, mathematics, technical
    (0x2500, 0x26FF), (0x2713, 0x2718), (0xFFFD, 0xFFFD),  # frames, shapes, marks
]


def equal_digits(font):
    """Points the digits and what stands among them at their glyphs of equal width."""
    gsub = font["GSUB"].table
    lookups = {
        i for record in gsub.FeatureList.FeatureRecord if record.FeatureTag == "tnum"
        for i in record.Feature.LookupListIndex
    }
    swap = {}
    for i in lookups:
        for table in gsub.LookupList.Lookup[i].SubTable:
            swap.update(getattr(table, "ExtSubTable", table).mapping)
    wanted = {ord(c) for c in "0123456789+−"}
    for table in font["cmap"].tables:
        for code, glyph in table.cmap.items():
            if code in wanted:
                table.cmap[code] = swap.get(glyph, glyph)


def make(source, target, digits):
    font = TTFont(source, recalcTimestamp=False)
    if digits:
        equal_digits(font)
    options = Options()
    options.layout_features = []
    options.drop_tables += ["GPOS", "GSUB", "GDEF", "DSIG", "gasp", "meta"]
    options.hinting = False
    options.notdef_outline = True
    options.name_IDs = ["*"]
    options.recalc_timestamp = False
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=[c for a, b in RANGES for c in range(a, b + 1)])
    subsetter.subset(font)
    font.save(target)


inter, noto, out = sys.argv[1:]
make(f"{inter}/Inter-Regular.otf", f"{out}/Inter-Regular.otf", True)
make(f"{inter}/Inter-SemiBold.otf", f"{out}/Inter-SemiBold.otf", True)
make(f"{noto}/NotoSansMono-Regular.ttf", f"{out}/NotoSansMono-Regular.ttf", False)
