"""Usage and cost of calls: recorded, aggregated, and limited by budgets."""
