package memory

import (
	"bytes"
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
	// What follows is of form 2.
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
}

// bodyForm begins a body.
const bodyForm = "\x80\x00\x02"

// draft is what of a body its identity and the terms that it is found by depend on.
func (v *body) draft() Draft {
	return Draft{Content: v.Content, Origin: v.Origin, Asserter: v.Asserter, Run: v.Run, Anchor: v.Anchor, Subjects: v.Subjects, Quotes: v.Quotes}
}

func (v *body) encode() []byte {
	e := encoder{b: make([]byte, 0, 192+len(v.Content.Text))}
	e.b = append(e.b, bodyForm...)
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
	e.str(string(v.Supersedes))
	e.str(string(v.Quotes))
	e.ids(v.DeclaredFrom)
	e.str(v.AgentVersion)
	e.str(v.Task)
	e.str(v.Purpose)
	e.byte(byte(v.DataClass))
	e.strs(v.Domains)
	e.time(v.SaidAt)
	e.byte(byte(v.ValidFromGrain))
	e.byte(byte(v.ValidUntilGrain))
	e.float(v.ValidFromConfidence)
	e.float(v.ValidUntilConfidence)
	e.num(uint64(len(v.Foreign)))
	for _, a := range v.Foreign {
		e.str(a.Name)
		e.str(a.Value)
	}
	return e.b
}

func (v *body) decode(b []byte) error {
	rest, ok := bytes.CutPrefix(b, []byte(bodyForm))
	d := decoder{b: rest, bad: !ok}
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
	v.Supersedes, v.Quotes, v.DeclaredFrom = ID(d.str()), ID(d.str()), d.ids()
	v.AgentVersion, v.Task, v.Purpose = d.str(), d.str(), d.str()
	v.DataClass, v.Domains, v.SaidAt = DataClass(d.byte()), d.strs(), d.time()
	v.ValidFromGrain, v.ValidUntilGrain = Granularity(d.byte()), Granularity(d.byte())
	v.ValidFromConfidence, v.ValidUntilConfidence = d.float(), d.float()
	n := d.num()
	if n > uint64(len(d.b)) {
		return errWire
	}
	for range n {
		v.Foreign = append(v.Foreign, Attribute{Name: d.str(), Value: d.str()})
	}
	return d.end()
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

// faulty turns a decoding fault into one of the store, and leaves others alone.
func faulty(err error, what string) error {
	if err == errWire {
		return fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	return err
}
