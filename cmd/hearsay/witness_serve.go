package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesshttp"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// recoveryTokenVariable has the token of whoever recovers a store.
const recoveryTokenVariable = "HEARSAY_WITNESS_RECOVERY_TOKEN"

// serveFlags are those of witness serve.
type serveFlags struct {
	listen, cert, key       string
	tokenFile, recoveryFile string
	hosts                   []string
	insecureBind            bool
}

func (a *app) serveWitnessCommand() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve FILE",
		Short: "Let several machines reach the witness in a file",
		Long: `serve answers two questions over HTTP: what the witness has, and whether a change is
on disk. Nothing can be taken away through it. While it runs nobody else opens the file
to write it; programs and commands are told of the server by HEARSAY_WITNESS=URL, and
of its token by HEARSAY_WITNESS_TOKEN or HEARSAY_WITNESS_TOKEN_FILE. HEARSAY_WITNESS_CA
is a file of the authorities that sign its certificate, if this machine has others.

The token comes from --token-file or HEARSAY_WITNESS_TOKEN. A store is recovered
(hearsay store recover) with another token, of --recovery-token-file or
HEARSAY_WITNESS_RECOVERY_TOKEN, which whoever recovers names in HEARSAY_WITNESS_TOKEN;
without one nobody recovers.

It listens on this machine only, unless --tls-cert and --tls-key are given. Where
something in front of it speaks TLS, --insecure-bind lets it listen beyond this machine
without. It is asked for by localhost, by the address that it is reached at, by the
names in its certificate, and by --host.`,
		Example: "  hearsay witness serve /srv/witness --listen 127.0.0.1:8790 --token-file /etc/hearsay/witness.token\n" +
			"  hearsay witness serve /srv/witness --listen :8790 --tls-cert tls.crt --tls-key tls.key --token-file witness.token",
		Args: args("FILE"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8790", "the address to listen on")
	flags.StringVar(&f.cert, "tls-cert", "", "file of the certificate and those that lead to it, PEM; with --tls-key")
	flags.StringVar(&f.key, "tls-key", "", "file of the private key of --tls-cert, PEM")
	flags.StringVar(&f.tokenFile, "token-file", "", "file of the token that clients show; for its owner to read only")
	flags.StringVar(&f.recoveryFile, "recovery-token-file", "", "file of the token that whoever recovers a store shows")
	flags.StringSliceVar(&f.hosts, "host", nil, "a host name, without a port, that the server is asked for by (may be repeated)")
	flags.BoolVar(&f.insecureBind, "insecure-bind", false, "listen beyond this machine without TLS: whoever is between reads the token")
	cmd.RunE = func(cmd *cobra.Command, got []string) error { return a.serveWitness(cmd.Context(), got[0], f) }
	return cmd
}

func (a *app) serveWitness(ctx context.Context, path string, f *serveFlags) (err error) {
	over, err := f.tls()
	if err != nil {
		return err
	}
	if err := f.bind(over != nil); err != nil {
		return err
	}
	o := witnesshttp.ServerOptions{Names: f.hosts, Logger: slog.New(slog.NewTextHandler(visible.Writer(a.talk), nil))}
	if o.Token, err = a.token("--token-file", f.tokenFile, witnesshttp.TokenVariable); err != nil {
		return err
	}
	if o.Token == "" {
		return usage("witness serve: no token: give --token-file FILE or set %s; openssl rand -hex 32 makes one", witnesshttp.TokenVariable)
	}
	if o.RecoveryToken, err = a.token("--recovery-token-file", f.recoveryFile, recoveryTokenVariable); err != nil {
		return err
	}
	for _, host := range f.hosts {
		if host == "" || strings.ContainsAny(host, ":/* ") {
			return usage("witness serve: --host %q: want a host name without a port", oneLine(host, maxName))
		}
	}
	if over != nil && over.Certificates[0].Leaf != nil {
		o.Names = append(o.Names, over.Certificates[0].Leaf.DNSNames...)
	}
	file, err := audit.ServeWitness(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(exitFailed, "witness serve: %w; bring it back, or make one that has seen nothing with hearsay witness create", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	server, err := witnesshttp.NewServer(file, o)
	if err != nil {
		return usage("witness serve: %w", err)
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("witness serve: %w", err)
	}
	scheme := "http"
	if over != nil {
		scheme = "https"
	}
	fmt.Fprintf(a.talk, "witness %s on %s://%s\n", file.Identity(), scheme, l.Addr())
	if o.RecoveryToken == "" {
		fmt.Fprintf(a.talk, "nobody recovers a store through it: there is no %s\n", recoveryTokenVariable)
	}
	return server.Serve(ctx, l, over)
}

// token is that of a file or of the environment; "" = there is none.
func (a *app) token(flag, path, variable string) (string, error) {
	text := a.getenv(variable)
	switch {
	case path != "" && text != "":
		return "", usage("witness serve: %s and %s: want one of them", flag, variable)
	case path != "":
		token, err := witnesshttp.ReadToken(path)
		if err != nil {
			return "", usage("witness serve: %s: %w", flag, err)
		}
		return token, nil
	}
	return text, nil
}

// tls is nil without a certificate.
func (f *serveFlags) tls() (*tls.Config, error) {
	if f.cert == "" && f.key == "" {
		return nil, nil
	}
	if f.cert == "" || f.key == "" {
		return nil, usage("witness serve: --tls-cert and --tls-key go together")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil { // says nothing of the key itself
		return nil, usage("witness serve: --tls-cert: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// bind refuses an address that others can reach, unless they are spoken to over TLS or
// that is said.
func (f *serveFlags) bind(over bool) error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usage("witness serve: --listen %q: want HOST:PORT, as in 127.0.0.1:8790", oneLine(f.listen, maxName))
	}
	if ip := net.ParseIP(host); over || f.insecureBind || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usage("witness serve: --listen %q would listen beyond this machine, where whoever is between reads the token: give --tls-cert and --tls-key, or say --insecure-bind", oneLine(f.listen, maxName))
}
