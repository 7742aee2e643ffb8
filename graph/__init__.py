"""Mind: the LangGraph graph, its nodes, strategies and models. Imports `tools` and `state`."""
