"""The log: columns while a replication runs, frames and parquet afterwards. The two wings of the program meet here."""
