package memory

import (
	"crypto/sha256"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Content is what a row claims: free text, or a triple, never both at once. The words
// that a triple was taken from are a row of their own, see [Draft.Quotes].
type Content struct {
	Text        string      `json:"text,omitempty"`
	Subject     string      `json:"subject,omitempty"`
	Predicate   string      `json:"predicate,omitempty"`
	Object      string      `json:"object,omitempty"`
	Cardinality Cardinality `json:"cardinality"` // CardinalityUnknown unless chosen
}

// Typed reports whether the content is a triple.
func (c Content) Typed() bool { return c.Subject != "" || c.Predicate != "" || c.Object != "" }

// String is what is shown of the claim, everywhere: the triple as "subject.predicate =
// object", or the text if there is no triple. A subject or predicate that could be read
// as more than itself is in quotes. It has all that a confirmation or a verifier speaks
// for, and nothing else.
func (c Content) String() string {
	if !c.Typed() {
		return c.Text
	}
	return named(c.Subject) + "." + named(c.Predicate) + " = " + c.Object
}

// named is a name as it stands in a triple that is shown.
func named(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return r == '=' || r == '"' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}) {
		return strconv.Quote(s)
	}
	return s
}

// Beside is the free text beside a triple, which lines of other programs may have: words
// that nobody verified with it. It is "" of any row of a store.
func (c Content) Beside() string {
	if !c.Typed() {
		return ""
	}
	return c.Text
}

// Hash is the SHA-256 of the exact content, length-prefixed field by field. A
// permit and a signed confirmation are bound to it.
func (c Content) Hash() [sha256.Size]byte {
	return digest("content/1", c.Text, c.Subject, c.Predicate, c.Object, c.Cardinality.String())
}

func (c Content) check() error {
	if err := checkText("content.text", c.Text, MaxText); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name, value string
		limit       int
	}{
		{"content.subject", c.Subject, MaxField}, {"content.predicate", c.Predicate, MaxField}, {"content.object", c.Object, MaxObject},
	} {
		if err := checkText(f.name, f.value, f.limit); err != nil {
			return err
		}
		if c.Typed() && Canonical(f.value) == "" {
			return invalid(f.name, "required", "a triple has a subject, a predicate and an object")
		}
	}
	if c.Typed() {
		for _, f := range [...]struct{ name, value string }{{"content.subject", c.Subject}, {"content.predicate", c.Predicate}} {
			if err := CheckName(f.name, f.value); err != nil {
				return err
			}
		}
	}
	if c.Beside() != "" {
		return invalid("content.text", "conflict", "a row is a triple or free text: the words of a triple are a row that quotes it")
	}
	if !c.Typed() && Canonical(c.Text) == "" {
		return invalid("content", "required", "a row claims something: text or a triple")
	}
	return cardinalityEnum.check(c.Cardinality)
}

// Asserter is who made the claim. Principal is never empty; for a model, Model
// and Family name which one and of which training prior (SR-1.5, SR-4.6); for a
// tool result, Tool names the tool.
type Asserter struct {
	Principal string `json:"principal"`
	Model     string `json:"model,omitempty"`
	Family    string `json:"family,omitempty"`
	Tool      string `json:"tool,omitempty"`
}

// Group is the independence group of the asserter: sources of one group could
// be wrong together and count once (D-22).
func (a Asserter) Group() string {
	switch {
	case a.Family != "":
		return "family:" + a.Family
	case a.Tool != "":
		return "tool:" + a.Tool
	default:
		return "user:" + a.Principal
	}
}

func (a Asserter) check(o Origin) error {
	for _, f := range [...]struct{ name, value string }{
		{"asserter.principal", a.Principal}, {"asserter.model", a.Model}, {"asserter.family", a.Family}, {"asserter.tool", a.Tool},
	} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	if Canonical(a.Principal) == "" {
		return invalid("asserter.principal", "required", "who asserted it")
	}
	if err := CheckName("asserter.principal", a.Principal); err != nil {
		return err
	}
	switch o {
	case OriginModelDerived, OriginRecallReentry:
		if Canonical(a.Model) == "" {
			return invalid("asserter.model", "required", "a claim of a model names the model")
		}
		if Canonical(a.Family) == "" {
			return invalid("asserter.family", "required", "a claim of a model names its family")
		}
		if a.Tool != "" {
			return invalid("asserter.tool", "conflict", "a model is not a tool")
		}
	case OriginFirstHand:
		if Canonical(a.Tool) == "" {
			return invalid("asserter.tool", "required", "a first-hand claim names the tool or source that gave it")
		}
		if a.Model != "" || a.Family != "" {
			return invalid("asserter.model", "conflict", "what a model says is not first hand")
		}
	case OriginUserAsserted:
		if a.Model != "" || a.Family != "" || a.Tool != "" {
			return invalid("asserter.model", "conflict", "what a model or tool says is not user asserted")
		}
	}
	return nil
}

