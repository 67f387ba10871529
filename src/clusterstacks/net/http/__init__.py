"""HTTP client for release sources and chart repositories: bounded, with retries, proxies and an allowlist."""
