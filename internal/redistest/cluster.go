package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const slots = 16384

// clusterWait is how long a cluster may take to agree on something.
const clusterWait = 30 * time.Second

// Cluster is a Redis Cluster for one test: masters with an equal share of the slots each, and their replicas.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // at the start, Replicas[i] follows Masters[i%len(Masters)]
	tb       testing.TB
	args     []string // of every node
	start    func(args ...string) *Server
	killed   *Server
}

// StartCluster starts a cluster, and returns when every node reports that the cluster is in order. A master that does not answer for
// nodeTimeout counts as failed.
func StartCluster(tb testing.TB, masters, replicasEach int, nodeTimeout time.Duration, args ...string) *Cluster {
	tb.Helper()
	return startCluster(tb, masters, replicasEach, nodeTimeout, args, func(args ...string) *Server { return Start(tb, args...) })
}

// startCluster is StartCluster with a function that starts the servers.
func startCluster(
	tb testing.TB, masters, replicasEach int, nodeTimeout time.Duration, args []string, start func(args ...string) *Server,
) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, start: start}
	args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0",
	}, args...)
	c.args = args
	for range masters {
		c.Masters = append(c.Masters, start(args...))
	}
	for range masters * replicasEach {
		c.Replicas = append(c.Replicas, start(args...))
	}
	c.join()
	return c
}

func (c *Cluster) nodes() []*Server {
	return append(append([]*Server(nil), c.Masters...), c.Replicas...)
}

