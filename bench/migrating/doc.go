// Package migrating shows that a fleet can move from redsync or redislock to Holdfast process by process (Options.Migrating): their real
// clients and Holdfast's share locks. It has only tests.
package migrating
