"""What a run is told at its beginning, gathered from the prompt, the client and the workspace."""
