"""The attack: what people, disks and machines do to adadim, in large numbers; ``python -m attack`` runs it."""
