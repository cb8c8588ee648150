// Package mutation switches the mutants that are built into a runtime on purpose; see sim.Overlay.
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
