"""What calls cost: recorded, aggregated, and limited by budgets."""
