package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// examination is one look of the doctor at everything.
type examination struct {
	*app
	store       *storeFlags
	redis       string // URL of the queue
	deployment  string // of the queues; "" = those of the tenant
	worker      string // URL of a worker
	maxUnsigned time.Duration
	maxWait     time.Duration

	server, promise string
	has             memory.Witnessing // what the store says of its witness
	findings        []memory.Finding
	skipped         map[string]bool // what was not looked at, by the names of findings
}

const (
	// maxSkew is how far two clocks may be apart. Checkpoints look back a minute.
	maxSkew = 10 * time.Second
	// rowsPatience is for how long rows are read to see that they can be.
	rowsPatience = 5 * time.Second
	// peerPatience is how long a queue or a worker may take to answer.
	peerPatience = 5 * time.Second
)

func (x *examination) good(name, found string, args ...any) {
	x.findings = append(x.findings, memory.Finding{Name: name, Found: fmt.Sprintf(found, args...), Safe: true})
}

func (x *examination) bad(name, found, loss, fix string) {
	x.findings = append(x.findings, memory.Finding{Name: name, Found: found, Loss: loss, Fix: fix})
}

// skip is for what was not looked at: that is neither good nor bad.
func (x *examination) skip(name, found string) {
	if x.skipped == nil {
		x.skipped = map[string]bool{}
	}
	x.skipped[name] = true
	x.findings = append(x.findings, memory.Finding{Name: name, Found: found})
}

// run makes the findings. An error means that the store does not open; the
// findings then say so too, unless nothing was asked of it.
func (x *examination) run(ctx context.Context) error {
	url, o, err := x.storeOptions(x.store)
	if err != nil {
		return err
	}
	err = x.opened(ctx, url, o)
	if err != nil && len(x.findings) == 0 {
		_, hint := classify(err)
		if hint == "" {
			hint = "see docs/stores.md"
		}
		x.bad("store", storeurl.Redacted(url)+": "+err.Error(), "nothing can be read or written, so that nothing that needs a verified row runs", hint)
	}
	x.witness(ctx, url)
	x.queue(ctx, o)
	x.workers(ctx)
	return err
}

// declarations lists what the tools of late calls loosen by their declarations.
func (x *examination) declarations(ctx context.Context, s *memory.Store) {
	const late = 200
	decisions, err := s.NewestDecisions(ctx, late)
	if err != nil {
		x.failed("declarations", err)
		return
	}
	tools := map[string][]string{}
	for i := range decisions {
		var said struct {
			Loosened []string `json:"loosened"`
		}
		tool := decisions[i].Tool
		if _, known := tools[tool]; !known && json.Unmarshal(decisions[i].Data, &said) == nil && len(said.Loosened) > 0 {
			tools[tool] = said.Loosened
		}
	}
	var list []string
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		list = append(list, tool+": "+strings.Join(tools[tool], ", "))
	}
	if len(list) == 0 {
		list = []string{"none loosens anything"}
	}
	x.good("declarations", "of the tools of the last %s, %s", plural(len(decisions), "call"), strings.Join(list, "; "))
}

