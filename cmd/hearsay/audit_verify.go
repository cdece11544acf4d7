package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// exitTampered: the audit does not hold, or the store is behind its witness.
const exitTampered = 8

// verifyJSON is the output of audit verify. What does not hold is named by the
// members after Holds that fit.
type verifyJSON struct {
	Schema     string `json:"schema"` // hearsay.audit.verify/1
	Tenant     string `json:"tenant,omitempty"`
	Holds      bool   `json:"holds"`
	Error      string `json:"error,omitempty"`
	Line       int    `json:"line,omitempty"` // of the export
	Key        string `json:"key,omitempty"`  // of the log, as people read it
	Entry      uint64 `json:"entry,omitempty"`
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Rollback   bool   `json:"rollback,omitempty"`
	Lost       bool   `json:"lost,omitempty"` // acknowledged, and not there: see hearsay store recover
	// Findings are all that is not what was written, up to maxFindings; Found counts all.
	Findings []tamperedJSON `json:"findings,omitempty"`
	Found    int            `json:"found,omitempty"`
	Report   *audit.Report  `json:"report,omitempty"`
}

// tamperedJSON is one thing that is not what was written.
type tamperedJSON struct {
	Error      string `json:"error"`
	Key        string `json:"key,omitempty"`
	Entry      uint64 `json:"entry,omitempty"`
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Rollback   bool   `json:"rollback,omitempty"`
	Lost       bool   `json:"lost,omitempty"`
}

// maxFindings is how many findings are named one by one.
const maxFindings = 1000

func (a *app) auditVerifyCommand(store *storeFlags) *cobra.Command {
	var from, witness, verifiers string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold all that is stored against its chains, checkpoints and witness",
		Long: `verify reads every log, recomputes its chain, and holds it against the object it is
the history of, against every signed checkpoint, and against the witness. It opens
what rows say and holds it against what their logs commit to; decisions that fired
against the logs of the rows they cite and the holds they fired out of; claims, lines,
identities and marks of calls against the logs; the index of terms against what a
rebuild would write. It prints counts and "the audit holds", or names each thing that
is not what was written, up to 1,000 of them, and ends with exit code 8.

--checkpoint-keys names a file of verifier keys, one a line, as hearsay audit keygen
prints them; after the key of an old checkpoint key goes "until" and the number of
the last checkpoint it signed. --witness names the file that hearsay audit
checkpoint, or the worker, keeps outside the store: without it nothing shows that the
whole store is an older copy. --from verifies an export without its store; of the
keyring it needs the audit keys. An export of another tenant or namespace than the one
that is asked for (--tenant, --namespace) is refused.

How far it is, and how fast, goes to stderr: to a terminal all the time, else a line
every five seconds.

With -o json: {"schema": "hearsay.audit.verify/1", "holds": true, "report": {…}}, or
"holds": false with "error", "key", "entry", "line", "checkpoint", "rollback", "lost" of
one finding, all of them in "findings", and their number in "found". "lost" is what was
acknowledged and is not there: hearsay store recover.`,
		Example: "  hearsay audit verify --store sqlite:agent.db --checkpoint-keys audit.pub --witness /mnt/other/witness\n" +
			"  hearsay audit verify --from audit.ndjson --keyring agent.db.keys --checkpoint-keys audit.pub",
		Args: args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "verify this export (- is stdin) and not a store")
	cmd.Flags().StringVar(&witness, "witness", "", "the file of the witness, or the URL of its server (or HEARSAY_WITNESS)")
	cmd.Flags().StringVar(&verifiers, "checkpoint-keys", "", "a file of verifier keys, one a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		progress := a.verifying()
		options := audit.Options{Progress: progress.say}
		if verifiers != "" {
			v, err := audit.ReadVerifiers(verifiers)
			if err != nil {
				return err
			}
			options.Verifiers = v
		}
		if witness = cmp.Or(witness, a.getenv(witnessVariable)); witness != "" {
			w, err := witnesshttp.OpenToRead(cmd.Context(), witness, a.getenv)
			if err != nil {
				return err
			}
			defer w.Close()
			options.Witness = w
		}
		made := verifyJSON{Schema: "hearsay.audit.verify/1"}
		var report audit.Report
		var err error
		if from != "" {
			report, err = a.verifyFile(cmd.Context(), store, from, options)
			progress.end()
			made.Tenant = report.Tenant
		} else {
			var s *memory.Store
			if s, err = a.open(cmd.Context(), store, nil); err != nil {
				return err
			}
			defer s.Close()
			made.Tenant = s.Tenant()
			var first error
			options.Found = func(err error) error {
				// What was changed says more than what is lost.
				if first == nil || errors.Is(first, audit.ErrLost) && !errors.Is(err, audit.ErrLost) {
					first = err
				}
				made.add(err)
				return nil
			}
			var found *audit.FoundError
			report, err = audit.Verify(cmd.Context(), s, options)
			progress.end()
			if errors.As(err, &found) {
				made.Found, err = found.Found, first
				if *o != asJSON && made.Found > 1 {
					for _, f := range made.Findings {
						if err := a.write(f.Error + "\n"); err != nil {
							return err
						}
					}
					fmt.Fprintf(a.talk, "%d things are not what was written\n", made.Found)
				}
			}
		}
		if verifiers == "" && errors.Is(err, audit.ErrKey) {
			err = fmt.Errorf("%w: name a file of verifier keys with --checkpoint-keys", err)
		}
		if err != nil {
			if *o == asJSON && made.fault(err) {
				if say := a.emit(made); say != nil {
					return say
				}
			}
			return err
		}
		if *o == asJSON {
			made.Holds, made.Report = true, &report
			return a.emit(made)
		}
		return a.write(report.Holds() + "\n")
	}
	return cmd
}

