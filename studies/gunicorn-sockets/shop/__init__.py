"""A small shop: pages from templates and a catalogue in SQLite, with the same bytes every time."""
