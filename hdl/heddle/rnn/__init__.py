"""Recurrent engine: LSTM, GRU, plain recurrent and dense layers on the PE array."""
