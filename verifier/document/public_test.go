package document

import (
	"net/netip"
	"testing"
)

// An address that only some network of the machine's own leads to is not public,
// however it is spelled.
func TestWhatIsNoPublicAddress(t *testing.T) {
	for _, at := range []string{
		"127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
		"::127.0.0.1", "::10.0.0.1", "fec0::1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "64:ff9b:1:2::1",
		"2001::1", "::ffff:0:10.0.0.1",
	} {
		if public(netip.MustParseAddr(at)) {
			t.Errorf("%s is taken for a public address", at)
		}
	}
	for _, at := range []string{"1.1.1.1", "93.184.216.34", "::ffff:1.1.1.1", "2606:4700::1111", "2a00:1450::1"} {
		if !public(netip.MustParseAddr(at)) {
			t.Errorf("%s is not taken for a public address", at)
		}
	}
}
