"""Facts: what a run knows, what a thread keeps, and where it lies on disk. Imports no other layer."""
