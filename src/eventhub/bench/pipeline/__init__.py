"""The pipeline's benchmark: a made-up history, copied to a lake and derived by Spark in this process.

synth ─▶ database ─▶ copy ─▶ lake ─▶ facts ─▶ marts
            │
            └─▶ Spark's own JDBC source ─▶ Parquet, in the same run

Spark starts before anything is measured.
"""
