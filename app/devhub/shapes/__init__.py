"""How GitHub spells what the hub keeps: records to JSON, complete enough for GitHub's own description."""
