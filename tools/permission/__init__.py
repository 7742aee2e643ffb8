"""What a call may do: the table by mode, the rules a person writes, and what a command would run."""
