package memory

import (
	"fmt"
	"strings"
)

// place is a kind of object, and what its keys begin with. A row is several
// objects: corroboration, evidence and due marks are their own, so that they
// conflict with nothing and move no fitness version.
type place string

const (
	headKey     place = "h/" // the fitness of a row; its log is the row's history
	bodyKey     place = "b/" // what the row says, sealed
	evidKey     place = "e/" // its evidence, sealed: a projection of the logs of head and note
	noteKey     place = "n/" // has the log of evidence that moved no state
	dueKey      place = "d/" // when it wants a check, and how often it was read
	identKey    place = "i/" // which row has an identity
	claimKey    place = "c/" // what is known of a claim, and which rows it has
	echoKey     place = "o/" // how often a claim came back
	lineKey     place = "l/" // the verified rows of a line; put by who verifies one
	decisionKey place = "x/" // what the gate decided
	holdKey     place = "q/" // a held call, sealed
	callKey     place = "a/" // which hold, or which call without an outcome, stands in the way of a call
	erasureKey  place = "r/" // how far an erasure is, and its certificate
	// Which row a name of another store stands for. It stays when the row is erased, so
	// that an old dump does not bring the row back; if it is lost, the claim still
	// collapses onto the row.
	importKey  place = "m/"
	cursorKey  place = "u/" // how far an import is
	classKey   place = "k/" // the key of a class, wrapped
	endedKey   place = "g/" // exists once the data key of a subject is being destroyed
	checkptKey place = "p/"
	fenceKey   place = "f/" // moves with every write that takes from a row
	ledgerKey  place = "w/" // a part of what a run has read, cited by its decisions
	handKey    place = "v/" // a nonce of a hand-over: what is left under it, or that it was spent; it has a log
	runKey     place = "z/" // exists once a run with held calls has ended
	ownKey     place = "y/" // what calls that rested on unfit rows set about a subject
	alikeKey   place = "t/" // the lines of names that are spelled alike, or who gave a value that was rejected
	systemKey  place = "s/"
	// What workers say of verifiers. Not a system object: an older one that was put back
	// chooses a label until its lease ends, and closes no gate.
	statusKey place = "j/"
)

var placeNames = map[place]string{headKey: "head", bodyKey: "body", evidKey: "evidence", noteKey: "note", dueKey: "due",
	identKey: "identity", claimKey: "claim", echoKey: "echo", lineKey: "line", decisionKey: "decision", holdKey: "hold", callKey: "call", erasureKey: "erasure",
	importKey: "import", cursorKey: "importing", classKey: "class", endedKey: "ended", checkptKey: "checkpoint",
	fenceKey: "fence", ledgerKey: "ledger", handKey: "handover", runKey: "run", ownKey: "own write", alikeKey: "alike", systemKey: "system", statusKey: "status"}

// of is the key of an object of a row. What is no id gives a key that nothing is ever
// written at: there is no such row.
func (p place) of(id ID) string {
	var b [2 + packedID]byte
	return string(appendID(append(b[:0], p...), id))
}

// each appends the keys of an object of each row. They share their bytes: a decision
// asks for thousands.
func (p place) each(keys []string, ids []ID) []string {
	const size = 2 + packedID
	packed := make([]byte, 0, size*len(ids))
	for _, id := range ids {
		packed = appendID(append(packed, p...), id)
	}
	all := string(packed)
	for _, id := range ids {
		if len(packed) < size*len(ids) { // one of them is no id
			keys = append(keys, p.of(id))
			continue
		}
		keys, all = append(keys, all[:size]), all[size:]
	}
	return keys
}

// at is the key of an object named by a token.
func (p place) at(t Token) string { return string(p) + string(t[:]) }

// named is the key of an object with a name of its own.
func (p place) named(name string) string { return string(p) + name }

func (p place) holds(key string) bool { return strings.HasPrefix(key, string(p)) }

// placeOf is the place of a key, and what follows.
func placeOf(key string) (place, string) {
	const size = 2
	if len(key) < size {
		return "", key
	}
	return place(key[:size]), key[size:]
}

// rowOf is the row that an object belongs to, or "".
func rowOf(key string) ID {
	p, rest := placeOf(key)
	switch p {
	case headKey, bodyKey, evidKey, noteKey, dueKey:
		if len(rest) == packedID {
			return unpackIDs([]byte(rest))[0]
		}
	}
	return ""
}

// HeadKey is the key of the object that a driver keeps the fitness of a row in.
// Like DecisionKey and EchoKey it is for tools that look at a driver from below.
func HeadKey(id ID) string { return headKey.of(id) }

// RowOfKey is the row that an object or log belongs to, or "" if it belongs to none: the
// head, the content, the evidence or a mark of the row.
func RowOfKey(key string) ID { return rowOf(key) }

// DecisionKey is the key of the object of a decision.
func DecisionKey(id string) string { return decisionKey.named(id) }

// EchoKey is the key of the corroboration record of a claim, as a head names it.
func EchoKey(claim Token) string { return echoKey.at(claim) }

// KeyText writes the key of an object or log for people: "head/mem_…". It is the
// same for no two keys.
func KeyText(key string) string {
	p, rest := placeOf(key)
	name := placeNames[p]
	switch {
	case name == "":
		return fmt.Sprintf("%q", key)
	case rowOf(key) != "":
		return name + "/" + string(rowOf(key))
	case strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789_") == "":
		return name + "/" + rest
	}
	return fmt.Sprintf("%s/%x", name, rest)
}

var (
	epochKey       = systemKey.named("epoch")
	keysKey        = systemKey.named("keys")
	checkpointHead = systemKey.named("checkpoint")
	outageKey      = statusKey.named("verifiers")
	witnessKey     = systemKey.named("witness") // its log says which witnesses the store has had
)

// untoldKey begins the keys of what the witness was not told of at once.
const untoldKey = place("s/untold_")
