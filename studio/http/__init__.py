"""HTTP, SSE and WebSocket: the routes below /api and the socket at /ws, one file a noun."""
