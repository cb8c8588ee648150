package locktest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

type server struct {
	Name string
	Addr func(t *testing.T) string
}

// servers are the servers on which promises are tested without faults.
var servers = []server{
	{"redis", func(t *testing.T) string { return redistest.Shared(t).Addr() }},
	{"embedded", func(t *testing.T) string {
		server, err := embedded.Start()
		require.NoError(t, err)
		atEnd(t, server, func(server *embedded.Server) { assert.NoError(t, server.Close()) })
		return server.Addr()
	}},
}

// Everywhere tests a promise for every kind of lock on every setup. With the race detector and in short runs it leaves some setups out.
func Everywhere(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		if kind.Name != Kinds[0].Name && raceDetector { // one server is enough: runs without the race detector show how servers differ
			onServer(t, kind.Name+"/", kind, servers[0], show)
			continue
		}
		onServers(t, kind.Name+"/", kind, show)
		if kind.Name != Kinds[0].Name && Scaled(2, 1) == 1 {
			continue // the kinds do not differ on the other setups
		}
		onOtherSetups(t, kind.Name+"/", kind, show)
	}
}

// OnSetups runs a test that is not about one kind of lock, on every setup.
func OnSetups(t *testing.T, show func(t *testing.T, p *Place)) {
	OnServers(t, show)
	onOtherSetups(t, "", Kind{}, show)
}

func onOtherSetups(t *testing.T, prefix string, k Kind, show func(t *testing.T, p *Place)) {
	t.Run(prefix+"cluster, plain messages", func(t *testing.T) {
		t.Parallel()
		show(t, clusterPlace(t, k, holdfast.PubSubPlain))
	})
	t.Run(prefix+"sentinel", func(t *testing.T) {
		t.Parallel()
		guarded := redistest.SharedGuarded(t)
		p := newPlace(t, k, guarded.Master().Addr())
		p.Guarded = guarded
		show(t, p)
	})
}

// OnServers runs a test that is not about one kind of lock, on every server.
func OnServers(t *testing.T, show func(t *testing.T, p *Place)) { onServers(t, "", Kind{}, show) }

// OnServersOf runs a test of one kind of lock, given by name, on every server.
func OnServersOf(t *testing.T, kind string, show func(t *testing.T, p *Place)) {
	onServers(t, "", kindOf(t, kind), show)
}

func onServers(t *testing.T, prefix string, k Kind, show func(t *testing.T, p *Place)) {
	for _, s := range servers {
		onServer(t, prefix, k, s, show)
	}
	t.Run(prefix+"cluster", func(t *testing.T) {
		t.Parallel()
		show(t, clusterPlace(t, k, holdfast.PubSubAuto))
	})
}

func onServer(t *testing.T, prefix string, k Kind, s server, show func(t *testing.T, p *Place)) {
	t.Run(prefix+s.Name, func(t *testing.T) {
		t.Parallel()
		show(t, newPlace(t, k, s.Addr(t)))
	})
}

// clusterPlace returns a place of one kind on the cluster that all tests share.
func clusterPlace(t *testing.T, k Kind, mode holdfast.PubSubMode) *Place {
	cluster := redistest.SharedCluster(t)
	name := redistest.Name(t)
	return &Place{Kind: k, Addr: cluster.Owner(name).Addr(), Name: name, Redis: ClusterClient(t, cluster), Cluster: cluster, PubSub: mode}
}

// Somewhere returns a place on the Redis that all tests share, for tests that are not about one kind of lock.
func Somewhere(t *testing.T) *Place {
	return newPlace(t, Kind{}, redistest.Shared(t).Addr())
}

// OnServerOfItsOwn returns a place on a Redis that the test may disturb, for tests that are not about one kind of lock.
func OnServerOfItsOwn(t *testing.T) *Place {
	server := redistest.Start(t)
	p := newPlace(t, Kind{}, server.Addr())
	p.Server = server
	return p
}

// OnOwnServer tests a promise for every kind, each on a Redis that the test may disturb.
func OnOwnServer(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		t.Run(kind.Name+"/own", func(t *testing.T) {
			t.Parallel()
			show(t, OwnPlace(t, kind))
		})
	}
}

// OnOneServer returns places of all kinds on one Redis that the test may disturb, for faults that hit all kinds alike. args are added to the
// server's command line.
func OnOneServer(t *testing.T, args ...string) []*Place {
	return OnServer(t, redistest.Start(t, args...))
}

// OnServer is OnOneServer on a Redis that the test has started.
func OnServer(t *testing.T, server *redistest.Server) []*Place {
	client := NewClient(t, server.Addr())
	places := make([]*Place, len(Kinds))
	for i, kind := range Kinds {
		places[i] = &Place{Kind: kind, Addr: server.Addr(), Name: redistest.Name(t), Redis: client, Server: server}
	}
	return places
}

// InTurn is OnOwnServer for tests that need the whole machine: the kinds are tested one after the other. If the test that calls InTurn
// is not parallel, no other test runs meanwhile.
func InTurn(t *testing.T, show func(t *testing.T, p *Place)) {
	for _, kind := range Kinds {
		t.Run(kind.Name+"/own", func(t *testing.T) { show(t, OwnPlace(t, kind)) })
	}
}

// OwnPlace returns a place of one kind on a Redis that the test may disturb, started with args.
func OwnPlace(t *testing.T, k Kind, args ...string) *Place {
	server := redistest.Start(t, args...)
	p := newPlace(t, k, server.Addr())
	p.Server = server
	return p
}

func newPlace(t *testing.T, k Kind, addr string) *Place {
	return &Place{Kind: k, Addr: addr, Name: redistest.Name(t), Redis: NewClient(t, addr)}
}

// PlaceOf returns a place of one kind, given by name, on the server that all tests share.
func PlaceOf(t *testing.T, kind string) *Place {
	return newPlace(t, kindOf(t, kind), redistest.Shared(t).Addr())
}

// OwnPlaceOf returns a place of one kind, given by name, on a Redis that the test may disturb.
func OwnPlaceOf(t *testing.T, kind string) *Place {
	server := redistest.Start(t)
	p := PlaceOf(t, kind)
	p.Addr, p.Server, p.Redis = server.Addr(), server, NewClient(t, server.Addr())
	return p
}
