"""PROOF: experiments that kill real processes and count real effects."""
