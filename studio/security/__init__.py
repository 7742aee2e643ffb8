"""Who may come in by HTTP and WebSocket, and what may leave: token, guard, masked keys."""