// Draft is a row to be written. It has no default for origin or state: both are
// chosen on purpose, or [Store.Put] refuses (SR-1.1, I-1).
//
// StateVerified may be chosen in two cases only: a user with authority over the
// subject said it, or an authoritative typed tool field returned it; Evidence
// then holds the record of that. StateUnavailableAtWriteTime means the verifier
// was asked and was down.
type Draft struct {
	Content  Content
	Origin   Origin
	State    State
	Asserter Asserter

	// DerivedFrom are the rows the claim was made from. Their closure and the
	// derivation depth are computed at the write and never change.
	DerivedFrom []ID
	// SelectedBy are rows that decided what was looked up, not what the source
	// said of it. They are recorded, and are no ancestors.
	SelectedBy []ID
	// LineageUnknown says that DerivedFrom may be incomplete: part of what the
	// claim was made from is not known. Such a row can be verified by evidence
	// like any other, and is never fit before.
	LineageUnknown bool

	// Subjects are the persons the row is about, besides the subject of its triple
	// and the person who asserts it: with their erasure the row goes, and whatever
	// was made from it. They are compared as exact names ([ExactName]).
	Subjects []string

	Evidence []Evidence
	// Anchor is the external reference the claim was seen at (MP-12): a document,
	// a tool, a message. Only external origins have one.
	Anchor string

	Sensitivity Sensitivity // required
	Criticality Criticality // unset is treated as critical
	Kind        Kind        // unset = KindRaw
	Layer       Layer       // unset = nobody said; nobody is asked about a row of LayerWorking

	// Two separate confidences in 0..1 (MP-29). They order queues and lists, and
	// appear in no condition that changes a state (SR-4.1).
	ValueConfidence     float64
	ValidTimeConfidence float64

	ValidFrom  time.Time     // zero = not stated
	ValidUntil time.Time     // zero = not stated
	CheckEvery time.Duration // stale this long after the last verification; 0 = 30 days (LS-19), at most ten years

	// LabelOutage has a row that would be unverified written unavailable_at_write_time,
	// where workers say that every verifier of its claim is down ([Store.PublishVerifiers]).
	LabelOutage bool

	Source   string // free text (SR-1.3); it never implies verification. "" = "explicit"
	Category string // free text (SR-1.8)
	Run      string // the run that wrote it

	// Supersedes is the row that this one takes the place of; "" = none.
	Supersedes ID
	// Quotes is the row whose claim was taken from the words of this one; "" = none. A
	// quotation is free text, and is verified or confirmed with no claim.
	Quotes ID
	// Asked is where the line of the content stood before the source was asked. If another
	// value was verified since, the draft is written as history: it may be the older
	// reading. The zero LineMark asks nothing, and what is written last counts as newest.
	Asked LineMark
	// Exact says that no caller chose how the subject is spelled: the operator named it, or it is the
	// principal, or it is the id that stands in the source's record. See [ErrRespelt].
	Exact bool
	// alike is what is known of other spellings.
	alike *alike
	// ours says that the source of a draft that asked to be verified repeats what a call of ours set.
	ours bool
	// DeclaredFrom are those of DerivedFrom that the writer names as its sources. They
	// narrow nothing: the lineage is DerivedFrom (I-8).
	DeclaredFrom []ID
	AgentVersion string    // of the agent that wrote the row
	Task         string    // that it was written for
	Purpose      string    // that it may be used for
	DataClass    DataClass // unset = not known
	Domains      []string  // topics
	// SaidAt is the source's own date of what it says; zero = not stated. No rule of
	// fitness goes by it.
	SaidAt time.Time
	// Grain and confidence of each bound of the valid time. Unset grain = an instant.
	ValidFromGrain, ValidUntilGrain           Granularity
	ValidFromConfidence, ValidUntilConfidence float64
	Foreign                                   []Attribute // what another store knew of the row, as it was
}

