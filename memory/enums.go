package memory

// The closed enumerations of a row. Value 0 of each is "unset": nobody chose it.
// It is refused on input, and everything that reads one treats it as the least
// trusted value (I-1). Unknown text is an error.

// State is the verification state of a row (SR-1.1, SR-2.1): three values, no default. Only StateVerified is fit to act on.
type State uint8

// The values of [State].
const (
	StateUnverified             State = 1 // nobody has checked the claim, or it was contradicted
	StateUnavailableAtWriteTime State = 2 // the verifier was down when the row was written (SR-2.2) and has not answered since
	StateVerified               State = 3 // independent evidence of sufficient rank supports the claim
)

var stateEnum = enum[State]{"state", []string{"", "unverified", "unavailable_at_write_time", "verified"}}

// String returns the wire name, or "unset".
func (v State) String() string { return stateEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v State) MarshalText() ([]byte, error) { return stateEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *State) UnmarshalText(b []byte) error { return stateEnum.unmarshal(v, b) }

// Truth is the truth axis (LS-1): is it true?.
type Truth uint8

// The values of [Truth].
const (
	TruthUnverified   Truth = 1 // not known
	TruthSupported    Truth = 2 // supported by independent evidence
	TruthContradicted Truth = 3 // contradicted by evidence of higher rank, or by a user
	TruthSuperseded   Truth = 4 // replaced by a later claim, see [FlagOutdated]; or retracted, and then for good
)

var truthEnum = enum[Truth]{"truth", []string{"", "unverified", "supported", "contradicted", "superseded"}}

// String returns the wire name, or "unset".
func (v Truth) String() string { return truthEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Truth) MarshalText() ([]byte, error) { return truthEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Truth) UnmarshalText(b []byte) error { return truthEnum.unmarshal(v, b) }

// Retrieval is the retrieval axis (LS-2): may it be retrieved?.
type Retrieval uint8

// The values of [Retrieval].
const (
	RetrievalHidden         Retrieval = 1 // in no channel
	RetrievalRestricted     Retrieval = 2 // in the uncertain channel only
	RetrievalNormal         Retrieval = 3 // in every channel its other axes allow
	RetrievalPrivilegedOnly Retrieval = 4 // only for a reader with clearance
	RetrievalBlocked        Retrieval = 5 // never, until a user lifts it
)

var retrievalEnum = enum[Retrieval]{"retrieval", []string{"", "hidden", "restricted", "normal", "privileged_only", "blocked"}}

// String returns the wire name, or "unset".
func (v Retrieval) String() string { return retrievalEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Retrieval) MarshalText() ([]byte, error) { return retrievalEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Retrieval) UnmarshalText(b []byte) error { return retrievalEnum.unmarshal(v, b) }

// Security is the security axis (LS-3): is it safe?.
type Security uint8

// The values of [Security].
const (
	SecurityClean       Security = 1 // nothing known against it
	SecuritySuspicious  Security = 2 // under suspicion; not fit
	SecurityQuarantined Security = 3 // kept for investigation; not retrieved, not fit
	SecurityMalicious   Security = 4 // known to be an attack; a user who finds otherwise puts it back under quarantine
)

var securityEnum = enum[Security]{"security", []string{"", "clean", "suspicious", "quarantined", "malicious"}}

// String returns the wire name, or "unset".
func (v Security) String() string { return securityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Security) MarshalText() ([]byte, error) { return securityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Security) UnmarshalText(b []byte) error { return securityEnum.unmarshal(v, b) }

// Freshness is the freshness axis (LS-4): is it current?.
type Freshness uint8

// The values of [Freshness].
const (
	FreshnessFresh   Freshness = 1 // verified or written lately
	FreshnessStale   Freshness = 2 // past its check-by time; still usable, due for a check
	FreshnessExpired Freshness = 3 // too old to act on
)

var freshnessEnum = enum[Freshness]{"freshness", []string{"", "fresh", "stale", "expired"}}

// String returns the wire name, or "unset".
func (v Freshness) String() string { return freshnessEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Freshness) MarshalText() ([]byte, error) { return freshnessEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Freshness) UnmarshalText(b []byte) error { return freshnessEnum.unmarshal(v, b) }

// Outage is whether the verifier was down when the row was written (SR-2.2).
type Outage uint8

// The values of [Outage].
const (
	OutageNone     Outage = 1 // the verifier was up, or was not needed
	OutageRecorded Outage = 2 // it was down, and has not answered since
	OutageResolved Outage = 3 // it was down, and has answered since
)

var outageEnum = enum[Outage]{"outage", []string{"", "none", "recorded", "resolved"}}

// String returns the wire name, or "unset".
func (v Outage) String() string { return outageEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Outage) MarshalText() ([]byte, error) { return outageEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Outage) UnmarshalText(b []byte) error { return outageEnum.unmarshal(v, b) }

// Sensitivity is how secret the content is (LS-9). It describes content, not state; an unset one is treated as secret.
type Sensitivity uint8

