// Package redisnode knows the Redis servers of a runtime: which server is responsible for a key (Nodes), what the server's time is (Clock), and how
// releases are published (PublishMode). It also explains go-redis's errors, without passwords (Errors). The package sends commands only to find out
// these facts. The gateways, the subscriber and Runtime.Check use the package. It does not know actors or leases.
package redisnode
