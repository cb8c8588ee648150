// Package redisnode knows the Redis servers of a runtime: which one decides about a key (Nodes), its clock (Clock), how releases are
// published (PublishMode), and go-redis's errors in words for people, without passwords (Errors). It sends nothing but what it needs to
// find that out. The gateways, the subscriber and Runtime.Check use it; it knows nothing of actors and leases.
package redisnode