// The values of [Sensitivity].
const (
	SensitivityPublic       Sensitivity = 1 // may go anywhere
	SensitivityInternal     Sensitivity = 2 // stays inside; the default ceiling of a context (LS-20)
	SensitivityConfidential Sensitivity = 3 // for few
	SensitivitySecret       Sensitivity = 4 // leaves by no tool that has not the clearance
)

var sensitivityEnum = enum[Sensitivity]{"sensitivity", []string{"", "public", "internal", "confidential", "secret"}}

// String returns the wire name, or "unset".
func (v Sensitivity) String() string { return sensitivityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Sensitivity) MarshalText() ([]byte, error) { return sensitivityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Sensitivity) UnmarshalText(b []byte) error { return sensitivityEnum.unmarshal(v, b) }

// Criticality is what hangs on the claim being right (MP-31). An unset one is treated as critical.
type Criticality uint8

// The values of [Criticality].
const (
	CriticalityLow      Criticality = 1 // nothing much; the only one that two models of other families may verify (I-4)
	CriticalityMedium   Criticality = 2 // something
	CriticalityHigh     Criticality = 3 // a lot
	CriticalityCritical Criticality = 4 // money, access, safety
)

var criticalityEnum = enum[Criticality]{"criticality", []string{"", "low", "medium", "high", "critical"}}

// String returns the wire name, or "unset".
func (v Criticality) String() string { return criticalityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Criticality) MarshalText() ([]byte, error) { return criticalityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Criticality) UnmarshalText(b []byte) error { return criticalityEnum.unmarshal(v, b) }

// Kind is the kind of memory (KN-28..35).
type Kind uint8

// The values of [Kind].
const (
	KindRaw          Kind = 1 // as captured; the default
	KindEpisode      Kind = 2 // something that happened
	KindNote         Kind = 3 // a remark
	KindBelief       Kind = 4 // held to be so
	KindGoal         Kind = 5 // wanted
	KindRelationship Kind = 6 // about another being
	KindValue        Kind = 7 // held dear
	KindDrive        Kind = 8 // a motive
)

var kindEnum = enum[Kind]{"kind", []string{"", "raw", "episode", "note", "belief", "goal", "relationship", "value", "drive"}}

// String returns the wire name, or "unset".
func (v Kind) String() string { return kindEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Kind) MarshalText() ([]byte, error) { return kindEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Kind) UnmarshalText(b []byte) error { return kindEnum.unmarshal(v, b) }

// Layer is the memory layer (C12-1.3.2).
type Layer uint8

// The values of [Layer].
const (
	LayerWorking    Layer = 1 // for minutes: no verifier is asked about it
	LayerSession    Layer = 2 // for hours
	LayerEpisodic   Layer = 3 // durable
	LayerSemantic   Layer = 4 // canonical
	LayerProcedural Layer = 5 // canonical, how to do things
)

var layerEnum = enum[Layer]{"layer", []string{"", "working", "session", "episodic", "semantic", "procedural"}}

// String returns the wire name, or "unset".
func (v Layer) String() string { return layerEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Layer) MarshalText() ([]byte, error) { return layerEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Layer) UnmarshalText(b []byte) error { return layerEnum.unmarshal(v, b) }

// Cardinality is how many objects a subject may have for one predicate (MP-30).
type Cardinality uint8

// The values of [Cardinality].
const (
	CardinalityUnknown    Cardinality = 1 // not stated; the default
	CardinalityFunctional Cardinality = 2 // one: another object is a contradiction
	CardinalitySetValued  Cardinality = 3 // many
)

var cardinalityEnum = enum[Cardinality]{"cardinality", []string{"", "unknown", "functional", "set_valued"}}

// String returns the wire name, or "unset".
func (v Cardinality) String() string { return cardinalityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Cardinality) MarshalText() ([]byte, error) { return cardinalityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Cardinality) UnmarshalText(b []byte) error { return cardinalityEnum.unmarshal(v, b) }

// Rank is the rank of a source (SR-4.7): an order, never a score. Compare with <.
type Rank uint8

// The values of [Rank].
const (
	RankRecall        Rank = 1 // the claim coming back; supports nothing
	RankModel         Rank = 2 // one model
	RankSecondModel   Rank = 3 // a model of another family
	RankTool          Rank = 4 // a tool result
	RankPrimarySource Rank = 5 // a pinned document or table
	RankUser          Rank = 6 // a user with authority over the subject
)

var rankEnum = enum[Rank]{"rank", []string{"", "recall", "model", "second_model", "tool", "primary_source", "user"}}

// String returns the wire name, or "unset".
func (v Rank) String() string { return rankEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Rank) MarshalText() ([]byte, error) { return rankEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Rank) UnmarshalText(b []byte) error { return rankEnum.unmarshal(v, b) }

// Relation is what a piece of evidence does to a claim.
type Relation uint8

// The values of [Relation].
const (
	RelationSupports       Relation = 1 // says the same
	RelationContradicts    Relation = 2 // says otherwise
	RelationContextualizes Relation = 3 // says something beside it
)

var relationEnum = enum[Relation]{"relation", []string{"", "supports", "contradicts", "contextualizes"}}