// verifying says on stderr how far a verification is: to a person over and over in one
// line, else in a line now and then.
type verifying struct {
	talk     io.Writer
	now      func() time.Time
	person   bool
	begun    time.Time
	last     time.Time
	anything bool // is on the line
}

func (a *app) verifying() *verifying {
	begun := a.now()
	return &verifying{talk: a.talk, now: a.now, person: isTerminal(a.talk), begun: begun, last: begun}
}

func (v *verifying) say(r audit.Report) {
	now, every := v.now(), 5*time.Second
	if v.person {
		every = 200 * time.Millisecond
	}
	if now.Sub(v.last) < every {
		return
	}
	v.last, v.anything = now, true
	rate := float64(r.Entries+r.Objects+r.Terms) / now.Sub(v.begun).Seconds()
	line := fmt.Sprintf("%d entries of %d logs, %d objects and %d lines of the index verified, %.0f a second", r.Entries, r.Logs, r.Objects, r.Terms, rate)
	if v.person {
		fmt.Fprint(v.talk, "\r"+line+"\x1b[K")
		return
	}
	fmt.Fprintln(v.talk, line)
}

// end leaves an empty line to what is said next.
func (v *verifying) end() {
	if v.person && v.anything {
		fmt.Fprint(v.talk, "\r\x1b[K")
	}
}

// add keeps a finding.
func (v *verifyJSON) add(err error) {
	if len(v.Findings) >= maxFindings {
		return
	}
	var one verifyJSON
	one.fault(err)
	v.Findings = append(v.Findings, tamperedJSON{one.Error, one.Key, one.Entry, one.Checkpoint, one.Rollback, one.Lost})
}

// fault says what does not hold. false: the error is not about that.
func (v *verifyJSON) fault(err error) bool {
	if !errors.Is(err, memory.ErrTampered) && !errors.Is(err, audit.ErrExport) {
		return false
	}
	v.Error, v.Lost = oneLine(err.Error(), maxMessage), errors.Is(err, audit.ErrLost)
	var (
		line       *audit.ExportError
		entry      *memory.TamperError
		checkpoint *audit.CheckpointError
		rollback   *audit.RollbackError
	)
	if errors.As(err, &line) {
		v.Line = line.Line
	}
	switch {
	case errors.As(err, &entry):
		v.Key, v.Entry = memory.KeyText(entry.Key), entry.Revision
	case errors.As(err, &checkpoint):
		v.Checkpoint = checkpoint.Index
	case errors.As(err, &rollback):
		v.Checkpoint, v.Rollback = rollback.Index, true
	}
	return true
}

