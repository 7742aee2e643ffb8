"""Files below one folder, reached whatever links and races do, and changed at once."""
