"""How many launches a sampler needs: studies in virtual time on boxes whose best is known."""
