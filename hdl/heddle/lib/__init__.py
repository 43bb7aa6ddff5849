"""Components without configuration: streams, queues, delays, one-hot selection, adder trees, products, ALU, integer reduction."""