// join makes one cluster of the nodes.
func (c *Cluster) join() {
	c.tb.Helper()
	ctx := context.Background()
	for i, master := range c.Masters {
		client := master.look()
		c.must(client.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		c.must(client.ClusterAddSlotsRange(ctx, i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1).Err())
	}
	c.introduce(ctx)
	for i, replica := range c.Replicas {
		master := c.Masters[i%len(c.Masters)].ID()
		c.must(replica.look().ClusterReplicate(ctx, master).Err())
	}
	c.AwaitOK()
}

// Grow adds a master without slots, and returns when all nodes know it.
func (c *Cluster) Grow() *Server {
	c.tb.Helper()
	c.Masters = append(c.Masters, c.start(c.args...))
	c.introduce(context.Background())
	c.AwaitOK()
	return c.Masters[len(c.Masters)-1]
}

// introduce makes the nodes meet, and returns when every node knows all others.
func (c *Cluster) introduce(ctx context.Context) {
	c.tb.Helper()
	var met time.Time
	await(c.tb, "every node to know the others", func() bool {
		if time.Since(met) > 2*time.Second { // on a busy machine, nodes may forget each other before their handshake ends
			met = time.Now()
			c.meet(ctx)
		}
		for _, node := range c.nodes() {
			known := node.look().ClusterNodes(ctx).Val()
			if strings.Contains(known, "handshake") || strings.Count(known, "\n") != len(c.nodes()) {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) meet(ctx context.Context) {
	c.tb.Helper()
	first := c.Masters[0].look()
	for _, node := range c.nodes()[1:] {
		host, port, _ := strings.Cut(node.Addr(), ":")
		c.must(first.ClusterMeet(ctx, host, port).Err())
	}
}

// AwaitOK returns when every node reports that all slots are served, and every replica follows its master.
func (c *Cluster) AwaitOK() {
	c.tb.Helper()
	ctx := context.Background()
	await(c.tb, "the cluster to be in order", func() bool {
		for _, node := range c.nodes() {
			client := node.look()
			info := client.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots)) {
				return false
			}
			replication := client.Info(ctx, "replication").Val()
			if strings.Contains(replication, "role:slave") && !strings.Contains(replication, "master_link_status:up") {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatalf("redistest: cluster: %v", err)
	}
}

func await(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for giveUp := time.Now().Add(clusterWait); !is(); {
		if time.Now().After(giveUp) {
			tb.Fatalf("redistest: waited %v for %s", clusterWait, what)
		}
		<-poll.C
	}
}

// Addrs returns the addresses of all nodes, masters first.
func (c *Cluster) Addrs() (addrs []string) {
	for _, node := range c.nodes() {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Client returns a new client of the cluster, which is closed when the test ends.
func (c *Cluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// ID returns the id of a cluster's node.
func (s *Server) ID() string {
	s.tb.Helper()
	id, err := s.look().Do(context.Background(), "cluster", "myid").Text()
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	return id
}

// Owner returns the node that serves a key.
func (c *Cluster) Owner(key string) *Server {
	c.tb.Helper()
	for _, node := range c.nodes() {
		slot, err := node.look().ClusterKeySlot(context.Background(), key).Result()
		if err != nil {
			continue // it is down
		}
		addr := c.masterOf(node, int(slot))
		for _, owner := range c.nodes() {
			if owner.Addr() == addr {
				return owner
			}
		}
	}
	c.must(fmt.Errorf("nobody serves %q", key))
	return nil
}

// Move moves a slot with all its keys from one master to another, as redis-cli --cluster reshard does. If the function `while` is not nil, Move calls
// it once, after it has moved the first key; if the slot is empty, Move never calls it.
//
// Move returns when the source knows of the target's claim to the slot. A caller can then safely move the slot back. If the slot were moved back
// earlier, the target's claim would arrive afterwards and win, and the source would delete the slot's keys.
func (c *Cluster) Move(slot int, from, to *Server, while func()) {
	c.tb.Helper()
	ctx := context.Background()
	source, target := from.look(), to.look()
	c.must(target.Do(ctx, "cluster", "setslot", slot, "importing", from.ID()).Err())
	c.must(source.Do(ctx, "cluster", "setslot", slot, "migrating", to.ID()).Err())
	host, port, _ := strings.Cut(to.Addr(), ":")
	for i := 0; ; i++ {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		c.must(err)
		if i == 1 && while != nil {
			while()
		}
		if len(keys) == 0 {
			break
		}
		c.must(source.Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err())
	}
	for _, client := range []*redis.Client{target, source} {
		c.must(client.Do(ctx, "cluster", "setslot", slot, "node", to.ID()).Err())
	}
	claim := epoch(target, to.ID())
	await(c.tb, "the source to know the claim", func() bool { return epoch(source, to.ID()) == claim })
}

// epoch asks one node for the config epoch of the node with this id. A node claims its slots with its config epoch.
func epoch(asked *redis.Client, id string) string {
	for line := range strings.Lines(asked.ClusterNodes(context.Background()).Val()) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[0] == id {
			return fields[6]
		}
	}
	return ""
}

// Follow starts a replica of a server, and returns when the replica is connected to it.
func Follow(tb testing.TB, master *Server) *Server {
	tb.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := Start(tb, "--replicaof", host, port)
	await(tb, "the replica to follow", func() bool {
		return strings.Contains(replica.look().Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	return replica
}

// FailOver kills the master of a key, and returns when every other node knows the new master.
func (c *Cluster) FailOver(key string) {
	c.tb.Helper()
	c.killed = c.replace(key, (*Server).Kill)
}

// FailOverSilent pauses the master of a key, and returns when every other node knows the new master.
func (c *Cluster) FailOverSilent(key string) {
	c.tb.Helper()
	c.replace(key, (*Server).Pause)
}

// replace makes the master of a key fail. When every other node knows the new master, replace returns the old one.
func (c *Cluster) replace(key string, fail func(*Server)) (old *Server) {
	c.tb.Helper()
	ctx := context.Background()
	old = c.Owner(key)
	slot := int(old.look().ClusterKeySlot(ctx, key).Val())
	fail(old)
	await(c.tb, "another master", func() bool {
		for _, node := range c.nodes() {
			if node == old {
				continue
			}
			if addr := c.masterOf(node, slot); addr == "" || addr == old.Addr() {
				return false
			}
		}
		return true
	})
	return old
}

// Switch makes a replica the new master of a key. The old master becomes a replica of the new one. Switch returns when every node knows the new
// master. Nothing is lost. Do not call Switch again before two node timeouts have passed: until then the masters do not vote, so the failover would
// time out, and meanwhile the old master would block its clients.
func (c *Cluster) Switch(key string) {
	c.tb.Helper()
	ctx := context.Background()
	old := c.Owner(key)
	slot := int(old.look().ClusterKeySlot(ctx, key).Val())
	id := old.ID()
	var replica *Server
	for _, node := range c.nodes() {
		for line := range strings.Lines(node.look().ClusterNodes(ctx).Val()) {
			if fields := strings.Fields(line); len(fields) > 3 && strings.Contains(fields[2], "myself,slave") && fields[3] == id {
				replica = node
			}
		}
	}
	if replica == nil {
		c.must(fmt.Errorf("the master of %q has no replica", key))
	}
	var asked time.Time
	await(c.tb, "the replica to be the master", func() bool {
		// If a busy machine delays the nodes' messages, Redis abandons the failover after five seconds. Then Switch asks again.
		if time.Since(asked) > 8*time.Second {
			asked = time.Now()
			c.must(replica.look().ClusterFailover(ctx).Err())
		}
		for _, node := range c.nodes() {
			if c.masterOf(node, slot) != replica.Addr() {
				return false
			}
		}
		return true
	})
}

// masterOf returns the address of a slot's master, as known to a node.
func (c *Cluster) masterOf(node *Server, slot int) string {
	for _, part := range node.look().ClusterSlots(context.Background()).Val() { //nolint:staticcheck // SHARDS is new in Redis 7
		if part.Start <= slot && slot <= part.End && len(part.Nodes) > 0 {
			return part.Nodes[0].Addr
		}
	}
	return ""
}

// Restore restarts the killed server, and returns when it is a replica and the cluster is in order.
func (c *Cluster) Restore() {
	c.tb.Helper()
	c.killed.Restart()
	await(c.tb, "the old master to follow", func() bool {
		return strings.Contains(c.killed.look().Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	c.AwaitOK()
}

// AwaitListener returns when a sharded channel has a subscriber.
func (c *Cluster) AwaitListener(channel string) {
	c.tb.Helper()
	owner := c.Owner(channel)
	await(c.tb, "a subscription", func() bool {
		return owner.look().PubSubShardNumSub(context.Background(), channel).Val()[channel] > 0
	})
}
