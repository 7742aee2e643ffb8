"""The graph's nodes, one verb a file."""
