"""What runs outside the engine: local programs, and the agents that answer `llm` stages."""