// verifyFile verifies an export. It opens no store.
func (a *app) verifyFile(ctx context.Context, store *storeFlags, path string, o audit.Options) (audit.Report, error) {
	dir := store.keyring
	if dir == "" {
		dir = a.getenv("HEARSAY_KEYRING")
	}
	var keys memory.Keys
	var err error
	if dir != "" {
		var o *keyring.Options
		if o, err = a.keyringOptions(); err == nil {
			keys, err = storeurl.OpenKeyring(ctx, dir, o)
		}
	} else if url, options, missing := a.storeOptions(store); missing != nil {
		return audit.Report{}, usage("audit verify --from: name the folder of the keys: --keyring DIR")
	} else {
		keys, err = storeurl.Keys(ctx, url, options)
	}
	if err != nil {
		return audit.Report{}, err
	}
	in := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return audit.Report{}, fail(exitNotFound, "audit verify: no file %s", path)
		}
		if err != nil {
			return audit.Report{}, usage("audit verify: %w", err)
		}
		defer f.Close()
		in = f
	}
	report, err := audit.VerifyExport(ctx, in, keys, o)
	tenant, namespace := tenantOf(cmp.Or(store.tenant, a.getenv("HEARSAY_TENANT"))), cmp.Or(store.namespace, a.getenv("HEARSAY_NAMESPACE"))
	if err == nil && (report.Tenant != tenant || report.Namespace != namespace) {
		return report, fail(exitNo, "audit verify: the export holds, and is of tenant %s, namespace %q, not of tenant %s, namespace %q",
			oneLine(report.Tenant, maxName), report.Namespace, oneLine(tenant, maxName), namespace).with("Say whose audit it is to be: --tenant and --namespace.")
	}
	return report, err
}

// checkpointJSON is the output of audit checkpoint.
type checkpointJSON struct {
	Schema    string `json:"schema"` // hearsay.audit.checkpoint/1
	Tenant    string `json:"tenant"`
	Made      bool   `json:"made"` // false: nothing had changed
	Index     uint64 `json:"index"`
	Size      uint64 `json:"size"`
	Leaves    int    `json:"leaves"`
	Witnessed bool   `json:"witnessed"`
	Note      string `json:"note"`
}

func (a *app) auditCheckpointCommand(store *storeFlags) *cobra.Command {
	var (
		key, witness, verifiers, origin string
		quick                           bool
	)
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Sign what all logs are now",
		Long: `checkpoint commits to every log that changed since the last checkpoint, signs the
tree of all of them, and shows it to the witness. If nothing changed it makes none. A
store that is behind its witness gets no checkpoint, and the exit code is 8.

--witness names a file outside the store, on another disk or machine, that whoever
can write the store cannot write. hearsay witness create makes it; nothing else does.

After a change of keys, --checkpoint-keys names a file with the verifier keys of the
old ones and of the new one. --origin must stay what it was at the first checkpoint;
it is the name of the key unless it is given.

With -o json: {"schema": "hearsay.audit.checkpoint/1", "made", "index", "size",
"leaves", "witnessed", "note"}.`,
		Example: "  hearsay audit checkpoint --store sqlite:agent.db --key audit.key --witness /mnt/other/witness",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&key, "key", "", "the private key file; see hearsay audit keygen")
	cmd.Flags().StringVar(&witness, "witness", "", "the file of the witness, or the URL of its server (or HEARSAY_WITNESS)")
	cmd.Flags().StringVar(&verifiers, "checkpoint-keys", "", "a file of verifier keys, old ones too; default that of --key")
	cmd.Flags().StringVar(&origin, "origin", "", "what the checkpoints are of; default the name of the key")
	cmd.Flags().BoolVar(&quick, "quick", false, "look only at logs that changed since the last checkpoint by the clock, and not at where all end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if key == "" {
			return usage("audit checkpoint: --key FILE is missing: what signs it; see hearsay audit keygen")
		}
		signer, err := audit.ReadKey(key)
		if err != nil {
			return err
		}
		if origin == "" {
			origin = signer.Name()
		}
		options := audit.MakerOptions{}
		if verifiers != "" {
			if options.Verifiers, err = audit.ReadVerifiers(verifiers); err != nil {
				return err
			}
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		if witness = cmp.Or(witness, a.getenv(witnessVariable)); witness != "" {
			w, err := witnesshttp.Open(cmd.Context(), witness, a.getenv)
			if err != nil {
				return err
			}
			defer w.Close()
			options.Witness = w
		}
		m, err := audit.NewMaker(s, signer, origin, &options)
		if err != nil {
			return err
		}
		before, err := s.LastCheckpoint(cmd.Context())
		if err != nil {
			return err
		}
		look := m.Sweep
		if quick {
			look = m.Make
		}
		c, err := look(cmd.Context())
		if err != nil {
			return err
		}
		made := checkpointJSON{Schema: "hearsay.audit.checkpoint/1", Tenant: s.Tenant(), Made: c.Index > before.Index, Index: c.Index, Size: c.Size,
			Leaves: len(c.Leaves), Witnessed: witness != "", Note: string(c.Note)}
		switch {
		case *o == asJSON:
			return a.emit(made)
		case c.Index == 0:
			return a.write("nothing is written yet, and there is no checkpoint\n")
		case !made.Made:
			return a.write(fmt.Sprintf("nothing changed since checkpoint %d\n", c.Index))
		}
		return a.write(fmt.Sprintf("checkpoint %d: %d logs changed, %d leaves in all\n", c.Index, made.Leaves, c.Size))
	}
	return cmd
}

