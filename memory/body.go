package memory

import (
	"context"
	"fmt"
	"time"
)

// body is the immutable part of a row. It is sealed under the row's class, once.
type body struct {
	Content             Content
	Origin              Origin
	Asserter            Asserter
	DerivedFrom         []ID
	SelectedBy          []ID
	Anchor              string
	ValueConfidence     float64
	ValidTimeConfidence float64
	ValidFrom           time.Time
	ValidUntil          time.Time
	CheckEvery          time.Duration
	Source              string
	Category            string
	Run                 string
	Subjects            []string
	// What follows is optional.
	Supersedes           ID
	Quotes               ID
	DeclaredFrom         []ID
	AgentVersion         string
	Task                 string
	Purpose              string
	DataClass            DataClass
	Domains              []string
	SaidAt               time.Time
	ValidFromGrain       Granularity
	ValidUntilGrain      Granularity
	ValidFromConfidence  float64
	ValidUntilConfidence float64
	Foreign              []Attribute
	Exact                uint8 // 1 = [Draft.Exact]
}

// draft is what of a body its identity and the terms that it is found by depend on.
func (v *body) draft() Draft {
	return Draft{Content: v.Content, Origin: v.Origin, Asserter: v.Asserter, Run: v.Run, Anchor: v.Anchor, Subjects: v.Subjects, Quotes: v.Quotes}
}

func (v *body) encode() []byte {
	e := encoder{b: make([]byte, 0, 192+len(v.Content.Text))}
	for _, s := range [...]string{v.Content.Text, v.Content.Subject, v.Content.Predicate, v.Content.Object,
		v.Asserter.Principal, v.Asserter.Model, v.Asserter.Family, v.Asserter.Tool, v.Anchor, v.Source, v.Category, v.Run} {
		e.str(s)
	}
	e.byte(byte(v.Content.Cardinality))
	e.byte(byte(v.Origin))
	e.ids(v.DerivedFrom)
	e.ids(v.SelectedBy)
	e.float(v.ValueConfidence)
	e.float(v.ValidTimeConfidence)
	e.time(v.ValidFrom)
	e.time(v.ValidUntil)
	e.num(uint64(v.CheckEvery))
	e.strs(v.Subjects)
	e.members(v.members)
	return e.b
}

func (v *body) decode(b []byte) error {
	d := decoder{b: b}
	for _, s := range [...]*string{&v.Content.Text, &v.Content.Subject, &v.Content.Predicate, &v.Content.Object,
		&v.Asserter.Principal, &v.Asserter.Model, &v.Asserter.Family, &v.Asserter.Tool, &v.Anchor, &v.Source, &v.Category, &v.Run} {
		*s = d.str()
	}
	v.Content.Cardinality, v.Origin = Cardinality(d.byte()), Origin(d.byte())
	v.DerivedFrom, v.SelectedBy = d.ids(), d.ids()
	v.ValueConfidence, v.ValidTimeConfidence = d.float(), d.float()
	v.ValidFrom, v.ValidUntil = d.time(), d.time()
	v.CheckEvery = time.Duration(d.num())
	v.Subjects = d.strs()
	d.members(v.members)
	return d.end()
}

// members lists the optional members.
func (v *body) members(m *members) {
	m.id(1, &v.Supersedes)
	m.id(2, &v.Quotes)
	m.ids(3, &v.DeclaredFrom)
	m.str(4, &v.AgentVersion)
	m.str(5, &v.Task)
	m.str(6, &v.Purpose)
	octet(m, 7, &v.DataClass)
	m.strs(8, &v.Domains)
	m.time(9, &v.SaidAt)
	octet(m, 10, &v.ValidFromGrain)
	octet(m, 11, &v.ValidUntilGrain)
	m.float(12, &v.ValidFromConfidence)
	m.float(13, &v.ValidUntilConfidence)
	member(m, 14, &v.Foreign, empty, (*encoder).attributes, (*decoder).attributes)
	octet(m, 15, &v.Exact)
}

func (e *encoder) attributes(list []Attribute) {
	e.num(uint64(len(list)))
	for _, a := range list {
		e.str(a.Name)
		e.str(a.Value)
	}
}

func (d *decoder) attributes() (list []Attribute) {
	n := d.num()
	if n > uint64(len(d.b)) {
		d.bad = true
	}
	for i := uint64(0); i < n && !d.bad; i++ {
		list = append(list, Attribute{Name: d.str(), Value: d.str()})
	}
	return list
}

// body opens the body of a row.
func (s *Store) body(ctx context.Context, o Object) (body, error) {
	var b body
	if o.Data == nil {
		return b, fmt.Errorf("%w: no %s", ErrDamaged, KeyText(o.Key))
	}
	plain, err := s.unseal(ctx, o.Key, o.Revision, o.Data)
	if err == nil {
		err = b.decode(plain)
	}
	return b, faulty(err, "row body")
}
