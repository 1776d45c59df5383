"""Proving that nothing is lost: faults on purpose, and a judgement of what is left afterwards."""
