package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"
)

// Walker is what [Store.Walk] calls. Each of the two may be nil.
type Walker struct {
	// Entry is given the entries of a log in order, as they are stored: one may be a
	// pack of several. Its data are the walker's own.
	Entry func(key string, l LogEntry) error
	// End is given the objects that a log is held against once its entries were given:
	// first the one that it is the history of, at the revision of the last entry,
	// unless it does not belong to the log.
	End func(key string, beside []Object) error
	// Damaged is told of an object that cannot be read, before End is given it without
	// data. If it is nil the walk ends there.
	Damaged func(key string, err error) error
}

// walkPage is how many entries are read at once. Three pages are held at a time, with
// their objects.
const walkPage = 2000

// Walk reads all logs of the scope in the order of their keys, some thousands of
// entries in one trip, and each with the objects beside it. It leans on no index.
// Others may write, erase and compact meanwhile: what a log was when its objects
// were read is given whole. It verifies nothing; [Auditor] does.
func (s *Store) Walk(ctx context.Context, to Walker) error {
	if _, err := s.admit(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	pages := s.withObjects(ctx, s.scan(ctx))
	defer func() {
		cancel()
		for range pages { // until nobody reads any more
		}
	}()
	w := walking{s: s, ctx: ctx, to: to}
	for p := range pages {
		if err := w.page(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// scanned is a page of log entries, the logs that are over with it, and the objects
// that these are held against.
type scanned struct {
	entries []Logged
	more    bool
	ended   []string
	objects []Object
	damage  map[string]error // by key of the object
	err     error
}

// pass hands pages on, one at a time, until the context or the work ends. Whoever
// makes the next page does so while the one before it is looked at: a server has
// something to do meanwhile.
func pass(ctx context.Context, work func(pass func(scanned) bool)) <-chan scanned {
	pages := make(chan scanned)
	go func() {
		defer close(pages)
		work(func(p scanned) bool {
			select {
			case pages <- p:
				return p.err == nil
			case <-ctx.Done():
				return false
			}
		})
	}()
	return pages
}

// scan reads all log entries of the scope.
func (s *Store) scan(ctx context.Context) <-chan scanned {
	return pass(ctx, func(pass func(scanned) bool) {
		p := scanned{more: true}
		for after := (LogPlace{}); p.more; {
			p.entries, p.more, p.err = s.driver.Scan(ctx, s.scope.tenant, "", after, walkPage)
			if n := len(p.entries); n > 0 {
				after = p.entries[n-1].Place()
			} else if p.more && p.err == nil {
				p.err = fmt.Errorf("%w: a page without entries, and more to come", ErrStore)
			}
			if s.scope.namespace == "" {
				p.entries, after = ownSpace(p.entries, after)
			}
			if !pass(p) {
				return
			}
		}
	})
}

// withObjects reads the objects beside the logs of each page. They are read after the
// entries: what is written between the two reads is an entry too few, and that can
// be read.
func (s *Store) withObjects(ctx context.Context, pages <-chan scanned) <-chan scanned {
	return pass(ctx, func(pass func(scanned) bool) {
		defer func() {
			for range pages { // until nobody reads any more
			}
		}()
		open := "" // a log that may go on in the next page
		for p := range pages {
			if open != "" {
				p.ended = append(p.ended, open)
			}
			for i := range p.entries {
				if n := len(p.ended); n == 0 || p.ended[n-1] != p.entries[i].Key {
					p.ended = append(p.ended, p.entries[i].Key)
				}
			}
			open = ""
			if n := len(p.ended); p.more && n > 0 {
				open, p.ended = p.ended[n-1], p.ended[:n-1]
			}
			if p.err == nil && len(p.ended) > 0 {
				p.objects, p.damage, p.err = s.salvage(ctx, besideLogs(p.ended))
			}
			if !pass(p) {
				return
			}
		}
	})
}

// salvage reads objects as they are stored, and says which of them are not what was
// written. Where the driver cannot read one of them, the others are read all the same.
func (s *Store) salvage(ctx context.Context, keys []string) ([]Object, map[string]error, error) {
	objs, damaged, err := s.driver.asStored(ctx, s.scope.tenant, keys)
	damage := map[string]error{}
	if err == nil || len(keys) == 1 || ctx.Err() != nil || !errors.Is(err, ErrStore) {
		for _, i := range damaged {
			damage[objs[i].Key] = &TamperError{objs[i].Key, objs[i].Revision, "the object is not what was written"}
		}
		return objs, damage, err
	}
	objs = make([]Object, len(keys))
	for i, key := range keys {
		one, damaged, fault := s.driver.asStored(ctx, s.scope.tenant, []string{key})
		switch {
		case fault != nil && (ctx.Err() != nil || !errors.Is(fault, ErrStore)):
			return nil, nil, fault
		case fault != nil:
			objs[i].Key = key
			damage[key] = &TamperError{key, 0, "the object cannot be read"}
		default:
			if objs[i] = one[0]; len(damaged) > 0 {
				damage[key] = &TamperError{key, one[0].Revision, "the object is not what was written"}
			}
		}
	}
	if len(damage) == len(keys) {
		return nil, nil, err // it is the store that does not answer
	}
	return objs, damage, nil
}

// ownSpace leaves out the logs of the other namespaces of a tenant, whose keys lie
// together, and goes on after them.
func ownSpace(page []Logged, after LogPlace) ([]Logged, LogPlace) {
	const end = "\x02" // the first key after all that begin with the mark
	from := sort.Search(len(page), func(i int) bool { return page[i].Key >= spaceMark })
	to := sort.Search(len(page), func(i int) bool { return page[i].Key >= end })
	if to == len(page) && from < to {
		after = LogPlace{Key: end}
	}
	return append(page[:from:from], page[to:]...), after
}

// walking is one walk. key is the log that was begun and not ended; last is its
// last entry that was given.
type walking struct {
	s    *Store
	ctx  context.Context
	to   Walker
	key  string
	last uint64
}

// page gives what was read.
func (w *walking) page(p scanned) error {
	if p.err != nil {
		return p.err
	}
	page, ended, objs := p.entries, p.ended, p.objects
	for len(page) > 0 || len(ended) > 0 {
		if w.key == "" {
			w.key, w.last = page[0].Key, 0
		}
		give := w.give
		if w.last > 0 {
			give = w.later // the entry before it is of another page
		}
		for ; len(page) > 0 && page[0].Key == w.key; page = page[1:] {
			if err := give(page[0].LogEntry); err != nil {
				return err
			}
			give = w.give
		}
		if len(ended) == 0 {
			break
		}
		n := besides(w.key)
		if err := w.damaged(objs[:n:n], p.damage); err != nil {
			return err
		}
		if err := w.end(objs[:n:n]); err != nil {
			return err
		}
		ended, objs = ended[1:], objs[n:]
	}
	return nil
}

// damaged tells of those objects that are not what was written.
func (w *walking) damaged(objs []Object, damage map[string]error) error {
	for i := range objs {
		err := damage[objs[i].Key]
		if err != nil && w.to.Damaged != nil {
			err = w.to.Damaged(objs[i].Key, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// later gives an entry that was read later than the one before it. It may be a pack
// that was made meanwhile, and hold entries that were given already: of such a one,
// those that follow are given one by one.
func (w *walking) later(l LogEntry) error {
	if !packed(l) {
		return w.give(l)
	}
	var all []LogEntry
	for one, err := range expand(l) {
		if err != nil {
			return w.give(l) // whoever verifies it finds out
		}
		all = append(all, one)
	}
	if all[0].Revision > w.last {
		return w.give(l)
	}
	for _, one := range all {
		if one.Revision > w.last {
			if err := w.give(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walking) give(l LogEntry) error {
	w.last = l.Revision
	if w.to.Entry == nil {
		return nil
	}
	return w.to.Entry(w.key, l)
}

// end ends a log: what came to it since it was read, up to the object beside it.
func (w *walking) end(objs []Object) (err error) {
	for again := true; again; {
		if again, err = w.catchUp(objs[0].Revision); err != nil {
			return err
		}
		if again {
			var damage map[string]error
			if objs, damage, err = w.s.salvage(w.ctx, besideLogs([]string{w.key})); err == nil {
				err = w.damaged(objs, damage)
			}
			if err != nil {
				return err
			}
		}
	}
	key := w.key
	w.key, w.last = "", 0
	if w.to.End == nil {
		return nil
	}
	return w.to.End(key, objs)
}

// catchUp gives the entries up to a revision. again says that what the log is of was
// erased after that: the payloads of what was just given may be gone already, so that
// the erasure must be given too.
func (w *walking) catchUp(revision uint64) (again bool, err error) {
	if revision <= w.last {
		return false, nil
	}
	for l, err := range w.s.stored(w.ctx, w.key, w.last) {
		if err != nil {
			return false, err
		}
		for one, err := range expand(l) {
			switch {
			case err != nil:
				return false, w.give(l) // whoever verifies it finds out
			case one.Revision <= w.last:
			case one.Revision <= revision:
				if err := w.give(one); err != nil {
					return false, err
				}
			default:
				var r record
				if _, err := r.decode(one.Data); err == nil && kindOf(r.kind) == EntryErase && !erasureKey.holds(w.key) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// besides is how many objects a log is held against.
func besides(log string) int {
	if headKey.holds(log) && len(log) == len(headKey)+packedID {
		return 3
	}
	return 1
}

// besideLogs are the objects that logs are held against: that of the log, and of a
// row's head the evidence and the note.
func besideLogs(logs []string) []string {
	keys := make([]string, 0, 3*len(logs))
	for _, key := range logs {
		keys = append(keys, key)
		if besides(key) > 1 {
			row := key[len(headKey):]
			keys = append(keys, string(evidKey)+row, string(noteKey)+row)
		}
	}
	return keys
}

// Logs lists what the store has of logs, by key. It leans on no index.
func (s *Store) Logs(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after := ""; ; {
			keys, next, err := s.driver.Logs(ctx, s.scope.tenant, "", after, 1000)
			if err != nil {
				yield("", err)
				return
			}
			for _, k := range keys {
				if s.scope.namespace == "" && strings.HasPrefix(k, spaceMark) {
					continue // another namespace
				}
				if !yield(k, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}
