"""Commands: enclosed in a sandbox, watched, ended with all they started."""
