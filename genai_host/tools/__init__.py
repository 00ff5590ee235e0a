"""Tools that models call: sources, execution, reactions."""