// Attribute is a named value that another store kept with a row. No rule reads it.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Check validates the draft: the first broken rule as a [*FieldError], nil if
// [Store.Put] would accept its form.
func (d *Draft) Check() error {
	if err := originEnum.check(d.Origin); err != nil {
		return err
	}
	if err := stateEnum.check(d.State); err != nil {
		return err
	}
	if err := d.Content.check(); err != nil {
		return err
	}
	if err := d.checkQuotation(); err != nil {
		return err
	}
	if err := d.Asserter.check(d.Origin); err != nil {
		return err
	}
	for _, err := range [...]error{
		sensitivityEnum.check(d.Sensitivity),
		optional(criticalityEnum, d.Criticality), optional(kindEnum, d.Kind), optional(layerEnum, d.Layer),
		checkConfidence("value_confidence", d.ValueConfidence), checkConfidence("valid_time_confidence", d.ValidTimeConfidence),
		checkText("anchor", d.Anchor, MaxField), checkText("source", d.Source, MaxField),
		checkText("category", d.Category, MaxField), checkText("run", d.Run, MaxField),
		checkTime("valid_from", d.ValidFrom), checkTime("valid_until", d.ValidUntil),
		checkIDs("derived_from", d.DerivedFrom), checkIDs("selected_by", d.SelectedBy), checkIDs("declared_from", d.DeclaredFrom),
		checkID("supersedes", d.Supersedes), checkID("quotes", d.Quotes),
		checkText("agent_version", d.AgentVersion, MaxField), checkText("task", d.Task, MaxField), checkText("purpose", d.Purpose, MaxField),
		optional(dataClassEnum, d.DataClass), checkTime("said_at", d.SaidAt),
		optional(granularityEnum, d.ValidFromGrain), optional(granularityEnum, d.ValidUntilGrain),
		checkConfidence("valid_from_confidence", d.ValidFromConfidence), checkConfidence("valid_until_confidence", d.ValidUntilConfidence),
		checkAttributes(d.Foreign), checkTexts("domains", d.Domains),
	} {
		if err != nil {
			return err
		}
	}
	if len(d.Subjects) > MaxItems {
		return invalid("subjects", "too_many", "%d, at most %d", len(d.Subjects), MaxItems)
	}
	for _, name := range d.Subjects {
		if err := checkText("subjects", name, MaxField); err != nil {
			return err
		}
		if err := CheckName("subjects", name); err != nil {
			return err
		}
	}
	if d.CheckEvery < 0 || d.CheckEvery > maxCheckEvery {
		return invalid("check_every", "out_of_range", "not between 0 and %s", maxCheckEvery)
	}
	if !d.ValidUntil.IsZero() && d.ValidUntil.Before(d.ValidFrom) {
		return invalid("valid_until", "out_of_range", "before valid_from")
	}
	if d.Anchor != "" && !d.Origin.External() {
		return invalid("anchor", "conflict", "only an external origin has an external anchor")
	}
	if len(d.Evidence) > MaxItems {
		return invalid("evidence", "too_many", "%d, at most %d", len(d.Evidence), MaxItems)
	}
	for i := range d.Evidence {
		if err := d.Evidence[i].check(); err != nil {
			return err
		}
	}
	return d.checkVerified()
}

// checkVerified keeps SR-3.1 and I-3: nothing a model says is born verified.
func (d *Draft) checkVerified() error {
	if d.State != StateVerified {
		for i := range d.Evidence {
			if e := &d.Evidence[i]; e.Relation == RelationSupports && e.Rank > RankModel {
				return invalid("evidence.rank", "not_earned", "a row that is not born verified brings no %s support of its own", e.Rank)
			}
		}
		return nil
	}
	want := Rank(0)
	switch d.Origin {
	case OriginUserAsserted:
		want = RankUser
	case OriginFirstHand:
		want = RankTool
		if !d.Content.Typed() {
			return invalid("state", "not_earned", "only a typed field of a tool can be authoritative, not free text")
		}
	default:
		return invalid("state", "not_earned", "a %s row is never born verified; evidence promotes it", d.Origin)
	}
	own := false
	for i := range d.Evidence {
		switch e := &d.Evidence[i]; {
		case e.Relation != RelationSupports:
		case e.Rank == want && e.Group == d.Asserter.Group():
			own = true
		case e.Rank > RankModel:
			return invalid("evidence.rank", "not_earned", "a draft brings the support of its own source only")
		}
	}
	if own {
		return nil
	}
	return invalid("evidence", "required", "a row born verified records the %s evidence of its asserter", want)
}

