// Package promises tests what holds for every kind of lock on every setup: on a server, on a cluster, behind Sentinels.
package promises
