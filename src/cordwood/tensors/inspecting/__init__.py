"""``cw.inspect`` of a tensor file: what is in it, what is shared, what is waste; as text and as HTML."""