// opened looks at the store and its keys.
func (x *examination) opened(ctx context.Context, url string, o *storeurl.Options) error {
	d, err := storeurl.Driver(ctx, url, o)
	if err != nil {
		return err
	}
	defer d.Close()
	i, err := d.Inspect(ctx)
	if err != nil {
		return err
	}
	x.server, x.promise = i.Server, i.Promise
	x.good("store", "%s opens, and is of this program's schema", storeurl.Redacted(url))
	x.findings = append(x.findings, i.Findings...)
	if !i.Clock.IsZero() {
		x.skew("clock", "the server", i.Clock)
	}
	keys, err := storeurl.Keys(ctx, url, o)
	if err != nil {
		x.bad("keys.folder", err.Error(), "nothing in the store can be read without its keys",
			"name the keyring that the store was made with (--keyring or HEARSAY_KEYRING), or bring its backup back; hearsay keyring create makes one for a new store")
		return nil
	}
	if ring, ok := keys.(*keyring.Ring); ok {
		x.findings = append(x.findings, ring.Findings()...)
	}
	s, err := memory.New(d, keys, &o.Options)
	if err != nil {
		return err
	}
	last, err := s.LastCheckpoint(ctx)
	if errors.Is(err, memory.ErrKey) {
		x.bad("keys fit the store", "no", "nothing in the store can be read with these keys", "name the keyring that the store was made with (--keyring or HEARSAY_KEYRING)")
		return nil
	}
	if err != nil {
		x.failed("keys fit the store", err)
		return nil
	}
	x.good("keys fit the store", "yes")
	if err := s.CheckWrites(ctx); err != nil {
		x.bad("store takes writes", "no: "+err.Error(), "nothing of what is there; but no call that changes something runs, and nothing new is kept",
			"let the server or this user write, or make room; see docs/stores.md")
	} else {
		x.good("store takes writes", "yes, a small one")
	}
	x.declarations(ctx, s)
	if x.has, err = s.Witnessing(ctx); err != nil {
		x.failed("witness of the store", err)
	}
	x.readable(ctx, s)
	x.erasures(ctx, s, keys)
	x.future(ctx, s)
	x.behind(ctx, s, last)
	x.checkpoints(ctx, s, last)
	x.due(ctx, s)
	return nil
}

// failed is a check that ended in an error: what cannot be found out is not safe.
func (x *examination) failed(name string, err error) {
	x.bad(name, "not found out: "+err.Error(), "unknown", "mend what is said above, and look again")
}

func (x *examination) skew(name, whose string, clock time.Time) {
	off := clock.Sub(x.now()).Round(time.Second)
	if off.Abs() <= maxSkew {
		x.good(name, "that of %s is right within %s", whose, maxSkew)
		return
	}
	x.bad(name, fmt.Sprintf("that of %s is %s off this one", whose, off),
		"nothing; but entries of several machines are out of order, rows fall due early or late, and a checkpoint may look past an entry", "let all machines take the time from one source (NTP)")
}

// readable reads rows, for as long as it may: a keyring that is an older copy lacks
// the keys of newer subjects.
func (x *examination) readable(ctx context.Context, s *memory.Store) {
	until := time.Now().Add(rowsPatience)
	rows, all := 0, true
	damaged, first := 0, error(nil)
	for _, err := range s.Rows(ctx, memory.Filter{}) {
		if errors.Is(err, memory.ErrDamaged) {
			if damaged++; first == nil {
				first = err
			}
			continue
		}
		if errors.Is(err, memory.ErrKey) {
			x.bad("keys.complete", fmt.Sprintf("a row after the first %d was sealed under a key that the keyring has not", rows),
				"what such rows say: the keyring is an older copy than the store", "bring back the newest copy of the keyring that there is")
			return
		}
		if err != nil {
			x.failed("keys.complete", err)
			return
		}
		if rows++; time.Now().After(until) {
			all = false
			break
		}
	}
	if damaged > 0 {
		x.bad("rows.whole", fmt.Sprintf("%d rows are not what was written: %v", damaged, first), "what they say; no call rests on them",
			"somebody changed the store behind its back, or its disk fails: hearsay audit verify names what was changed; the keyring is not the cause")
	}
	if all {
		x.good("keys.complete", "%d rows, all of them can be read", rows)
	} else {
		x.good("keys.complete", "the first %d rows can be read; no more were looked at", rows)
	}
}

