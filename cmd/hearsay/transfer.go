package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// exitPartly: some lines of a dump were rejected, or it is not whole.
const exitPartly = 7

// sayEvery is how often a long transfer says how far it is.
const sayEvery = 10 * time.Second

func (a *app) exportCommand() *cobra.Command {
	var out, sign string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the rows of a store as lines of JSON",
		Long: `export writes one line of JSON for each row that is not erased, parents before
their children, between a header and a trailer. Each line bears its hash and that of
the line before, so that what is changed, missing or moved shows. Signed, it keeps
its origins where the key is trusted. The dump says all that the rows say: it is as
secret as the store. With -o it goes to a new file that only you can read, and no file
is ever overwritten.

Of a row that cannot be read, since it is damaged or its key is missing, the dump has
the id, and whether it was under suspicion. Then the exit code is 4. Run hearsay store
rebuild first: it makes again what is derived.`,
		Example: "  hearsay export -store sqlite:agent.db -o rows.ndjson\n  hearsay export -store sqlite:agent.db --sign ops.key -o rows.ndjson",
		Args:    args(),
	}
	store := addStoreFlags(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write; without it the rows go to stdout")
	cmd.Flags().StringVar(&sign, "sign", "", "sign with this private key; see hearsay keygen")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o := transfer.ExportOptions{}
		if sign != "" {
			key, err := confirm.LoadKey(sign)
			if err != nil {
				return err
			}
			o.Sign = key
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		said := time.Now()
		o.Progress = func(x transfer.Exported) {
			if time.Since(said) >= sayEvery {
				said = time.Now()
				fmt.Fprintf(a.talk, "%s, %d MiB …\n", plural(x.Rows, "row"), x.Bytes>>20)
			}
		}
		done, err := a.exportTo(cmd.Context(), s, out, &o)
		if errors.Is(err, transfer.ErrUnread) {
			err = fail(exitNo, "export: %s could not be read", plural(done.Unread, "row")).with("The dump has all others. hearsay store rebuild makes again what is derived; then export again. hearsay audit verify says what is damaged.")
		} else if err != nil {
			return err
		}
		signed := "not signed: where it is imported, nothing of it is first hand"
		if done.Key != "" {
			signed = "signed with " + done.Key
		}
		fmt.Fprintf(a.talk, "%s, %d bytes, digest %s; %s\n", plural(done.Rows, "row"), done.Bytes, done.Digest, signed)
		return err
	}
	return cmd
}

// exportTo writes a dump to a new file, or to stdout. A file that could not be
// written whole is removed.
func (a *app) exportTo(ctx context.Context, s *memory.Store, path string, o *transfer.ExportOptions) (done transfer.Exported, err error) {
	if path == "" {
		return transfer.Export(ctx, s, a.out, o)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return done, fail(exitFailed, "export: %s exists, and no file is ever overwritten", path)
	}
	if err != nil {
		return done, fail(exitFailed, "export: %w", err)
	}
	done, unread := transfer.Export(ctx, s, f, o)
	if !errors.Is(unread, transfer.ErrUnread) {
		err = unread
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return done, errors.Join(err, os.Remove(path))
	}
	return done, unread
}

// importJSON is the output of import.
type importJSON struct {
	Schema string `json:"schema"` // hearsay.import/1
	transfer.Report
}

