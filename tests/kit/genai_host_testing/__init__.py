"""What the tests of the plugins of genai-host share: hosts, stores, and services that answer as the
real ones do. What third parties need is in `genai_host.testing`."""
