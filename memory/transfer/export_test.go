package transfer

// Dump makes a dump of objects as an attacker could: each with the hash that it
// takes. The first is the header; a trailer is not needed.
func Dump(objects ...string) []byte {
	var out []byte
	var prev *sum
	for _, o := range objects {
		line, own := chained([]byte(o), prev)
		out = append(append(out, line...), '\n')
		prev = &own
	}
	return out
}

// Parse and ParseLegacy are what a line goes through.
var (
	Parse       = parse
	ParseLegacy = parseLegacy
)