func (a *app) importCommand() *cobra.Command {
	var (
		trust, actor, source string
		legacy               bool
		sensitivity          = "secret"
	)
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Read rows that were exported, trusting nothing of them",
		Long: `import writes the rows of a dump into a store that is there. Every row lands
unverified, whatever the dump says of it. What is said to be first hand becomes the
claim of a model, and every row is restricted until a verifier agrees or a person
exposes it, unless the dump is signed and --trust names the public key: that is the
second word of the line that keygen prints. Freshness counts from a row's own date.

A line that cannot be taken is rejected alone; stderr has its number, its field and
the rule, and never what it says. Then the exit code is 7, and so it is if the dump
is cut or out of order. An import that was interrupted goes on where it was if it is
called again; a second import of a dump writes nothing twice. The line of a row that
could not be read when the dump was made is rejected (unread: unreadable).

--legacy reads lines of any program that have a text (or content), or a subject, a
predicate and an object. Their sensitivity is secret unless --sensitivity says
otherwise.

With -o json: {"schema": "hearsay.import/1", "lines", "rows", "collapsed", "known",
"rejected", "breaks", "complete", …}.`,
		Example: "  hearsay import -store sqlite:agent.db rows.ndjson --trust 'nGVm…='\n  hearsay import -store sqlite:agent.db --legacy --sensitivity internal - < old.ndjson",
		Args:    args("FILE"),
	}
	store := addStoreFlags(cmd)
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&trust, "trust", "", "keep origins if this public key (base64) signed the dump, and refuse the dump else")
	cmd.Flags().StringVar(&actor, "as", "operator", "who imports, for the audit")
	cmd.Flags().StringVar(&source, "source", "", "what ids of rows are unique in; default the dump's tenant and namespace")
	cmd.Flags().BoolVar(&legacy, "legacy", false, "lines of another program, without a header")
	cmd.Flags().StringVar(&sensitivity, "sensitivity", sensitivity, "of legacy rows: public, internal, confidential or secret")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options := transfer.Options{Actor: actor, Legacy: legacy, Source: source}
		if err := options.Sensitivity.UnmarshalText([]byte(sensitivity)); err != nil {
			return usage("import: --sensitivity: want public, internal, confidential or secret")
		}
		if trust != "" {
			key, err := base64.StdEncoding.Strict().DecodeString(trust)
			if err != nil || len(key) != ed25519.PublicKeySize {
				return usage("import: --trust: want a public key, 32 bytes in base64")
			}
			options.Trust = key
		}
		in := io.Reader(os.Stdin)
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return fail(exitNotFound, "import: no file %s", args[0])
			}
			if err != nil {
				return usage("import: %w", err)
			}
			defer f.Close()
			in = f
		}
		s, err := a.open(cmd.Context(), store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.importFrom(cmd.Context(), s, in, options, *o)
	}
	return cmd
}

func (a *app) importFrom(ctx context.Context, s *memory.Store, in io.Reader, options transfer.Options, o output) error {
	talk := bufio.NewWriter(a.talk) // a dump may have many bad lines
	defer talk.Flush()
	options.Rejected = func(e *transfer.LineError) { fmt.Fprintln(talk, e) }
	said := time.Now()
	options.Progress = func(r transfer.Report) {
		if time.Since(said) >= sayEvery {
			said = time.Now()
			fmt.Fprintf(talk, "%s, %s written, %d rejected …\n", plural(r.Lines, "line"), plural(r.Rows, "row"), r.Rejected)
			talk.Flush()
		}
	}
	r, err := transfer.Import(ctx, s, in, options)
	switch {
	case errors.Is(err, transfer.ErrSignature):
		return fail(exitNo, "import: %w", err).with("Without --trust the rows can be imported as claims.")
	case errors.Is(err, transfer.ErrFormat) && !options.Legacy:
		return usage("import: %w", err).with("Lines of another program are read with --legacy.")
	case errors.Is(err, transfer.ErrFormat), errors.Is(err, transfer.ErrVersion), errors.Is(err, transfer.ErrChanged):
		return usage("import: %w", err)
	case err != nil && r.Lines > 0:
		fmt.Fprintf(talk, "interrupted; all up to line %d is kept (%s written), and the same command goes on from there\n", r.Lines, plural(r.Rows, "row"))
		return err
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(talk, "interrupted before a batch of lines was kept; the same command begins anew, and writes nothing twice")
		return err
	case err != nil:
		return err
	}
	if o == asJSON {
		err = a.emit(importJSON{"hearsay.import/1", r})
	} else {
		err = a.write(importText(r))
	}
	if err != nil {
		return err
	}
	if r.Rejected > 0 || !r.Complete {
		var why []string
		if r.Rejected > 0 {
			why = append(why, plural(r.Rejected, "line")+" rejected")
		}
		if !r.Complete {
			why = append(why, "the dump is not whole: lines of it are missing, changed or in another order")
		}
		return fail(exitPartly, "import: %s", strings.Join(why, "; "))
	}
	return nil
}

func importText(r transfer.Report) string {
	c := card{}
	c.line("source", "%s", oneLine(r.Source, maxName))
	signer := "none: nothing is first hand"
	if r.Signer != "" {
		signer = r.Signer
	}
	c.line("signed by", "%s", signer)
	c.line("lines", "%d", r.Lines)
	c.line("written", "%d, all unverified", r.Rows)
	c.line("collapsed", "%d onto claims that were here", r.Collapsed)
	c.line("known", "%d that were here themselves", r.Known)
	c.line("rejected", "%d", r.Rejected)
	if r.Resumed > 0 {
		c.line("resumed", "after line %d", r.Resumed)
	}
	return c.String()
}
