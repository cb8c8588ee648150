// Package mutation turns on one of the mutants, the deliberate bugs that sim.Overlay builds into the runtime under test.
package mutation

import "sync/atomic"

var on atomic.Pointer[string]

// Switch turns one mutant on and all others off.
func Switch(name string) { on.Store(&name) }

// On reports whether a mutant is on.
func On(name string) bool {
	now := on.Load()
	return now != nil && *now == name
}
