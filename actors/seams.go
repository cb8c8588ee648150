package actors

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	mathrand "math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Seams let a simulation replace the randomness and the clock of the runtimes in an actor system. A field that is zero gets its default.
type Seams struct {
	ID     string                            // the runtime's UUID; by default a random one
	First  uint64                            // the number from which grants, owners and leases are numbered; by default a random one
	Clock  clock.Clock                       // by default the clock of the operating system
	Jitter func(time.Duration) time.Duration // returns a random time of at least 0 and less than its argument; by default from math/rand
	Salt   func() uint64                     // random bits for the ids of grants; by default they come from the operating system
	Shard  func(name string) uint64          // chooses the registry's shard of a name; by default a hash with a random seed

	Between func(ctx context.Context) // see Engine.Between; may be nil
}

// setDefaults fills in the defaults. First is random, so that the grants of two processes differ even if the processes have the same ID.
func (s *Seams) setDefaults() {
	if s.ID == "" {
		s.ID = newUUID()
	}
	if s.First == 0 {
		s.First = uint64(mathrand.Int64N(1 << 52))
	}
	if s.Clock == nil {
		s.Clock = clock.NewSystem()
	}
	if s.Jitter == nil {
		s.Jitter = func(d time.Duration) time.Duration { return mathrand.N(max(d, 1)) }
	}
	if s.Salt == nil {
		s.Salt = salt
	}
	if s.Shard == nil {
		seed := maphash.MakeSeed()
		s.Shard = func(name string) uint64 { return maphash.String(seed, name) }
	}
}

// newUUID returns a random UUID (version 4, RFC 9562). Its 122 random bits come from the operating system, so no two runtimes share one.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

var seamsID = extensions.NextExtensionID()

// ExtensionID makes Seams an extension of an actor system.
func (*Seams) ExtensionID() extensions.ExtensionID { return seamsID }

// SeamsOf returns the seams that were registered with an actor system, or the zero value.
func SeamsOf(system *actor.ActorSystem) Seams {
	if system != nil {
		if s, ok := system.Extensions.Get(seamsID).(*Seams); ok {
			return *s
		}
	}
	return Seams{}
}