// String returns the wire name, or "unset".
func (v Relation) String() string { return relationEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Relation) MarshalText() ([]byte, error) { return relationEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Relation) UnmarshalText(b []byte) error { return relationEnum.unmarshal(v, b) }

// Authority is in what capacity a transition is made (UP-L1).
type Authority uint8

// The values of [Authority].
const (
	AuthorityUser            Authority = 1 // a person, by a signed statement or typed words
	AuthorityPolicy          Authority = 2 // a rule of the operator
	AuthorityProbe           Authority = 3 // a verifier that looked
	AuthoritySentinel        Authority = 4 // a detector; may only lower
	AuthorityReflection      Authority = 5 // a pass over memory; proposes
	AuthorityAutoObservation Authority = 6 // the narrow auto-promotion policy (LS-36)
	AuthoritySystem          Authority = 7 // the runtime itself, by the clock
)

var authorityEnum = enum[Authority]{"authority", []string{"", "user", "policy", "probe", "sentinel", "reflection", "auto_observation", "system"}}

// String returns the wire name, or "unset".
func (v Authority) String() string { return authorityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Authority) MarshalText() ([]byte, error) { return authorityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Authority) UnmarshalText(b []byte) error { return authorityEnum.unmarshal(v, b) }

// Axis is what a transition moves.
type Axis uint8

// The values of [Axis].
const (
	AxisTruth     Axis = 1 // see Truth
	AxisRetrieval Axis = 2 // see Retrieval
	AxisSecurity  Axis = 3 // see Security
	AxisFreshness Axis = 4 // see Freshness
	AxisOutage    Axis = 5 // see Outage
	AxisKind      Axis = 6 // see Kind
	AxisLayer     Axis = 7 // see Layer
)

var axisEnum = enum[Axis]{"axis", []string{"", "truth", "retrieval", "security", "freshness", "outage", "kind", "layer"}}

// String returns the wire name, or "unset".
func (v Axis) String() string { return axisEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Axis) MarshalText() ([]byte, error) { return axisEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Axis) UnmarshalText(b []byte) error { return axisEnum.unmarshal(v, b) }

// Granularity says how exact a bound of the valid time is. What is shown of it is never
// more exact than what was stated (UP-M7). Unset is an instant.
type Granularity uint8

// The values of [Granularity].
const (
	GranularityYear    Granularity = 1 // 2021
	GranularityMonth   Granularity = 2 // 2021-03
	GranularityDay     Granularity = 3 // 2021-03-14
	GranularityInstant Granularity = 4 // 2021-03-14T09:26:53Z
)

var granularityEnum = enum[Granularity]{"granularity", []string{"", "year", "month", "day", "instant"}}

// String returns the wire name, or "unset".
func (v Granularity) String() string { return granularityEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v Granularity) MarshalText() ([]byte, error) { return granularityEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *Granularity) UnmarshalText(b []byte) error { return granularityEnum.unmarshal(v, b) }

// DataClass says what sort of data a row holds, for rules of retention. Unset is not
// known, and is kept like the strictest. It is not [Class], which is of keys.
type DataClass uint8

// The values of [DataClass].
const (
	DataClassPublic      DataClass = 1 // about nobody, or published
	DataClassOperational DataClass = 2 // of the work itself: orders, tickets, settings
	DataClassPersonal    DataClass = 3 // about a natural person
	DataClassSensitive   DataClass = 4 // health, belief, origin, biometrics, and their like
	DataClassCredential  DataClass = 5 // a secret that gives access
)

var dataClassEnum = enum[DataClass]{"data_class", []string{"", "public", "operational", "personal", "sensitive", "credential"}}

// String returns the wire name, or "unset".
func (v DataClass) String() string { return dataClassEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v DataClass) MarshalText() ([]byte, error) { return dataClassEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *DataClass) UnmarshalText(b []byte) error { return dataClassEnum.unmarshal(v, b) }

// SourceKind says what sort of source a piece of evidence is of. It decides nothing; rank
// and group do.
type SourceKind uint8

// The values of [SourceKind].
const (
	SourceKindDocument SourceKind = 1 // a text that anybody can look at
	SourceKindAPI      SourceKind = 2 // a service that was asked
	SourceKindTool     SourceKind = 3 // a tool of the agent
	SourceKindHuman    SourceKind = 4 // a person
	SourceKindModel    SourceKind = 5 // a language model
	SourceKindCode     SourceKind = 6 // a computation
	SourceKindRow      SourceKind = 7 // another row
)

var sourceKindEnum = enum[SourceKind]{"evidence.kind", []string{"", "document", "api", "tool", "human", "model", "code", "row"}}

// String returns the wire name, or "unset".
func (v SourceKind) String() string { return sourceKindEnum.text(v) }

// MarshalText returns the wire name; an unset or unknown value is an error.
func (v SourceKind) MarshalText() ([]byte, error) { return sourceKindEnum.marshal(v) }

// UnmarshalText accepts exactly the wire names.
func (v *SourceKind) UnmarshalText(b []byte) error { return sourceKindEnum.unmarshal(v, b) }
