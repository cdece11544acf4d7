// Package rlab is the recall-loop amplification bench. It plays scenarios against memories:
// what an agent once said comes back, is said again, and counts as proof. It measures how many
// memories one invention becomes, how many sources the memory counts for it, and what an agent
// may do on it. Beside each attack stands its benign twin, so that a memory which refuses
// everything does not look good.
//
// No model is called. The agent is a table: it recalls, says the claim again in a wording of
// the table, and writes it back, whatever it was shown; so every system is fed the same. The
// truth about a write stays in the harness: a system is told what [System] says and no more.
//
// docs/bench.md says what each scenario feeds and measures.
package rlab