// erasures looks for those that did not end, and for keys of erased subjects that
// are there again.
func (x *examination) erasures(ctx context.Context, s *memory.Store, keys memory.Keys) {
	done, open, back, unread := 0, 0, 0, 0
	var first, blind memory.Erased
	for e, err := range s.Erasures(ctx) {
		if err != nil {
			x.failed("erasures", err)
			return
		}
		if e.Open {
			if open++; open == 1 {
				first = e
			}
			continue // its keys may be there still
		}
		if done++; e.Unread > 0 {
			if unread++; unread == 1 {
				blind = e
			}
		}
		for _, k := range e.Keys {
			if _, err := keys.Seal(ctx, k, nil, nil); err == nil {
				back++
			}
		}
	}
	if open > 0 {
		x.bad("erasures", fmt.Sprintf("%d done, %d unfinished, of subject digest %s the first (request digest %s)", done, open, first.Subject, first.Request),
			"nothing; but what is to be erased can still be read, and there is no certificate", "run hearsay erase again with the same --subject; if one is running now, wait for it")
	} else if unread == 0 {
		x.good("erasures", "%d done, none unfinished", done)
	}
	if unread > 0 {
		x.bad("erasures.unread", fmt.Sprintf("%d of %d erasures left rows that nobody could read, that of subject digest %s the first (request digest %s): %d", unread, done, blind.Subject, blind.Request, blind.Unread),
			"nothing; but whether those rows name the subject is not known", "put the rows right (hearsay row list names them), and run hearsay erase again with the same --subject")
	}
	if back > 0 {
		x.bad("keys.destroyed", fmt.Sprintf("%d data keys of erased subjects are in the keyring again", back),
			"the erasure: an older copy of the keyring was brought back, and with it backups of the store can be read", "run hearsay erase again for whoever was erased since that copy was made")
	} else if done > 0 {
		x.good("keys.destroyed", "no key of an erased subject is in the keyring")
	}
}

// future looks for entries that a machine wrote whose clock is ahead.
func (x *examination) future(ctx context.Context, s *memory.Store) {
	for l, err := range s.Changed(ctx, memory.SequenceAt(s.Now().Add(maxSkew))) {
		if err != nil {
			x.failed("entries of the future", err)
			return
		}
		x.bad("entries of the future", "the last entry of "+memory.KeyText(l.Key)+" is later than now",
			"nothing; but a machine that writes has a clock that is ahead, and what is written by others meanwhile seems older", "set its clock right, or that of this machine")
		return
	}
	x.good("entries of the future", "none")
}

// behind asks the witness whether the store has what was acknowledged.
func (x *examination) behind(ctx context.Context, s *memory.Store, last memory.Checkpoint) {
	path := x.getenv(witnessVariable)
	if path == "" {
		return // said elsewhere
	}
	w, err := witnesshttp.OpenToRead(ctx, path, x.getenv)
	if err != nil {
		return // said elsewhere
	}
	defer w.Close()
	ledger := w.Ledger(s.Tenant(), s.Namespace())
	lost, err := ledger.Behind(ctx, s)
	if err != nil {
		x.failed("store has what the witness saw", err)
		return
	}
	seen, err := ledger.Checkpoint(ctx)
	switch {
	case err != nil:
		x.failed("store has what the witness saw", err)
	case len(lost) > 0:
		x.bad("store has what the witness saw", fmt.Sprintf("no: %d acknowledged demotions or erasures are missing, the first of %s", len(lost), memory.KeyText(lost[0].Key)),
			"they are lost already: an older copy was restored, or a fail-over went to a replica that lagged; the gate is closed", "run hearsay store recover")
	case seen > last.Index:
		x.bad("store has what the witness saw", fmt.Sprintf("no: it saw checkpoint %d, and the store is at %d", seen, last.Index),
			"what was written since is lost already: an older copy was restored", "bring a newer copy back; if there is none, and you know why: hearsay store recover --accept-older")
	default:
		x.good("store has what the witness saw", "yes, up to checkpoint %d", seen)
	}
}