const maxCheckEvery = 10 * 365 * 24 * time.Hour

func optional[T ~uint8](e enum[T], v T) error {
	if v == 0 {
		return nil
	}
	return e.check(v)
}

func checkConfidence(field string, v float64) error {
	if math.IsNaN(v) || v < 0 || v > 1 {
		return invalid(field, "out_of_range", "%v is not in 0..1", v)
	}
	return nil
}

var (
	minTime = time.Date(1970, 1, 1, 0, 0, 1, 0, time.UTC) // 0 microseconds means "not stated"
	maxTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
)

func checkTime(field string, t time.Time) error {
	if !t.IsZero() && (t.Before(minTime) || t.After(maxTime)) {
		return invalid(field, "out_of_range", "not between the years 1970 and 9999")
	}
	return nil
}

// maxLabels bounds the attributes and topics of a row.
const maxLabels = 256

func checkAttributes(list []Attribute) error {
	if len(list) > maxLabels {
		return invalid("foreign", "too_many", "%d, at most %d", len(list), maxLabels)
	}
	for _, a := range list {
		if a.Name == "" {
			return invalid("foreign.name", "required", "an attribute has a name")
		}
		if err := checkText("foreign.name", a.Name, MaxField); err != nil {
			return err
		}
		if err := checkText("foreign.value", a.Value, MaxField); err != nil {
			return err
		}
	}
	return nil
}

func checkTexts(field string, list []string) error {
	if len(list) > maxLabels {
		return invalid(field, "too_many", "%d, at most %d", len(list), maxLabels)
	}
	for _, s := range list {
		if s == "" {
			return invalid(field, "required", "it is empty")
		}
		if err := checkText(field, s, MaxField); err != nil {
			return err
		}
	}
	return nil
}

// checkID checks an id that may be missing.
func checkID(field string, id ID) error {
	if id == "" {
		return nil
	}
	return id.check(field)
}

func checkIDs(field string, ids []ID) error {
	if len(ids) > MaxItems {
		return invalid(field, "too_many", "%d, at most %d", len(ids), MaxItems)
	}
	for _, id := range ids {
		if err := id.check(field); err != nil {
			return err
		}
	}
	return nil
}

// Row is a stored claim as a reader sees it now. It is a copy: changing it
// changes nothing.
type Row struct {
	Head // the current state and the immutable facts the gate needs

	Content             Content
	Asserter            Asserter
	DerivedFrom         []ID
	SelectedBy          []ID
	Subjects            []string   // as the draft named them
	Evidence            []Evidence // append-only, oldest first
	Anchor              string
	ValueConfidence     float64
	ValidTimeConfidence float64
	Source              string
	Category            string
	Run                 string
	// As the draft had them.
	Supersedes, Quotes                        ID
	DeclaredFrom                              []ID
	AgentVersion, Task, Purpose               string
	DataClass                                 DataClass
	Domains                                   []string
	SaidAt                                    time.Time
	ValidFromGrain, ValidUntilGrain           Granularity
	ValidFromConfidence, ValidUntilConfidence float64
	Foreign                                   []Attribute

	Echoes    Echoes     // how often the claim came back; supports nothing
	Rejection *Rejection // set while a user's contradiction of the claim stands
}

// Independent counts the standing supports of the row by independence group:
// what a person should read as "how many said so on their own".
func (r *Row) Independent() int {
	groups := map[string]bool{}
	for _, e := range r.Evidence {
		if e.Relation == RelationSupports && !e.Void && e.Rank > RankModel {
			groups[e.Group] = true
		}
	}
	return len(groups)
}

// Echoes is the one corroboration record of a claim: it counts how often the
// claim came back, and is never evidence (MP-16, I-3).
type Echoes struct {
	Count    int       `json:"count"`    // re-entries
	Reworded int       `json:"reworded"` // of them, in another wording
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
}

// Rejection is a user's contradiction. It attaches to the claim key.
type Rejection struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}
