"""A small shop: pages from templates over a catalogue in SQLite, the same bytes every time."""
