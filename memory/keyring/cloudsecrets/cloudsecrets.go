// Package cloudsecrets has the wrapping key of a keyring in a key service, through
// gocloud.dev/secrets: AWS KMS, Google Cloud KMS, Azure Key Vault and Vault's transit
// engine. It is a module of its own, because those bring their SDKs along: import the
// driver of your service beside it.
//
//	import _ "gocloud.dev/secrets/awskms"
//
//	wrapping, closer, err := cloudsecrets.Open(ctx,
//		cloudsecrets.Version{Name: "2", URL: "awskms://KEY-2?region=eu-central-1"},
//		cloudsecrets.Version{Name: "1", URL: "awskms://KEY-1?region=eu-central-1"})
//
// Each version is a key of the service. To complete an erasure that is pending, make a
// new key and put it in front; erase again; destroy the old key in the service, which may
// take days there; then take it out of the list and erase once more for the certificate.
package cloudsecrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearsay-go/hearsay/memory/keyring"
	"gocloud.dev/secrets"
)

// Version is one version of the wrapping key: a key of the service.
type Version struct {
	Name string // as in [keyring.Version]
	URL  string // of gocloud.dev/secrets; it may hold a secret, and no error holds it
}

// Open opens the keys of the service, the newest version first. The caller calls close
// when the keyring is not used any more.
func Open(ctx context.Context, versions ...Version) (w keyring.Wrapping, close func() error, err error) {
	var keepers []*secrets.Keeper
	close = func() error {
		var errs []error
		for _, k := range keepers {
			errs = append(errs, k.Close())
		}
		return errors.Join(errs...)
	}
	var list []keyring.Version
	for i, v := range versions {
		k, err := secrets.OpenKeeper(ctx, v.URL)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("cloudsecrets: version %d of the wrapping key: its URL names no key of a service whose driver is linked", i+1), close())
		}
		keepers = append(keepers, k)
		list = append(list, keyring.Version{Name: v.Name, Key: k})
	}
	if w, err = keyring.Listed(list...); err != nil {
		return nil, nil, errors.Join(err, close())
	}
	return w, close, nil
}
