# SPDX-License-Identifier: Apache-2.0
"""Turns tables of published trainings into canonical rows (validation/README.md)."""
