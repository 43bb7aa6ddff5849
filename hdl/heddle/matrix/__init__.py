"""Matrix unit: fetches columns of B from shared memory and broadcasts them to the PEs, which multiply and accumulate."""
