"""The matrix unit: fetches columns of B, broadcasts them and lets the lanes multiply and accumulate."""
