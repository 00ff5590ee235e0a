"""Shared parts of the tests of genai-host's plugins: hosts, stores and simulated services.

The parts that third parties need are in `genai_host.testing`.
"""
