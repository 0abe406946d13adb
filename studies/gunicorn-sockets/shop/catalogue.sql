-- The shop's catalogue. Each worker builds its database from this text.

CREATE TABLE category (
    id   INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);

CREATE TABLE product (
    id          INTEGER PRIMARY KEY,
    category_id INTEGER NOT NULL REFERENCES category (id),
    slug        TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    blurb       TEXT NOT NULL,
    cents       INTEGER NOT NULL,
    stock       INTEGER NOT NULL
);
CREATE INDEX product_category ON product (category_id);

CREATE TABLE review (
    id         INTEGER PRIMARY KEY,
    product_id INTEGER NOT NULL REFERENCES product (id),
    author     TEXT NOT NULL,
    stars      INTEGER NOT NULL,
    text       TEXT NOT NULL
);
CREATE INDEX review_product ON review (product_id);

INSERT INTO category (id, slug, name) VALUES
    (1, 'kitchen', 'Kitchen'),
    (2, 'garden', 'Garden'),
    (3, 'workshop', 'Workshop');

INSERT INTO product (category_id, slug, name, blurb, cents, stock) VALUES
    (1, 'bread-knife', 'Bread knife', 'A serrated blade of carbon steel in a beech handle.', 3450, 12),
    (1, 'cast-iron-pan', 'Cast iron pan', 'Seasoned with flax oil, 26 cm, for life.', 5900, 7),
    (1, 'chopping-board', 'Chopping board', 'End grain oak that forgives the knife.', 4200, 9),
    (1, 'colander', 'Colander', 'Enamelled steel with a firm foot.', 2150, 15),
    (1, 'ladle', 'Ladle', 'Holds a quarter of a litre and hangs by its hook.', 1290, 31),
    (1, 'mortar', 'Mortar', 'Granite, three kilos, with a pestle that fits.', 3980, 5),
    (1, 'rolling-pin', 'Rolling pin', 'Turned from one piece of maple.', 1850, 22),
    (1, 'whisk', 'Whisk', 'Eleven wires of stainless steel.', 990, 40),
    (2, 'dibber', 'Dibber', 'An ash handle, a steel point, marks for the depth.', 1680, 18),
    (2, 'hand-fork', 'Hand fork', 'Forged tines that don''t bend in clay.', 2240, 14),
    (2, 'hoe', 'Hoe', 'A half-moon blade on an oak shaft.', 3620, 8),
    (2, 'pruning-saw', 'Pruning saw', 'Cuts on the pull and folds into its handle.', 2890, 11),
    (2, 'rake', 'Rake', 'Fourteen teeth, and a head that stays on.', 3150, 10),
    (2, 'secateurs', 'Secateurs', 'A bypass blade that can be taken out and sharpened.', 4490, 13),
    (2, 'trowel', 'Trowel', 'A long blade for deep roots.', 1990, 25),
    (2, 'watering-can', 'Watering can', 'Zinc, nine litres, with a brass rose.', 5200, 6),
    (3, 'block-plane', 'Block plane', 'A low angle for end grain.', 8900, 4),
    (3, 'bradawl', 'Bradawl', 'Starts a screw where it should go.', 1150, 27),
    (3, 'chisel', 'Chisel', '18 mm of tool steel in a hornbeam handle.', 3300, 16),
    (3, 'dovetail-saw', 'Dovetail saw', 'Fifteen teeth to the inch, filed for the rip.', 7450, 3),
    (3, 'mallet', 'Mallet', 'Oak, with leather on one face.', 2750, 12),
    (3, 'marking-gauge', 'Marking gauge', 'A wheel in place of a pin: no torn fibres.', 4150, 9),
    (3, 'spokeshave', 'Spokeshave', 'A flat sole and two screws to set the iron.', 5650, 5),
    (3, 'try-square', 'Try square', 'Steel in rosewood, true to a hair.', 3870, 10);

-- Two to five reviews per product, with values from sums and remainders alone.
WITH RECURSIVE number (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 4
)
INSERT INTO review (product_id, author, stars, text)
SELECT
    product.id,
    substr('Ada   Bo    Carl  Dora  Edda  Finn  ', 1 + 6 * ((product.id * 5 + n) % 6), 6),
    3 + (product.id + n * 2) % 3,
    CASE (product.id + n) % 4
        WHEN 0 THEN 'Does what it should, and will for years.'
        WHEN 1 THEN 'Heavier than it looks, which I like.'
        WHEN 2 THEN 'Arrived well packed; the finish could be finer.'
        ELSE 'My second one. The first was borrowed and never came back.'
    END
FROM product, number
WHERE n < 2 + product.id % 4
ORDER BY product.id, n;

UPDATE review SET author = trim(author);
