package memory

// Held reports whether neither the row nor anything made from it may be shown or
// acted on: it is quarantined or malicious, or was once, and no user has reviewed it
// since. Recall and the gate ask it of every ancestor of a row. A suspicious row is
// not shown itself, and holds nothing else.
func (h *Head) Held() bool {
	return h.Security != SecurityClean && h.Security != SecuritySuspicious || h.Has(FlagTainted)
}
