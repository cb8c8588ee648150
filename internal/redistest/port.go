package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Servers use the ports from firstPort to lastPort. The system uses higher ports for outgoing connections. If a server with such a higher port were
// down, a client that dials it could get the same port as its local port, and so connect to itself. The ports of the cluster bus are 10000 higher
// than the servers' ports, but also below the ports of outgoing connections.
const (
	firstPort = 11000
	lastPort  = 21999
)

var ports = struct {
	sync.Mutex
	reserved map[int]bool     // ports of this process's servers, up or down
	locks    map[int]*os.File // lock files that keep other processes off these ports
}{reserved: map[int]bool{}, locks: map[int]*os.File{}}

// reservePort finds a port on which nobody listens, and keeps it from other servers of this process.
func reservePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if claim(port) {
			if lockPort(port) && vacant(port) {
				return port, nil
			}
			freePort(port)
		}
	}
	return 0, errors.New("no free port on " + host)
}

func claim(port int) bool {
	ports.Lock()
	defer ports.Unlock()
	if ports.reserved[port] {
		return false
	}
	ports.reserved[port] = true
	return true
}

func freePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	delete(ports.reserved, port)
	if lock := ports.locks[port]; lock != nil {
		_ = os.Remove(lock.Name())
		_ = lock.Close()
		delete(ports.locks, port)
	}
}

// lockPort keeps a port from tests of other processes, even while the server is down. The lock ends with this process.
func lockPort(port int) bool {
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "holdfast-port-"+strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false
	}
	if !lockFile(file) {
		_ = file.Close()
		return false
	}
	ports.Lock()
	defer ports.Unlock()
	ports.locks[port] = file
	return true
}

func vacant(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
