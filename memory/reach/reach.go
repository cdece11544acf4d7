// Package reach says in words why a server was not reached: that its name is not
// known, that nothing listens there, that TLS failed, that nobody answers. Drivers use
// it, so that every store and queue says the same thing the same way.
package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// Why says what came between this machine and a server, or "" if err is no fault of
// that kind. server is its host and port as the operator named it, or the path of a
// socket. The text holds nothing that a server sent.
func Why(err error, server string) string {
	var (
		name    *net.DNSError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		host    x509.HostnameError
		signer  x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		network net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &name) && name.IsNotFound:
		return "the host of " + server + " is not known"
	case errors.As(err, &name):
		return "the host of " + server + " could not be looked up: the name server does not answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return server + " refused the connection: nothing listens there"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no socket " + server
	case errors.Is(err, fs.ErrPermission):
		return "this user may not connect to " + server
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no network leads to " + server
	case errors.As(err, &record):
		return server + " does not speak TLS"
	case errors.As(err, &host):
		return "the TLS certificate of " + server + " is for another name"
	case errors.As(err, &signer):
		return "the TLS certificate of " + server + " is signed by nobody that this machine trusts"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the TLS certificate of " + server + " is out of date, or not valid yet"
	case errors.As(err, &invalid):
		return "the TLS certificate of " + server + " is not valid"
	case errors.As(err, &alert):
		return server + " refused the TLS handshake: " + strings.TrimPrefix(alert.Error(), "tls: ")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return server + " does not answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return server + " ended the connection"
	case errors.As(err, &network):
		return server + " cannot be reached"
	}
	return ""
}
