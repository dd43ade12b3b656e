"""Arithmetic over timelines: TTFP, RTF, E2EL, stalls, throughput, service levels."""
