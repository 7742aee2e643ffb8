"""A talk at a terminal: its input line, its slash commands, and what it shows of thread and run."""
