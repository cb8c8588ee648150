// Package promises tests the promises that every kind of lock keeps on every setup: on a server, on a cluster, behind Sentinels.
package promises