func (x *examination) checkpoints(ctx context.Context, s *memory.Store, last memory.Checkpoint) {
	first := func(since memory.Sequence) (key string, err error) {
		for l, err := range s.Changed(ctx, since) {
			return l.Key, err
		}
		return "", nil
	}
	const fix = "run a worker with -checkpoint-key, or hearsay audit checkpoint on schedule"
	if last.Index == 0 {
		switch any, err := first(0); {
		case err != nil:
			x.failed("checkpoints", err)
		case any == "":
			x.good("checkpoints", "none, and nothing to sign yet")
		default:
			x.bad("checkpoints", "none", "nothing; but that a row is missing altogether, or that a log was cut together with its object, goes unnoticed", fix)
		}
		return
	}
	age := x.now().Sub(last.Until.Time()).Round(time.Second)
	// Logs come in the order of their last entries: if the first one since the
	// checkpoint is also the first of those that are recent, none is overdue.
	oldest, err := first(last.Until + 1)
	var recent string
	if err == nil {
		recent, err = first(max(last.Until+1, memory.SequenceAt(s.Now().Add(-x.maxUnsigned))))
	}
	switch {
	case err != nil:
		x.failed("checkpoints", err)
	case oldest != recent:
		x.bad("checkpoints", fmt.Sprintf("number %d is %s old, and entries since then have waited for longer than %s", last.Index, age, x.maxUnsigned),
			"nothing; but what is taken away of those entries goes unnoticed", fix)
	case oldest != "":
		x.good("checkpoints", "number %d is %s old; newer entries wait for the next one", last.Index, age)
	default:
		x.good("checkpoints", "number %d is %s old, and nothing was written since", last.Index, age)
	}
}

// due looks for rows that wait for a check and get none.
func (x *examination) due(ctx context.Context, s *memory.Store) {
	const most = 1000
	n, oldest := 0, memory.Due{}
	for d, err := range s.DueRows(ctx, s.Now()) {
		if err != nil {
			x.failed("rows due", err)
			return
		}
		if n++; n == 1 {
			oldest = d
		}
		if n > most {
			break
		}
	}
	if n == 0 {
		x.good("rows due", "none")
		return
	}
	count := plural(min(n, most), "row")
	if n > most {
		count = "more than " + count
	}
	wait := s.Now().Sub(oldest.At).Round(time.Second)
	if wait > x.maxWait {
		x.bad("rows due", fmt.Sprintf("%s, the oldest for %s", count, wait),
			"nothing; but nobody checks them: what was true and is not any more stays verified, and calls stay blocked", "start a worker with a verifier that covers them, and look at its log")
		return
	}
	x.good("rows due", "%s, the oldest for %s", count, wait)
}