func (a *app) auditExportCommand(store *storeFlags) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the whole audit as lines of JSON, to be verified elsewhere",
		Long: `export writes every checkpoint and every log as it is stored, one line of JSON each.
What entries say of persons stays sealed under the keys of the store. With -o it goes
to a new file that only you can read, and no file is ever overwritten.

Verify it with hearsay audit verify --from.`,
		Example: "  hearsay audit export --store sqlite:agent.db -o audit.ndjson",
		Args:    args(),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write; without it the lines go to stdout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, options, err := a.storeOptions(store)
		if err != nil {
			return err
		}
		d, err := storeurl.Driver(cmd.Context(), url, options)
		if err != nil {
			return err
		}
		defer d.Close()
		keys, err := storeurl.Keys(cmd.Context(), url, options)
		if err != nil {
			return err
		}
		s, err := memory.New(d, keys, &options.Options)
		if err != nil {
			return err
		}
		if out == "" {
			return audit.Export(cmd.Context(), s, a.out)
		}
		f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fail(exitFailed, "audit export: %s exists, and no file is ever overwritten", out)
		}
		if err != nil {
			return fail(exitFailed, "audit export: %w", err)
		}
		w := bufio.NewWriter(f)
		err = audit.Export(cmd.Context(), s, w)
		if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
			return errors.Join(err, os.Remove(out))
		}
		return nil
	}
	return cmd
}

// checkpointKeyJSON is the output of audit keygen.
type checkpointKeyJSON struct {
	Schema string `json:"schema"` // hearsay.audit.key/1
	Name   string `json:"name"`
	File   string `json:"private_key_file"`
	Public string `json:"verifier_key"`
}

func (a *app) auditKeygenCommand() *cobra.Command {
	var out, name string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key to sign checkpoints with",
		Long: `keygen writes a new private key to PREFIX.key, readable by you only, and prints the
verifier key, which is no secret: it goes to whoever verifies. It never overwrites a
file. The name is in every checkpoint; give a new key the name of the one before.`,
		Example: "  hearsay audit keygen -out audit --name acme.example/hearsay > audit.pub",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "the private key is written to this path and \".key\"")
	cmd.Flags().StringVar(&name, "name", "", "whose checkpoints they are, as a URL without scheme: acme.example/hearsay")
	cmd.RunE = func(*cobra.Command, []string) error {
		if out == "" {
			return usage("audit keygen: -out PREFIX is missing: where the private key goes")
		}
		if name == "" {
			return usage("audit keygen: --name NAME is missing: whose checkpoints they are")
		}
		made := checkpointKeyJSON{Schema: "hearsay.audit.key/1", Name: name, File: out + ".key"}
		k, err := audit.WriteKey(made.File, name)
		if errors.Is(err, fs.ErrExist) {
			return fail(exitFailed, "audit keygen: %s exists, and no key is ever overwritten", made.File)
		}
		if err != nil {
			return err
		}
		made.Public = k.Public()
		fmt.Fprintf(a.talk, "private key: %s (keep it from the agent and from who writes the store)\nthe verifier key goes to whoever verifies:\n", oneLine(made.File, maxMessage))
		if *o == asJSON {
			return a.emit(made)
		}
		return a.write(made.Public + "\n")
	}
	return cmd
}
