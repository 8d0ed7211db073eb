"""What an H200 does with tensor maps and bulk copies: probes, cases, recordings."""