// witness looks at the file of the witness, or asks its server.
func (x *examination) witness(ctx context.Context, url string) {
	path := x.getenv(witnessVariable)
	const (
		loss = "that an older copy of the store was restored, or that a fail-over lost a demotion, would go unnoticed"
		fix  = "set HEARSAY_WITNESS to a file on another disk or machine, for programs and commands alike"
	)
	const closed = "nothing yet; but the gate stays closed, nothing is erased, and what is demoted meanwhile would be lost unnoticed"
	giveUp := "; if it is lost for good: hearsay witness give-up " + x.has.ID.String()
	switch {
	case path == "" && x.has.ID != (memory.Token{}):
		x.bad("witness", "the store has one, "+x.has.ID.String()+", and it is not at hand", closed, "set HEARSAY_WITNESS to its file, or to the URL of its server"+giveUp)
		return
	case path == "" && x.has.GivenUp:
		x.bad("witness", "none; the one that there was was given up", loss, "hearsay witness create FILE, and "+fix)
		return
	case path == "":
		x.bad("witness", "none", loss, fix)
		return
	}
	w, err := witnesshttp.OpenToRead(ctx, path, x.getenv)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !witnesshttp.IsURL(path):
		x.bad("witness", path+" is not there", loss, "if it was taken away, bring it back; if there never was one: hearsay witness create "+path)
		return
	case errors.Is(err, witnesshttp.ErrUnavailable):
		x.bad("witness", err.Error(), closed, "start its server (hearsay witness serve), or mend what is between")
		return
	case errors.Is(err, witnesshttp.ErrToken), errors.Is(err, memory.ErrInvalid):
		x.bad("witness", err.Error(), closed, "see hearsay witness serve --help")
		return
	case err != nil:
		x.bad("witness", err.Error(), loss, "bring the newest copy of it back, and hold the store against it: hearsay audit verify")
		return
	}
	w.Close()
	if id := w.Identity(); x.has.ID != (memory.Token{}) && id != x.has.ID {
		x.bad("witness", path+" is another one, "+id.String()+", than the store has, "+x.has.ID.String(), closed, "set HEARSAY_WITNESS to the file of that one, or to the URL of its server"+giveUp)
		return
	}
	if x.has.Untold > 0 {
		x.bad("witness", fmt.Sprintf("%d changes that took trust away were not told to %s", x.has.Untold, path),
			"those changes, if a fail-over or an older copy loses them", "start a worker that has the witness, or run: hearsay witness show")
		return
	}
	if witnesshttp.IsURL(path) {
		x.good("witness", "%s", path)
		return
	}
	if db, ok := strings.CutPrefix(url, "sqlite:"); ok && sameFolder(path, db) {
		x.bad("witness", path+" is in the folder of the store", "the same: a copy of the folder that is brought back brings the witness back too", fix)
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" { // which has no such modes
		x.bad("witness", fmt.Sprintf("others than the owner can write %s (mode %04o)", path, info.Mode().Perm()), loss, "chmod 600 "+path)
		return
	}
	x.good("witness", "%s", path)
}

func sameFolder(a, b string) bool {
	folder := func(path string) string {
		path, err := filepath.Abs(path)
		if err != nil {
			return ""
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return dir
		}
		return filepath.Dir(path)
	}
	x, err := os.Stat(folder(a))
	y, other := os.Stat(folder(b))
	return err == nil && other == nil && os.SameFile(x, y)
}

// queue looks at the queue and at who serves it.
func (x *examination) queue(ctx context.Context, o *storeurl.Options) {
	address := x.redis
	if address == "" {
		address = x.getenv("HEARSAY_REDIS")
	}
	if address == "" {
		x.skip("queue", "not looked at: -redis URL names it")
		return
	}
	const loss = "nothing; but no row is checked until it is there"
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	r, err := localredis.Open(ctx, address, nil)
	if err != nil {
		x.bad("queue", err.Error(), loss, "start the Redis of the queue, or name another")
		return
	}
	defer r.Close()
	switch policy, err := r.Evicts(ctx); {
	case err != nil:
		x.bad("queue keeps keys", err.Error(), loss, "let the user of the queue ask the server: INFO memory")
	case policy != "":
		x.bad("queue keeps keys", "maxmemory-policy "+oneLine(policy, maxName), "nothing; but tasks of the queue, in silence, when memory is full: their rows are enqueued again after half a minute", "maxmemory-policy noeviction on the Redis of the queue")
	default:
		x.good("queue keeps keys", "maxmemory-policy noeviction")
	}
	all, err := asynqqueue.Every(ctx, r.Client)
	if err != nil {
		x.bad("queue", err.Error(), loss, "start the Redis of the queue, or name another")
		return
	}
	var found []string
	served, paused := false, false
	for _, s := range all {
		if !x.serves(s.Deployment, tenantOf(o.Tenant)) {
			continue
		}
		served, paused = served || s.Processes > 0, paused || s.Paused && s.Processes > 0
		found = append(found, fmt.Sprintf("%s of %s is served by %s, %s wait", oneLine(s.Source, maxName), oneLine(s.Deployment, maxName), plural(s.Processes, "worker"), plural(s.Pending+s.Retry+s.Orphaned, "check")))
	}
	text := strings.Join(found, "; ")
	switch {
	case !served:
		x.bad("queue", strings.Join(append([]string{"no worker of tenant " + tenantOf(o.Tenant)}, found...), "; "), "nothing; but nobody checks rows, and what is verified and no longer true stays so", "start a worker with this -redis and -tenant; if it has a -deployment, name it here too")
	case paused:
		x.bad("queue", "paused; "+text, "nothing; but nobody checks rows while it is", "hearsay queue resume")
	default:
		x.good("queue", "%s", text)
	}
}

