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
}

func (v *body) encode() []byte {
	e := encoder{b: make([]byte, 0, 128+len(v.Content.Text))}
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
	e.num(uint64(len(v.Subjects)))
	for _, s := range v.Subjects {
		e.str(s)
	}
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
	n := d.num()
	if n > uint64(len(d.b)) {
		return errWire
	}
	for range n {
		v.Subjects = append(v.Subjects, d.str())
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

// claimRecord is what is known of a claim key, whatever rows carry it.
type claimRecord struct {
	First     ID
	Rejected  ID // the row whose rejection stands; "" = none does
	Rejection *Rejection
}

func (s *Store) claimOf(ctx context.Context, o Object) (c claimRecord, err error) {
	if o.Data == nil {
		return c, nil
	}
	d := decoder{b: o.Data}
	ids := d.ids()
	if d.bad || len(ids) == 0 || len(ids) > 2 || len(ids) == 1 && len(d.b) > 0 {
		return c, faulty(errWire, "claim record")
	}
	if c.First = ids[0]; len(ids) == 1 {
		return c, nil
	}
	c.Rejected = ids[1]
	plain, err := s.unseal(ctx, o.Key, o.Revision, d.b)
	if isErased(err) {
		c.Rejection = &Rejection{By: "(erased)", Reason: "(erased)"} // it stands, whoever it was
		return c, nil
	}
	if err != nil {
		return c, err
	}
	r := decoder{b: plain}
	c.Rejection = &Rejection{By: r.str(), Reason: r.str(), At: r.time()}
	return c, faulty(r.end(), "claim record")
}

// claim puts the record of a claim. A rejection is sealed under the class of the
// row that was rejected.
func (t *atom) claim(key string, from uint64, c claimRecord, class Class) {
	e := encoder{}
	if c.Rejection == nil {
		e.ids([]ID{c.First})
		t.put(Put{Key: key, From: from, Data: e.b})
		return
	}
	e.ids([]ID{c.First, c.Rejected})
	said := encoder{}
	said.str(c.Rejection.By)
	said.str(c.Rejection.Reason)
	said.time(c.Rejection.At)
	t.put(Put{Key: key, From: from, Data: append(e.b, t.seal(class, key, from, said.b)...)})
}
