"""``cw.inspect`` of a store: samples, statistics and thumbnails; as text and as HTML."""
