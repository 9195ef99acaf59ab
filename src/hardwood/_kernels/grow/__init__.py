"""The loops behind growing trees."""
