package server

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// port is a loopback port for a server. While it is kept, no other process that takes its
// ports here gets it, also while its server does not run: a Sentinel, or a client of another
// test, would take the one server for the other.
type port struct {
	number int
	kept   net.Listener
}

// Where ports lie: below those that systems give to clients. The next such range keeps them,
// and a node of a Cluster also listens 10,000 above its port.
const (
	firstPort = 12_000
	ports     = 5_000
	busAbove  = 2 * ports
)

// takePort takes a port on which nobody listens. bus says that the one of a Cluster's bus
// has to be free too. The caller ends with free.
func takePort(bus bool) (port, error) {
	for range 100 {
		p := port{number: firstPort + rand.IntN(ports)}
		var err error
		if p.kept, err = listen(p.number + ports); err != nil {
			continue
		}
		if unused(p.number) && (!bus || unused(p.number+busAbove)) {
			return p, nil
		}
		p.free()
	}
	return port{}, errors.New("server: no free port")
}

func (p *port) free() {
	if p.kept != nil {
		_ = p.kept.Close() // nothing was accepted on it
	}
	p.kept = nil
}

func listen(number int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
}

func unused(number int) bool {
	l, err := listen(number)
	return err == nil && l.Close() == nil
}
