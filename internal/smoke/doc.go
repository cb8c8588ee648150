// Package smoke shows that every kind works on a server: the redis-server in PATH, or the one that HOLDFAST_REDIS_SERVER names.
// .ci/smoke runs it on other versions of Redis, and on Valkey.
package smoke
