# The rule of the gate: the rows that may not feed a call. It may fire if there are
# none.
package gate

read_only if input.effect == "read_only"

blocked contains i if {
	some i, row in input.rows
	row.revision == 0
}

blocked contains i if {
	some i, row in input.rows
	row.sensitivity == 0
}

blocked contains i if {
	some i, row in input.rows
	row.sensitivity > input.ceiling
}

blocked contains i if {
	not read_only
	some i, row in input.rows
	unfit(row)
}

unfit(row) if row.security != "clean"

unfit(row) if row.tainted

unfit(row) if {
	row.retrieval != "normal"
	not cleared(row)
}

unfit(row) if row.truth != "supported"

unfit(row) if not row.freshness in {"fresh", "stale"}

unfit(row) if {
	row.expires_at != 0
	input.now >= row.expires_at
}

unfit(row) if {
	row.valid_until != 0
	input.now >= row.valid_until
}

unfit(row) if {
	input.max_age > 0
	input.now - row.verified_at >= input.max_age
}

unfit(row) if {
	input.effect == "irreversible"
	row.rank < 4
}

unfit(row) if {
	input.effect == "irreversible"
	row.contested
}

cleared(row) if {
	row.retrieval == "privileged_only"
	input.privileged
}
