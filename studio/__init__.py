"""Faces: the command line and the doors of a server. Reaches the tools through `graph`; nobody imports it."""
