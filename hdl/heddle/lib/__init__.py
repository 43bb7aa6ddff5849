"""Parts that take no configuration: streams, queues, delays, one-hot selection, adder trees."""
