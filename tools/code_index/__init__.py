"""Code search: what the workspace's files hold, in pieces that are found by words and by meaning."""
