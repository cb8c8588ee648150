// Package redisnode knows the Redis servers of a runtime: which server decides about a key (Nodes), its clock (Clock), how releases are
// published (PublishMode), and how go-redis's errors are explained, without passwords (Errors). The package sends only the commands that it
// needs for that. The gateways, the subscriber and Runtime.Check use it. It does not know actors or leases.
package redisnode