// serves reports whether the queues of a deployment are looked at: the one that is named, or those that
// workers of the tenant name by themselves ([asynqqueue.Deployment]).
func (x *examination) serves(deployment, tenant string) bool {
	if name := cmp.Or(x.deployment, x.getenv("HEARSAY_DEPLOYMENT")); name != "" {
		return deployment == name
	}
	return asynqqueue.IsDeployment(deployment, tenant)
}

// workerReady is the part of a worker's /readyz that is looked at.
type workerReady struct {
	Ready   bool      `json:"ready"`
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	Checks  []struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Detail string `json:"detail"`

		Verifier string `json:"verifier"`
	} `json:"checks"`
}

// workers looks at the worker that was named.
func (x *examination) workers(ctx context.Context) {
	address := x.worker
	if address == "" {
		address = x.getenv("HEARSAY_WORKER")
	}
	if address == "" {
		x.skip("worker", "not looked at: -worker URL names one")
		return
	}
	const loss = "nothing; but rows are not checked, and no checkpoint is signed"
	ready, err := askWorker(ctx, address)
	if err != nil {
		x.bad("worker", err.Error(), loss, "start it, or name where it listens: its -http")
		return
	}
	var faults, down, unasked, answer []string
	for _, c := range ready.Checks {
		name := strings.TrimPrefix(c.Name, "verifier ")
		switch {
		case !c.OK:
			faults = append(faults, c.Name+": "+c.Detail)
		case c.Verifier == "down":
			down = append(down, name+": "+c.Detail)
		case c.Verifier == "unasked":
			unasked = append(unasked, name)
		case c.Verifier == "answers":
			answer = append(answer, name)
		}
	}
	if ready.Ready && len(faults) == 0 {
		x.good("worker", "ready")
	} else {
		x.bad("worker", "not ready; "+strings.Join(faults, "; "), loss, "mend what it says; its log has more")
	}
	const verifiers = "worker verifiers"
	switch {
	case len(down) > 0:
		x.bad(verifiers, "no answer from "+strings.Join(down, "; "), "nothing; but rows that only it can verify stay as they are, and calls on them stay blocked",
			"bring the verifier back, or mend its address in the flags or the file of the worker; hearsay verifier test asks one of the file")
	case len(unasked) > 0:
		x.skip(verifiers, "not asked yet: "+strings.Join(unasked, ", ")+"; hearsay verifier test asks one of the worker's file")
	case len(answer) > 0:
		x.good(verifiers, "%s answered when asked last", strings.Join(answer, ", "))
	default:
		x.skip(verifiers, "it has none: only people can verify rows")
	}
	if ready.Version != version() {
		x.bad("worker version", fmt.Sprintf("the worker is %s, this is %s", ready.Version, version()),
			"nothing; but two releases may read and write the store by different rules", "run one release everywhere")
	} else {
		x.good("worker version", "%s, as this", version())
	}
	x.skew("worker clock", "the worker", ready.Now)
}

func askWorker(ctx context.Context, address string) (w workerReady, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return w, errors.New("want http://HOST:PORT, without user and password")
	}
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("readyz").String(), nil)
	if err != nil {
		return w, errors.New("want http://HOST:PORT")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return w, fmt.Errorf("it does not answer: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return w, fmt.Errorf("its answer broke off: %w", err)
	}
	if json.Unmarshal(b, &w) != nil || w.Now.IsZero() {
		return w, fmt.Errorf("what answers at %s is no worker of this release (status %d)", u.Host, resp.StatusCode)
	}
	return w, nil
}
