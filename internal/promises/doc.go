// Package promises has the tests of what holds for every kind of lock in every place: on a server, on a cluster, behind Sentinels.
package promises
