"""Files as texts: read, matched, edited, patched, and shown as differences."""
