package scripts

import (
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// Family groups the kinds that must not hold the same name at once: they share one actor per name.
type Family uint8

// Exclusive is the family of the locks with one holder.
const Exclusive Family = iota

// Kind is one way to lock a name: a set of scripts and a policy. A new kind is a new value; the actors know none by name.
type Kind struct {
	Name    protocol.Kind
	Family  Family
	Handoff bool // the grant may serve one local holder after another

	Channel func(raw string) string // where releases are told

	Acquire      func(raw, grant string, lease time.Duration, wantHolder bool) Call
	Release      func(raw, grant, publish string) Call
	Pass         func(raw, from, grant string, lease time.Duration) Call
	Renew        func(raws, grants []string, lease time.Duration) Call
	Inspect      func(raw string) Call
	ForceRelease func(raw, publish string) Call
}

var kinds = map[protocol.Kind]*Kind{
	Lock.Name: Lock,
}

// KindOf finds a kind by its name in messages.
func KindOf(name protocol.Kind) (*Kind, bool) {
	k, ok := kinds[name]
	return k, ok
}
