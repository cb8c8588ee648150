package soak_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// nodeTimeout is the time without an answer after which a master of the cluster counts as dead. A replica starts an election half a second later. No
// lease of the test is longer than nodeTimeout. So the grants of a dead master have ended before another master grants.
const nodeTimeout = 3 * lease / 2

// TestSoakCluster is the soak on a cluster. Its masters are killed and replaced, and its slots move.
func TestSoakCluster(t *testing.T) {
	t.Parallel()
	s := &clustered{cluster: redistest.StartCluster(t, 3, 1, nodeTimeout)}
	for _, server := range append(slices.Clone(s.cluster.Masters), s.cluster.Replicas...) {
		s.servers = append(s.servers, server)
		s.looks = append(s.looks, server.Client(t))
	}
	s.roles = s.roleOf()
	soak(t, newWorld(t, s, s.cluster.Client(t)), "make soak-cluster", 12*time.Second, 12*time.Second)
}

// clustered is a cluster of three masters with a replica each.
type clustered struct {
	cluster *redistest.Cluster
	servers []*redistest.Server
	looks   []*redis.Client   // by server
	roles   map[string]string // by address, as the test expects them
}

func (s *clustered) addrs() []string           { return s.cluster.Addrs() }
func (s *clustered) everyone() []*redis.Client { return s.looks }

func (s *clustered) client(links map[string]*faultproxy.Proxy, login func() (string, string)) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: s.addrs(), CredentialsProvider: login, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, links[addr].Addr())
		},
	})
}

func (s *clustered) masters() (masters []*redis.Client) {
	roles := s.roleOf()
	for i, server := range s.servers {
		if roles[server.Addr()] == "master" {
			masters = append(masters, s.looks[i])
		}
	}
	return masters
}

// roleOf returns the role that each server reports.
func (s *clustered) roleOf() map[string]string {
	roles := map[string]string{}
	for i, server := range s.servers {
		_, rest, _ := strings.Cut(s.looks[i].Info(context.Background(), "replication").Val(), "role:")
		roles[server.Addr()], _, _ = strings.Cut(rest, "\r\n")
	}
	return roles
}

// troubles returns the faults of the servers. A planned failover forgets nothing. Any other failover may forget the last writes. The test causes
// some of these failovers; others happen because the machine is busy.
func (s *clustered) troubles(w *world) []chaos.Fault {
	troubles := append(slices.Clone(chaos.Servers), w.rotation(),
		chaos.Fault{Name: "planned failover", Weight: 2, Do: func(ctx context.Context, _ chaos.Target) {
			s.cluster.Switch(w.oneThing().name)
			s.roles = s.roleOf()
			chaos.Pause(ctx, 2*nodeTimeout) // masters do not vote again before that
		}},
		chaos.Fault{Name: "failover", Weight: 2, Do: func(context.Context, chaos.Target) { s.failOver(w, rand.N(lease)) }},
		chaos.Fault{Name: "moved slot", Weight: 4, Do: func(context.Context, chaos.Target) { s.move(w, w.oneThing().name) }},
	)
	if *soakFor > 0 {
		troubles = append(troubles, chaos.Fault{Name: "long failover", Weight: 1, Do: func(context.Context, chaos.Target) { s.failOver(w, time.Minute) }})
	}
	for i := range troubles {
		do := troubles[i].Do
		troubles[i].Do = func(ctx context.Context, at chaos.Target) {
			do(ctx, at)
			if now := s.roleOf(); !maps.Equal(now, s.roles) {
				s.roles = now
				w.counts.forgetful.Add(1)
				w.counts.surprises.Add(1)
				s.cluster.AwaitOK()
			}
		}
	}
	return troubles
}

// target returns a random server. A fault stops the server only for a short time, so that the others do not replace it.
func (s *clustered) target(dice *rand.Rand) chaos.Target {
	i := dice.IntN(len(s.servers))
	return chaos.Target{Dice: dice, Server: s.servers[i], Redis: s.looks[i], Most: nodeTimeout / 4}
}

// failOver kills a master and waits until a replica has taken over. After the further time `down`, it restarts the killed server.
func (s *clustered) failOver(w *world, down time.Duration) {
	w.counts.forgetful.Add(1)
	s.cluster.FailOver(w.oneThing().name)
	chaos.Pause(context.Background(), down)
	s.cluster.Restore()
	w.password.set(w)
	s.roles = s.roleOf()
}

// move moves the slot of a name to another master.
func (s *clustered) move(w *world, name string) {
	from, to := s.cluster.Owner(name), (*redistest.Server)(nil)
	for to == nil || to == from {
		to = s.cluster.Owner(redistest.Name(w.t))
	}
	s.cluster.Move(int(scripts.Slot(name)), from, to, nil)
}

func (w *world) oneThing() *thing { return w.things[rand.IntN(len(w.things))] }
