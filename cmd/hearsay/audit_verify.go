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

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// exitTampered: the audit does not hold, or the store is behind its witness.
const exitTampered = 8

// verifyJSON is the output of audit verify. What does not hold is named by the
// members after Holds that fit.
type verifyJSON struct {
	Schema     string        `json:"schema"` // hearsay.audit.verify/1
	Tenant     string        `json:"tenant,omitempty"`
	Holds      bool          `json:"holds"`
	Error      string        `json:"error,omitempty"`
	Line       int           `json:"line,omitempty"` // of the export
	Key        string        `json:"key,omitempty"`  // of the log, as people read it
	Entry      uint64        `json:"entry,omitempty"`
	Checkpoint uint64        `json:"checkpoint,omitempty"`
	Rollback   bool          `json:"rollback,omitempty"`
	Report     *audit.Report `json:"report,omitempty"`
}

func (a *app) auditVerifyCommand(store *storeFlags) *cobra.Command {
	var from, witness, verifiers string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold the whole audit against its chains, checkpoints and witness",
		Long: `verify reads every log, recomputes its chain, and holds it against the object it is
the history of, against every signed checkpoint, and against the witness. It prints
counts and "the audit holds", or names the first entry that is not what was written
and ends with exit code 8.

--checkpoint-keys names a file of verifier keys, one a line, as hearsay audit keygen
prints them; after the key of an old checkpoint key goes "until" and the number of
the last checkpoint it signed. --witness names the file that hearsay audit
checkpoint, or the worker, keeps outside the store: without it nothing shows that the
whole store is an older copy. --from verifies an export without its store; of the
keyring it needs the audit keys. An export of another tenant or namespace than the one
that is asked for (--tenant, --namespace) is refused.

With -o json: {"schema": "hearsay.audit.verify/1", "holds": true, "report": {…}}, or
"holds": false with "error", "key", "entry", "line", "checkpoint", "rollback".`,
		Example: "  hearsay audit verify --store sqlite:agent.db --checkpoint-keys audit.pub --witness /mnt/other/witness\n" +
			"  hearsay audit verify --from audit.ndjson --keyring agent.db.keys --checkpoint-keys audit.pub",
		Args: args(),
	}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "verify this export (- is stdin) and not a store")
	cmd.Flags().StringVar(&witness, "witness", "", "the file of the witness (or HEARSAY_WITNESS)")
	cmd.Flags().StringVar(&verifiers, "checkpoint-keys", "", "a file of verifier keys, one a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		progress := a.progress("logs")
		options := audit.Options{Progress: func(logs, _ int) { progress(logs) }}
		if verifiers != "" {
			v, err := audit.ReadVerifiers(verifiers)
			if err != nil {
				return err
			}
			options.Verifiers = v
		}
		if witness = cmp.Or(witness, a.getenv(witnessVariable)); witness != "" {
			w, err := audit.ReadWitness(witness)
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
			made.Tenant = report.Tenant
		} else {
			var s *memory.Store
			if s, err = a.open(cmd.Context(), store, nil); err != nil {
				return err
			}
			defer s.Close()
			made.Tenant = s.Tenant()
			report, err = audit.Verify(cmd.Context(), s, options)
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

// fault says what does not hold. false: the error is not about that.
func (v *verifyJSON) fault(err error) bool {
	if !errors.Is(err, memory.ErrTampered) && !errors.Is(err, audit.ErrExport) {
		return false
	}
	v.Error = oneLine(err.Error(), maxMessage)
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
		var auditKeys []keyring.AuditKey
		if auditKeys, err = a.auditKeys(); err == nil {
			keys, err = keyring.Open(dir, &keyring.Options{AuditKeys: auditKeys})
		}
	} else if url, options, missing := a.storeOptions(store); missing != nil {
		return audit.Report{}, usage("audit verify --from: name the folder of the keys: --keyring DIR")
	} else {
		keys, err = storeurl.Keys(url, options)
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
	cmd.Flags().StringVar(&witness, "witness", "", "the file of the witness (or HEARSAY_WITNESS)")
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
			w, err := audit.OpenWitness(witness)
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
		keys, err := storeurl.Keys(url, options)
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
