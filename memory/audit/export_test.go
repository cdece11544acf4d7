package audit

// SetChunk sets how many leaves a maker puts into one checkpoint.
func SetChunk(m *Maker, n int) { m.perChunk = n }
