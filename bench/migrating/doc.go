// Package migrating tests that a fleet can move from redsync or redislock to Holdfast process by process (Options.Migrating): the real
// clients of the three libraries share locks. It has only tests.
package migrating
