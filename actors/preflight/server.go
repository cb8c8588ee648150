package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// unreachable is the finding for a server that cannot be asked anything.
func unreachable(by *redisnode.Errors, err error) finding {
	err = by.Explain(err)
	f := finding{rank: rankReach, cause: err, Finding: protocol.Finding{
		What: by.Name + " cannot be reached", Why: err.Error(),
		Remedy: "see whether Redis runs there and lets this host in: address, port, firewall, TLS",
	}}
	var network *net.OpError
	switch code, _, _ := strings.Cut(scripts.Reply(err), " "); {
	case strings.Contains(err.Error(), "all sentinels"): // a text of go-redis, which has no error of its own for this
		f.What = "no Sentinel says where the master is"
		f.Remedy = "compare SentinelAddrs, MasterName (SENTINEL MASTERS), SentinelUsername and SentinelPassword of the client's options with the Sentinels"
	case redisnode.IsReply(err) && (code == "WRONGPASS" || code == "NOAUTH"):
		f.What = by.Name + " refuses the login"
		f.Remedy = "compare Username and Password of the client's options with the server: the user must exist, be on, and have that password (ACL GETUSER)"
	case scripts.IsDenied(err):
		f.What, f.Remedy = by.Name+" does not let this user ask which master has which keys", "grant +cluster|slots and +asking on every node"
	case errors.Is(err, redis.Nil): // go-redis cannot parse the list of slots
		f.What = by.Name + " does not say at which hosts its masters are"
		f.Remedy = "CONFIG SET cluster-preferred-endpoint-type ip, or hostname, on every node"
	case redisnode.IsReply(err):
		f.What, f.Remedy = by.Name+" refuses to work", remedyFor(err)
	case errors.Is(err, redis.ErrClosed):
		f.Remedy = "close the client after the runtime"
	case errors.As(err, &network) && network.Op == "dial":
	case redisnode.IsTimeout(err), errors.Is(err, io.EOF):
		f.What = by.Name + " does not answer"
		f.Remedy = "see whether it is overloaded or stopped (SLOWLOG GET, its log), whether its Sentinels answer if it has any, " +
			"and whether the client's connections have to be TLS"
	}
	return f
}

// about is what a server reports about itself. A field is "" if the server does not report it.
type about struct {
	version  string // the version of Redis; "" for Valkey, whose redis_version is only the version of Redis that it is compatible with
	role     string
	mode     string
	policy   string
	replicas string
}

// about calls INFO. If INFO fails, about calls HELLO: the runtime does not need INFO, so the user may have no right to call it.
func (c *check) about(ctx context.Context) (a about) {
	if reply, err := c.ask(ctx, "info"); err == nil {
		info, _ := reply.(string)
		field := func(name string) string {
			_, rest, found := strings.Cut("\n"+info, "\n"+name+":")
			if !found {
				return ""
			}
			value, _, _ := strings.Cut(rest, "\n")
			return strings.TrimSpace(value)
		}
		a = about{field("redis_version"), field("role"), field("redis_mode"), field("maxmemory_policy"), field("connected_slaves")}
		if field("valkey_version") != "" {
			a.version = ""
		}
		return a
	}
	reply, err := redisnode.Hello(ctx, c.node.Client)
	if err != nil {
		return a
	}
	text := func(name string) string { value, _ := reply[name].(string); return value }
	a.role, a.mode = text("role"), text("mode")
	if text("server") == "redis" {
		a.version = text("version")
	}
	return a
}

// server checks what the server is, and its settings. For example, it must be a master, and must not evict locks.
func (c *check) server(ctx context.Context) (findings []finding) {
	find := func(rank rank, what, why, remedy string) {
		findings = append(findings, finding{Finding: protocol.Finding{What: what, Why: why, Remedy: remedy}, rank: rank})
	}
	a, where := c.about(ctx), c.node.Errors.Name
	var major, minor int
	if n, _ := fmt.Sscanf(a.version, "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		find(rankVersion, "the server's version is "+a.version+", 6.2 or later is needed", where+" lacks commands that the scripts call", "upgrade it")
	}
	switch {
	case a.mode == "sentinel":
		find(rankRole, where+" is a Sentinel", "it keeps no keys, so it can keep no locks", "use redis.NewFailoverClient with its address, or the address of the master")
	case a.role == "slave" || a.role == "replica":
		find(rankRole, where+" is a replica", "it accepts no writes, and locks are written", "connect to the master; with Sentinel use redis.NewFailoverClient")
	}
	if c.node.Standalone && a.mode == "cluster" && c.shares(ctx) {
		find(rankRole, where+" is one of several masters of a cluster", "it refuses the locks of the others", "use redis.NewClusterClient")
	}
	if n, err := strconv.Atoi(a.replicas); err == nil && n < c.AckReplicas {
		find(rankSetting, fmt.Sprintf("AckReplicas is %d, the server has %d replicas", c.AckReplicas, n),
			"every acquire would fail with ErrNotReplicated", "connect more replicas, or lower Options.AckReplicas")
	}
	if a.policy != "" && a.policy != "noeviction" {
		find(rankSetting, "maxmemory-policy is "+a.policy, "locks may be evicted while they are held, and then have two holders",
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	}
	return findings
}

// sharesNames is how many names (*check).shares tries on a node of a cluster. If there are two masters, the probability that this node
// has all of the names is 2^-64.
const sharesNames = 64

// shares reports whether the cluster has other masters. It tries sharesNames names: if there is another master, it almost certainly has some of them.
func (c *check) shares(ctx context.Context) bool {
	var calls []scripts.Call
	for range sharesNames {
		key, err := c.throwAway()
		if err != nil {
			return false
		}
		calls = append(calls, scripts.CheckKey(key))
	}
	return slices.ContainsFunc(c.calls(ctx, calls...), func(r reply) bool {
		return r.err != nil && strings.HasPrefix(scripts.Reply(r.err), "MOVED ")
	})
}
